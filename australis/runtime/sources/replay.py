"""Replay: the rows of a reader, stamped, and released at the speed that the user sets.

At full speed (`speed: max`) rows are released as fast as they are read. With a number,
time passes that many times as fast as it did when the rows were recorded: a row is
released when it is due, and in a gap the paced clock advances, and boundaries with it.
The clock given with a release never lies beyond the next row's time; therefore pacing
has no influence on which rows are late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from australis.diagram.model import Source
from australis.runtime.sources.base import Reader, Rejected
from australis.runtime.sources.columns import drop
from australis.runtime.sources.stamp import Stamper
from australis.streams.buckets import Buckets, stime_values
from australis.streams.schema import TIMESTAMP
from australis.streams.source_clock import SourceClock

SLICE_S = 0.02
"""The time slice within which paced rows that are due are released together."""


@dataclass(frozen=True)
class RowRelease:
    """Rows to take now, with `_stime` as first column, and the time of the paced clock."""

    rows: pa.RecordBatch
    rejected: tuple[Rejected, ...] = ()
    unstampable: int = 0
    clock_us: int | None = None


def with_stimes(stimes: pa.Array, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with `_stime` as their first column."""
    schema = pa.schema([pa.field("_stime", TIMESTAMP), *rows.schema])
    return pa.RecordBatch.from_arrays([stimes, *rows.columns], schema=schema)


def stamped(
    reader: Reader, source: Source, buckets: Buckets, skip: int, unstampable: int = 0
) -> Iterator[RowRelease]:
    """The reader's rows with their `_stime`, without the first `skip` good ones.

    `unstampable` is the number of rows that had no usable time so far. The reader counts
    those as rows, so if there were any it has to start from the beginning.
    """
    stamper = Stamper(source, buckets)
    in_reader = 0 if unstampable else skip
    skip -= in_reader
    for chunk in reader.chunks(in_reader):
        stimes, wrong = stamper.stimes(chunk.rows)
        rows = drop(with_stimes(stimes, chunk.rows), dict.fromkeys(wrong, ""))
        rejected = (*chunk.rejected, *stamper.reject(chunk.rows, wrong))
        skipped = min(skip, rows.num_rows)
        skip -= skipped
        yield RowRelease(rows.slice(skipped), rejected, len(wrong))


class Pacer:
    """Releases rows at a multiple of the speed at which they were recorded."""

    def __init__(
        self,
        speed: float,
        buckets: Buckets,
        *,
        slack_us: int = 0,
        boundary_us: int = 0,
        began: tuple[float, int] | None = None,
        wait: Callable[[float], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """A pacer whose clock showed a time at `began`; by default the clock starts with it."""
        self._speed = speed
        self._size_us = buckets.size_us
        self._slack_us = slack_us
        self._boundary_us = boundary_us
        self._wait = wait
        self._monotonic = monotonic
        self._newest_us = 0
        self._start = began
        self._clock: SourceClock | None = None
        self._stopped = False

    def pace(self, releases: Iterator[RowRelease]) -> Iterator[RowRelease]:
        """The same rows, each when it is due; ends early if `wait` reports a stop."""
        ahead = _with_rows(releases)
        current = next(ahead, None)
        while current is not None and not self._stopped:
            following = next(ahead, None)
            yield from self._pace_one(current, following)
            current = following

    def _pace_one(self, release: RowRelease, following: RowRelease | None) -> Iterator[RowRelease]:
        due = self._due(release)
        if not len(due):
            yield release
            return
        after = max(int(due[-1]), _first(following)) if following is not None else int(due[-1])
        self._newest_us = int(due[-1])
        at, n = 0, len(due)
        pending = replace(release, rows=release.rows.slice(0, 0))
        while at < n:
            now_us = self._now_us(int(due[0]))
            upto = int(np.searchsorted(due, now_us, "right"))
            next_us = int(due[upto]) if upto < n else after
            rows = release.rows.slice(at, upto - at)
            yield replace(pending, rows=rows, clock_us=min(now_us, next_us))
            pending, at = RowRelease(pending.rows), upto
            if at < n and self._sleep(now_us, next_us):
                return
        if following is not None:
            yield from self._bridge(pending, after)

    def _bridge(self, nothing: RowRelease, next_us: int) -> Iterator[RowRelease]:
        """Advance the clock until the first row of the next chunk is due."""
        while (now_us := self._now_us(next_us)) < next_us:
            yield replace(nothing, clock_us=now_us)
            if self._sleep(now_us, next_us):
                return

    def _due(self, release: RowRelease) -> npt.NDArray[np.int64]:
        """The time at which each row is due, never before an earlier row."""
        due: npt.NDArray[np.int64] = np.maximum.accumulate(stime_values(release.rows.column(0)))
        return np.maximum(due, self._newest_us)

    def _now_us(self, first_us: int) -> int:
        if self._start is None:
            # After a restart the clock continues from the boundary, not from the oldest row.
            self._start = (self._monotonic(), max(first_us, self._boundary_us))
        now_us = self._paced_us()
        if self._clock is None:
            self._clock = SourceClock(self._boundary_us, now_us)
        return self._clock.time(now_us)

    def _paced_us(self) -> int:
        """The time that its pace has reached."""
        assert self._start is not None
        began, at_us = self._start
        return at_us + int((self._monotonic() - began) * self._speed * 1e6)

    @property
    def ahead_us(self) -> int:
        """How far the released rows are ahead of the pace, in time by the clock."""
        if self._clock is None:
            return 0
        return int(self._clock.ahead_us(self._paced_us()) / self._speed)

    def _sleep(self, now_us: int, next_us: int) -> bool:
        """Wait for the next row or the next boundary, but at least a slice."""
        reached = (now_us - 1 - self._slack_us) // self._size_us
        edge_us = (reached + 1) * self._size_us + 1 + self._slack_us
        pause_s = (min(next_us, edge_us) - now_us) / self._speed / 1e6
        self._stopped = self._wait(max(SLICE_S, pause_s))
        return self._stopped


def _with_rows(releases: Iterator[RowRelease]) -> Iterator[RowRelease]:
    """Only releases that have rows; rejected rows of the others go with the next one."""
    rejected: tuple[Rejected, ...] = ()
    unstampable = 0
    last: RowRelease | None = None
    for release in releases:
        last = release
        rejected, unstampable = (*rejected, *release.rejected), unstampable + release.unstampable
        if release.rows.num_rows:
            yield replace(release, rejected=rejected, unstampable=unstampable)
            rejected, unstampable, last = (), 0, None
    if last is not None and rejected:
        yield replace(last, rejected=rejected, unstampable=unstampable)


def _first(release: RowRelease) -> int:
    stimes = stime_values(release.rows.column(0))
    return int(stimes[0]) if len(stimes) else 0
