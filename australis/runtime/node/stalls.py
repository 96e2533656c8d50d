"""The detection of queries, threads and writes that make no progress although they have work."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable

STALLED_AFTER_S = 30.0
"""The time without a new micro-batch after which a query that has work counts as stalled."""
LONG_BATCH_S = 300.0
"""The duration of one micro-batch after which a query counts as stalled."""


class StallWatch:
    """Watches the progress of one query; `look` is called several times a second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._progress: tuple[int, int] | None = None
        """The last micro-batch that was begun and the last one committed; None without work."""
        self._since_s = 0.0
        self.stalled = False

    @property
    def stalled_s(self) -> float | None:
        """The time without progress; None if the query is not stalled."""
        return round(self._clock() - self._since_s, 1) if self.stalled else None

    def look(self, progress: tuple[int, int] | None) -> bool:
        """Record progress (None without work); returns whether the query stalled or recovered."""
        now, before = self._clock(), self.stalled
        if progress is None or progress != self._progress:
            self._progress, self._since_s, self.stalled = progress, now, False
        else:
            begun, committed = progress
            limit_s = LONG_BATCH_S if begun > committed else STALLED_AFTER_S
            self.stalled = now - self._since_s >= limit_s
        return self.stalled != before


class Standstill:
    """Finds work that is the same at so many looks in a row that it must hang.

    It counts looks, not seconds: a process that was paused has not looked either.

    >>> watch = Standstill(looks=2)
    >>> [watch.look(["sync"]), watch.look(["sync", "write"]), watch.look(["write"])]
    [None, None, None]
    >>> watch.look(["write"])
    'write'
    """

    def __init__(self, looks: int) -> None:
        self._looks = looks
        self._seen: dict[Hashable, int] = {}

    def look(self, work: Collection[Hashable]) -> Hashable | None:
        """Look at what is under way; returns work that hangs, if there is any."""
        self._seen = {one: self._seen.get(one, -1) + 1 for one in work}
        return next((one for one, looks in self._seen.items() if looks >= self._looks), None)
