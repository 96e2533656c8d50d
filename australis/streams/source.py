"""The source proxy's pure half: raw tuples in, numbered buckets out.

A proxy gives each tuple its `_stime`, waits `slack` for tuples that come out of
order, and closes buckets as time passes. A tuple older than the published
boundary is late: it cannot enter the log any more, so it is handed back to be
counted and kept elsewhere. Within a bucket a source's tuples are ordered by
`_stime`, then by arrival.

A `Cursor` says where in a replayable source to continue after a crash: all rows
before `resume` are in the log or late; of the rows from `resume` to `read` those
at or before the boundary are. Which tuples are late depends on the order of the
rows alone, not on how they were cut into batches, so that a source read again
after a crash gives the same log.

A source whose rows carry their own times holds up the streams it is merged with
while it gives none. With `idle_us` its boundary follows the clock after that time
without rows. Such a boundary is in the log like any other: rows that come later
with older times are late, also after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from australis.streams.buckets import END_OF_STREAM_US, Buckets, stime_values
from australis.streams.canonical import by_bucket
from australis.streams.schema import TIMESTAMP, Schema


@dataclass(frozen=True)
class Cursor:
    """A position in a replayable source, counted in rows."""

    resume: int = 0
    read: int = 0
    newest_us: int = 0
    """The newest `_stime` before the row `resume`, which decides whether later rows are late."""


@dataclass(frozen=True)
class LateRows:
    """Late rows, each with the boundary that had been reached before it arrived."""

    rows: pa.RecordBatch
    boundaries_us: npt.NDArray[np.int64]


@dataclass(frozen=True)
class SourceStep:
    """One append to a source's log: finished buckets, the new boundary, the cursor."""

    buckets: list[tuple[int, pa.RecordBatch]]
    boundary_us: int
    cursor: Cursor


def row_schema(schema: Schema) -> pa.Schema:
    """The Arrow schema of a source's rows before they are tuples: `_stime` and the attributes."""
    return pa.schema([pa.field("_stime", TIMESTAMP), *schema.attributes])


class SourceStream:
    """Orders, buckets and numbers the tuples of one source."""

    def __init__(
        self,
        schema: Schema,
        buckets: Buckets,
        *,
        slack_us: int = 0,
        idle_us: int | None = None,
        boundary_us: int = 0,
        cursor: Cursor | None = None,
    ) -> None:
        self._schema = schema
        self._buckets = buckets
        self._slack_us = slack_us
        self._idle_us = idle_us
        self._took = True
        self._took_us = 0
        """The clock's time when the last row that was not late had come."""
        self._rows = row_schema(schema)
        self._pending: list[pa.RecordBatch] = []
        self._pending_at: list[npt.NDArray[np.int64]] = []
        """For each pending batch: the rows' numbers, and the newest `_stime` before each row."""
        cursor = cursor or Cursor()
        self._known = cursor.read
        self._known_boundary_us = boundary_us
        self._next_row = cursor.resume
        self._newest_us = cursor.newest_us
        self.boundary_us = boundary_us

    @property
    def row_schema(self) -> pa.Schema:
        """The Arrow schema of the rows that `offer` takes: `_stime` and the attributes."""
        return self._rows

    @property
    def ended(self) -> bool:
        """Whether the stream's last tuple is in its log."""
        return self.boundary_us >= END_OF_STREAM_US

    def offer(self, batch: pa.RecordBatch) -> LateRows:
        """Take rows in arrival order; returns the late ones."""
        at = np.arange(self._next_row, self._next_row + batch.num_rows)
        self._next_row += batch.num_rows
        stimes = stime_values(batch.column("_stime"))
        if not len(stimes):
            return LateRows(batch, stimes)
        newest = np.maximum.accumulate(np.concatenate(([self._newest_us], stimes)))
        self._newest_us = int(newest[-1])
        size = self._buckets.size_us
        due = (newest[:-1] - 1 - self._slack_us) // size * size
        boundaries_us = np.maximum(due, self.boundary_us)
        old = stimes <= boundaries_us
        self._took |= not old.all()
        places = np.stack((at, newest[:-1]))
        if not old.any():
            self._pending.append(batch)
            self._pending_at.append(places)
            return LateRows(batch.slice(0, 0), stimes[:0])
        self._pending.append(batch.filter(pa.array(~old)))
        self._pending_at.append(places[:, ~old])
        # A row read again was processed before the crash, unless it was still pending then.
        waited = stimes > np.maximum(due, self._known_boundary_us)
        late = old & ((at >= self._known) | waited)
        return LateRows(batch.filter(pa.array(late)), boundaries_us[late])

    def idle_clock(self, now_us: int) -> int | None:
        """The clock that sets boundaries while the source is idle; None while its rows do.

        Late rows do not count: they move no boundary, so the other streams would wait again.
        """
        if self._took:
            self._took, self._took_us = False, now_us
        idle = self._idle_us is not None and now_us - self._took_us >= self._idle_us
        return now_us if idle else None

    def due_boundary(self, clock_us: int | None = None) -> int:
        """The boundary that may be published: the newest tuple or the clock, minus the slack."""
        newest = self._newest_us if clock_us is None else max(clock_us, self._newest_us)
        # A further tuple may still carry the newest _stime itself.
        return max(self.boundary_us, self._buckets.floor(newest - 1 - self._slack_us))

    def close(self, boundary_us: int) -> SourceStep | None:
        """Close every bucket up to this boundary; None if it closes nothing new."""
        if boundary_us <= self.boundary_us:
            return None
        self.boundary_us = boundary_us
        if not self._pending:
            return SourceStep([], boundary_us, self._cursor())
        rows = pa.Table.from_batches(self._pending, self._rows).combine_chunks()
        places = np.concatenate(self._pending_at, axis=1)
        stimes = stime_values(rows.column("_stime"))
        done = stimes <= boundary_us
        later = rows.filter(pa.array(~done))
        self._pending = later.to_batches() if later.num_rows else []
        self._pending_at = _split(places[:, ~done], self._pending)
        chosen = np.flatnonzero(done)
        order = pa.array(chosen[np.argsort(stimes[chosen], kind="stable")])
        return SourceStep(
            by_bucket(rows, order, self._schema, self._buckets), boundary_us, self._cursor()
        )

    def end(self) -> SourceStep | None:
        """Close everything: no tuple will follow."""
        return self.close(END_OF_STREAM_US)

    def _cursor(self) -> Cursor:
        waiting = [tuple(places[:, 0].tolist()) for places in self._pending_at if places.size]
        resume, newest_us = min(waiting, default=(self._next_row, self._newest_us))
        return Cursor(resume, self._next_row, newest_us)


def _split(
    places: npt.NDArray[np.int64], batches: list[pa.RecordBatch]
) -> list[npt.NDArray[np.int64]]:
    ends = np.cumsum([batch.num_rows for batch in batches])[:-1]
    return list(np.split(places, ends, axis=1)) if batches else []


def valid_stimes(stimes: pa.Array, buckets: Buckets) -> pa.Array:
    """A mask of the times that a stream can carry: after 1970 and before ids run out."""
    micros = stimes.cast(pa.int64())
    valid = pc.and_(pc.greater(micros, 0), pc.less_equal(micros, buckets.max_stime_us))
    return pc.fill_null(valid, False)
