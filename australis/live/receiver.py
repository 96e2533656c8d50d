"""Receiving rows that cannot be asked for again.

They are stamped, written to the journal and synced, and only then acknowledged;
after a crash the journal is what is read again. Rows without a time column are
stamped on arrival: with the clock, but never at or below a boundary that was
published, whatever the clock does. While the clock lies behind that boundary,
as after a step back between two runs, rows are taken and wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from australis.diagram.model import ARRIVAL, Source
from australis.kernel.errors import AustralisError, Stopped, UserError
from australis.live.files import FileDisk
from australis.live.journal import Journal
from australis.live.source_log import SourceLog
from australis.live.sources.inbox import Delivery, Inbox
from australis.live.sources.replay import with_stimes
from australis.streams.buckets import Buckets, stime_values
from australis.streams.schema import TIMESTAMP

IDLE_S = 0.5


def has_ended(source: Source) -> UserError:
    """The mistake of giving rows to a source after its end."""
    return UserError("has ended and takes no more rows", name=source.name, place=source.place)


class Receiver:
    """Takes what the inbox holds into the journal and the log; runs on the proxy's thread."""

    def __init__(
        self,
        source: Source,
        writer: SourceLog,
        inbox: Inbox,
        state: Path,
        buckets: Buckets,
        clock: Callable[[], int],
    ) -> None:
        self._source = source
        self._writer = writer
        self._inbox = inbox
        self._size_us = buckets.size_us
        self._clock = clock
        self._disk = FileDisk(state / "journal" / source.name)
        self._journal = Journal(self._disk, writer.stream.row_schema)
        self._last_us = 0

    def step(self) -> bool:
        """Take what has come, or wait a while for it; whether the source has ended."""
        if self._admit(self._inbox.take(self._patience_s())):
            return True
        clock_us = self._now_us() if self._source.time == ARRIVAL else None
        self._writer.close(self._writer.stream.due_boundary(clock_us))
        self._journal.forget(self._writer.memo.resume)
        return False

    def release(self) -> None:
        """Close the files."""
        self._disk.close()

    def recover(self) -> None:
        """Take the rows again that the journal holds and the log does not."""
        memo = self._writer.memo
        for rows in self._journal.rows_from(memo.resume):
            self._writer.take(rows)
            self._last_us = max(self._last_us, int(stime_values(rows.column("_stime")).max()))
        self._last_us = max(self._last_us, memo.newest_us)
        if self._writer.next_row < memo.read:
            raise Stopped(
                f"the journal of '{self._source.name}' ends at row {self._writer.next_row},"
                f" but its log knows of {memo.read}"
            )

    def _now_us(self) -> int:
        """The arrival time of a tuple that comes now."""
        self._last_us = max(self._clock(), self._writer.stream.boundary_us + 1, self._last_us)
        return self._last_us

    def _patience_s(self) -> float:
        """How long nothing needs to be done if no row comes."""
        if self._source.time != ARRIVAL:
            return IDLE_S
        now_us = self._clock() - 1 - self._source.slack_us
        return min(IDLE_S, (self._size_us - now_us % self._size_us) / 1e6)

    def _admit(self, deliveries: list[Delivery]) -> bool:
        """Make what was delivered durable and take it; whether the source has ended."""
        last = next((i for i, d in enumerate(deliveries) if d.end), None)
        taken = deliveries if last is None else deliveries[: last + 1]
        try:
            self._take(taken)
            if last is not None:
                self._writer.end()
                self._journal.clear()
        except BaseException as error:
            known = error if isinstance(error, AustralisError) else Stopped(f"stopped: {error}")
            for delivery in deliveries:
                delivery.finish(known)
            raise
        if last is not None:
            self._inbox.shut(has_ended(self._source))
            for delivery in deliveries[last + 1 :]:
                delivery.finish(has_ended(self._source))
        for delivery in taken:
            delivery.finish()
        return last is not None

    def _take(self, deliveries: list[Delivery]) -> None:
        parts = [self._stamped(d) for d in deliveries if d.rows.num_rows]
        rejected = [one for d in deliveries for one in d.rejected]
        if rejected:
            self._writer.reject(rejected)
            self._writer.sync_rejected()
        if parts:
            rows = pa.concat_batches(parts)
            self._journal.append(self._writer.next_row, rows)
            self._writer.take(rows)

    def _stamped(self, delivery: Delivery) -> pa.RecordBatch:
        stimes = delivery.stimes
        if stimes is None:
            stimes = pa.array(np.full(delivery.rows.num_rows, self._now_us()), TIMESTAMP)
        return with_stimes(stimes, delivery.rows)
