"""A stream as a table that is kept current.

    with connect("cluster.yaml") as cluster, cluster.view("alerts", last="10 min") as view:
        while view.wait():
            print(view.pandas())

A thread follows the stream; `live.contents` says which tuples count. What the table holds
is all that is kept in memory.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa

from australis.kernel.errors import UserError
from australis.live.client import Subscription
from australis.live.contents import Contents

if TYPE_CHECKING:
    import pandas as pd

PATIENCE_S = 5.0
"""So long a view that is closed waits for its thread."""


class View:
    """The tuples of a stream that count now; made by `Connection.view`."""

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
        """What there is now; what has ended the view, if it was not closed."""
        if self._error is not None:
            raise self._error
        return self._contents

    def arrow(self) -> pa.Table:
        """The stable tuples, and the tentative ones that have not been taken back.

        `_type` says what a tuple is (0 stable, 1 tentative), `_stime` is its time.
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
        """The last bucket that is stable; -1 before the first one."""
        return self._contents.upto

    @property
    def tentative(self) -> int:
        """How many tuples are tentative now."""
        return self._contents.tentative

    @property
    def skipped(self) -> int:
        """How many buckets are missing: nobody had kept them when they were asked for."""
        return self._contents.skipped

    def wait(self, timeout_s: float | None = None, *, upto: int | None = None) -> bool:
        """Wait until the table is another one than when it was last looked at, or waited for.

        With `upto`, wait until that bucket is stable. False if that did not come in time, or
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
        """Follow the stream no longer; the table stays as it is."""
        self._subscription.close()
        self._thread.join(PATIENCE_S)

    def __enter__(self) -> View:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
