"""Receiving rows that cannot be requested again.

They are stamped, written to the journal and synced, and only then acknowledged;
after a crash the journal is read again. Rows without a time column are stamped on
arrival: with the clock, but never at or below a published boundary, whatever the
clock does: one that lies behind that boundary, as after a step back between two runs, is
caught up with by and by (`streams.source_clock`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from australis.diagram.model import ARRIVAL, Source
from australis.kernel.errors import AustralisError, Stopped, UserError
from australis.runtime.files import FileDisk
from australis.runtime.journal import Journal
from australis.runtime.source_log import SourceLog
from australis.runtime.sources.inbox import Delivery, Inbox
from australis.runtime.sources.replay import with_stimes
from australis.streams.buckets import Buckets, stime_values
from australis.streams.schema import TIMESTAMP
from australis.streams.source_clock import SourceClock

IDLE_S = 0.5


def has_ended(source: Source) -> UserError:
    """The error of pushing rows to a source after its end."""
    return UserError("has ended and takes no more rows", name=source.name, place=source.place)


class Receiver:
    """Moves rows from the inbox to the journal and the log; runs on the proxy's thread."""

    def __init__(
        self,
        source: Source,
        writer: SourceLog,
        inbox: Inbox,
        state: Path,
        buckets: Buckets,
        clock: Callable[[], int],
        on_journalled: Callable[[int], None] | None = None,
    ) -> None:
        """A receiver that acknowledges rows itself, or tells how many are in the journal, and
        leaves it to `acknowledge`."""
        self._source = source
        self._writer = writer
        self._inbox = inbox
        self._size_us = buckets.size_us
        self._clock = clock
        self._source_clock = SourceClock(writer.stream.boundary_us, clock())
        self._disk = FileDisk(state / "journal" / source.name)
        self.journal = Journal(self._disk, writer.stream.row_schema)
        self._last_us = 0
        self._on_journalled = on_journalled
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, Delivery]] = deque()
        """The deliveries that are to be acknowledged, with the number of rows up to each."""
        self._acknowledged = 0

    def step(self) -> bool:
        """Take waiting rows, or wait a while for some; returns whether the source has ended."""
        if self._admit(self._inbox.take(self._patience_s())):
            return True
        stream = self._writer.stream
        if self._source.time == ARRIVAL:
            clock_us: int | None = self._now_us()
        else:
            clock_us = stream.idle_clock(self._clock())
            self._writer.stats.idle = clock_us is not None
        self._writer.stats.ahead_us = 0 if clock_us is None else self._ahead_us()
        self._writer.close(stream.due_boundary(clock_us))
        self.journal.forget(self._writer.memo.resume)
        return False

    def release(self) -> None:
        """Close the files, and refuse the rows that wait for their acknowledgement."""
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        for _, delivery in waiting:
            delivery.finish(Stopped("the source stopped before its standby had the rows"))
        self._disk.close()

    def acknowledge(self, rows: int) -> None:
        """Acknowledge the rows before this number to their producers."""
        done: list[Delivery] = []
        with self._lock:
            self._acknowledged = max(self._acknowledged, rows)
            while self._waiting and self._waiting[0][0] <= self._acknowledged:
                done.append(self._waiting.popleft()[1])
        for delivery in done:
            delivery.finish()

    def recover(self) -> None:
        """Process the rows again that the journal holds and the log does not."""
        memo = self._writer.memo
        for rows in self.journal.rows_from(memo.resume):
            self._writer.take(rows)
            self._last_us = max(self._last_us, int(stime_values(rows.column("_stime")).max()))
        self._last_us = max(self._last_us, memo.newest_us)
        if self._writer.next_row < memo.read:
            raise Stopped(
                f"the journal of '{self._source.name}' ends at row {self._writer.next_row},"
                f" but its log knows of {memo.read}"
            )
        self.acknowledge(self._writer.next_row)  # any of them may have been acknowledged

    def _now_us(self) -> int:
        """The arrival time of a tuple that arrives now."""
        now_us = self._source_clock.time(self._clock())
        self._last_us = max(now_us, self._writer.stream.boundary_us + 1, self._last_us)
        return self._last_us

    def _ahead_us(self) -> int:
        """How far the stream is ahead of the clock that it follows."""
        now_us = self._clock()
        if self._source.time == ARRIVAL:
            return self._source_clock.ahead_us(now_us)
        return max(0, self._writer.stream.boundary_us - now_us)

    def _patience_s(self) -> float:
        """The time until there is work to do if no row arrives."""
        if self._source.time != ARRIVAL and self._source.idle_us is None:
            return IDLE_S
        now_us = self._source_clock.time(self._clock()) - 1 - self._source.slack_us
        return min(IDLE_S, (self._size_us - now_us % self._size_us) / 1e6)

    def _admit(self, deliveries: list[Delivery]) -> bool:
        """Make deliveries durable and process them; returns whether the source has ended."""
        last = next((i for i, d in enumerate(deliveries) if d.end), None)
        taken = deliveries if last is None else deliveries[: last + 1]
        try:
            self._take(taken)
            if last is not None:
                self._writer.end()
                self.journal.clear()
        except BaseException as error:
            known = error if isinstance(error, AustralisError) else Stopped(f"stopped: {error}")
            for delivery in deliveries:
                delivery.finish(known)
            raise
        if last is not None:
            self._inbox.shut(has_ended(self._source))
            for delivery in deliveries[last + 1 :]:
                delivery.finish(has_ended(self._source))
        self._acknowledge(taken)
        return last is not None

    def _acknowledge(self, deliveries: list[Delivery]) -> None:
        """Acknowledge deliveries that are durable here, or have that done."""
        upto = self._writer.next_row
        if self._on_journalled is None:
            self._acknowledged = upto
        with self._lock:
            self._waiting += [(upto, delivery) for delivery in deliveries]
        self.acknowledge(self._acknowledged)
        if self._on_journalled is not None and deliveries:
            self._on_journalled(upto)

    def _take(self, deliveries: list[Delivery]) -> None:
        parts = [self._stamped(d) for d in deliveries if d.rows.num_rows]
        rejected = [one for d in deliveries for one in d.rejected]
        if rejected:
            self._writer.reject(rejected)
            self._writer.sync_rejected()
        if parts:
            rows = pa.concat_batches(parts)
            self.journal.append(self._writer.next_row, rows)
            self._writer.take(rows)

    def _stamped(self, delivery: Delivery) -> pa.RecordBatch:
        stimes = delivery.stimes
        if stimes is None:
            stimes = pa.array(np.full(delivery.rows.num_rows, self._now_us()), TIMESTAMP)
        return with_stimes(stimes, delivery.rows)
