"""The watch of a node over itself: that it makes progress, and that its clock can be trusted.

A node whose driver thread hangs or has died, or whose disk does not return from a write, still
answers whoever asks. It is of no use to anyone: it ends, and whoever looks after it starts it
again. A node that waits for its inputs is not stuck: its driver thread turns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from australis.kernel.errors import Stopped
from australis.runtime.files import under_way
from australis.runtime.node.driver import Driver
from australis.runtime.node.events import ERROR, Tell
from australis.runtime.node.stalls import Standstill

LOOK_S = 1.0
STUCK_LOOKS = 60
"""The number of looks after which an event or a write that is still under way counts as stuck."""


class Watch:
    """Looks once a second whether a node makes progress, on a thread of its own."""

    def __init__(
        self,
        driver: Driver,
        tell: Tell,
        fail: Callable[[BaseException], None],
        also: Iterable[Callable[[], None]] = (),
    ) -> None:
        """A watch that lets the node `fail` when it is stuck; it takes the looks of `also` too."""
        self._driver = driver
        self._tell = tell
        self._fail = fail
        self._also = tuple(also)
        self._turns = Standstill(STUCK_LOOKS)
        self._files = Standstill(STUCK_LOOKS)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Start to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; a look that hangs is not waited for."""
        self._stopping.set()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(LOOK_S):
                why = self.stuck()
                if why is not None:
                    self._tell("stuck", level=ERROR, why=why)
                    raise Stopped(why)
                for look in self._also:
                    self._take(look)
        except BaseException as error:
            self._fail(error)

    def _take(self, look: Callable[[], None]) -> None:
        """Take a look that only tells something: a node does not end because it fails."""
        try:
            look()
        except Exception as error:
            self._tell("error", level=ERROR, kind="watch", why=f"while it looked: {error!r}")

    def stuck(self) -> str | None:
        """Why this node makes no progress; None if it makes some."""
        if self._driver.died:
            return "the driver thread has died"
        self._driver.nudge()
        if self._turns.look([self._driver.turns]) is not None:
            handled = self._driver.handling or "an event"
            return f"the driver thread has not returned from {handled} for {_limit_s():.0f} s"
        files = under_way()
        key = self._files.look(list(files))
        if key is not None:
            return f"the disk has not returned for {_limit_s():.0f} s from: {files[key]}"
        return None


def _limit_s() -> float:
    return LOOK_S * STUCK_LOOKS
