"""A stream as a table that is kept current.

    with connect("cluster.yaml") as cluster, cluster.view("alerts", last="10 min") as view:
        while view.wait():
            print(view.pandas())

A thread follows the stream; `runtime.contents` says which tuples count. What the table holds
is all that is kept in memory.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa

from australis.kernel.errors import UserError
from australis.runtime.client import Subscription
from australis.runtime.contents import Contents

if TYPE_CHECKING:
    import pandas as pd

CLOSE_TIMEOUT_S = 5.0
"""The longest time that closing a view waits for its thread."""


class View:
    """The current tuples of a stream; made by `Connection.view`."""

    def __init__(self, subscription: Subscription, contents: Contents) -> None:
        self._subscription = subscription
        self._contents = contents
        self._changed = threading.Condition()
        self._version = self._seen = 0
        self._over = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._follow, name=f"view of {subscription.stream}", daemon=True
        )
        self._thread.start()

    def _follow(self) -> None:
        error: BaseException | None = None
        try:
            for change in self._subscription:
                with self._changed:
                    self._version += self._contents.apply(change)
                    self._changed.notify_all()
        except BaseException as raised:
            error = raised
        with self._changed:
            self._error, self._over = error, True
            self._changed.notify_all()

    def _look(self) -> Contents:
        """The current contents; raises the error that ended the view, unless it was closed."""
        if self._error is not None:
            raise self._error
        return self._contents

    def arrow(self) -> pa.Table:
        """The stable tuples, and the tentative ones that have not been revoked.

        `_type` is the kind of a tuple (0 INSERTION, 1 TENTATIVE), `_stime` its time, `_missing`,
        if it was asked for, the sources of which something is missing in it.
        """
        with self._changed:
            table = self._look().table()
            self._seen = self._version
        return table

    def pandas(self) -> pd.DataFrame:
        """The same as a data frame."""
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise UserError("pandas is not installed: use `arrow()`, or install it") from None
        return self.arrow().to_pandas()

    @property
    def upto(self) -> int:
        """The last stable bucket; -1 before the first one."""
        return self._contents.upto

    @property
    def tentative(self) -> int:
        """The number of tentative tuples now."""
        return self._contents.tentative

    @property
    def skipped(self) -> int:
        """The number of missing buckets, which no log held any more when they were requested."""
        return self._contents.skipped

    def wait(self, timeout_s: float | None = None, *, upto: int | None = None) -> bool:
        """Wait until the table has changed since it was last read, or waited for.

        With `upto`, wait until that bucket is stable. Returns False after the timeout, or if
        the view is closed.
        """

        def there() -> bool:
            if upto is not None:
                return self._contents.upto >= upto
            return self._version > self._seen

        with self._changed:
            self._changed.wait_for(lambda: there() or self._over, timeout_s)
            self._look()
            came = there()
            self._seen = self._version
            return came

    def close(self) -> None:
        """Stop following the stream; the table stays as it is."""
        self._subscription.close()
        self._thread.join(CLOSE_TIMEOUT_S)

    def __enter__(self) -> View:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
