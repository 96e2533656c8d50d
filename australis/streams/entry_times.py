"""The entry times of a log's buckets, as runs of buckets that entered together."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

MAX_RUNS = 4096
"""The largest number of runs; the entry times of older ones are dropped."""

Runs = tuple[int, list[tuple[int, int]]]
"""Runs of (last bucket, time), and the last bucket before the first of them."""


class EntryTimes:
    """Entry times by runs (last bucket, time); a bucket entered with the first run that reaches it.

    >>> times = EntryTimes()
    >>> times.note(4, [(6, 100), (9, 200)])
    >>> times.at(6), times.at(7), times.at(4)
    (100, 200, None)
    >>> list(times.edges(4, 8))
    [6]
    """

    def __init__(self) -> None:
        self._after = -1
        """The last bucket before the first run."""
        self._upto: list[int] = []
        self._times: list[int] = []

    def note(self, after: int, runs: Sequence[tuple[int, int]]) -> None:
        """Add runs that begin after a bucket; known entry times stay unchanged."""
        if not self._upto:
            self._after = after
        for upto, at in runs:
            if self._upto and upto <= self._upto[-1]:
                continue
            if self._times and self._times[-1] == at:
                self._upto[-1] = upto
                continue
            self._upto.append(upto)
            self._times.append(at)
        over = len(self._upto) - MAX_RUNS
        if over > 0:
            self._after = self._upto[over - 1]
            del self._upto[:over], self._times[:over]

    def between(self, after: int, upto: int) -> Runs:
        """The runs of the buckets (after, upto], and the last bucket before them."""
        first = bisect_right(self._upto, after)
        before = self._upto[first - 1] if first else self._after
        runs = []
        for last, at in zip(self._upto[first:], self._times[first:], strict=True):
            if before < upto:
                runs.append((min(last, upto), at))
            if last >= upto:
                break
        return before, runs

    def clip(self, upto: int) -> None:
        """Drop what is known of the buckets after this one."""
        at = bisect_left(self._upto, upto) if upto > self._after else 0
        reached = at < len(self._upto) and upto > self._after
        self._upto[at:] = [upto] if reached else []
        del self._times[at + reached :]

    @property
    def upto(self) -> int:
        """The last bucket whose entry time is known."""
        return self._upto[-1] if self._upto else self._after

    def at(self, number: int) -> int | None:
        """The entry time of a bucket; None if it is unknown."""
        at = bisect_left(self._upto, number)
        known = number > self._after and at < len(self._upto)
        return self._times[at] if known else None

    def edges(self, after: int, upto: int) -> Iterator[int]:
        """The last buckets of the runs that end in (after, upto]."""
        first = bisect_left(self._upto, after + 1)
        for edge in self._upto[first:]:
            if edge > upto:
                return
            yield edge
