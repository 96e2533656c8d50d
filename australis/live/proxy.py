"""The source proxy: one thread that turns a source into a stable log.

A source that can be read again is read from the log's cursor on. Rows that
cannot be asked for again are stamped, written to the journal and synced, and
only then acknowledged; after a crash the journal is what is read again. Either
way every row is in the log once, or in the file of late tuples once.

Rows without a time column are stamped on arrival: with the clock, but never at
or below a boundary that was published, whatever the clock does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from australis.diagram.model import ARRIVAL, Source
from australis.kernel.errors import AustralisError, Stopped, UserError
from australis.live.files import FileDisk
from australis.live.journal import Journal
from australis.live.options import Options
from australis.live.source_log import SourceLog, SourceStats
from australis.live.sources import check_options, open_reader
from australis.live.sources.base import Reader
from australis.live.sources.inbox import Delivery, Inbox
from australis.live.sources.push import PushHandle
from australis.live.sources.replay import Pacer, Release, stamped, with_stimes
from australis.live.sources.tcp import TcpListener
from australis.streams.buckets import stime_values
from australis.streams.log import StableLog
from australis.streams.schema import TIMESTAMP

CLOSE_ROWS = 100_000
CLOSE_EVERY_S = 0.2
"""At full speed buckets are appended together, to sync seldom."""
ROOM_POLL_S = 0.02
IDLE_S = 0.5

_WALL_AT_START_US = time.time_ns() // 1000
_MONOTONIC_AT_START_NS = time.monotonic_ns()


def wall_clock_us() -> int:
    """The time of day, read once; later steps of the system's clock do not show."""
    return _WALL_AT_START_US + (time.monotonic_ns() - _MONOTONIC_AT_START_NS) // 1000


class SourceProxy:
    """Runs one source on a thread of its own."""

    def __init__(
        self,
        source: Source,
        log: StableLog,
        state: Path,
        *,
        base: Path,
        on_append: Callable[[str], None],
        on_error: Callable[[BaseException], None] | None = None,
        clock: Callable[[], int] = wall_clock_us,
        room: Callable[[], bool] | None = None,
    ) -> None:
        """`room` says whether a source at full speed may read further ahead of its readers."""
        check_options(source)
        self.source = source
        self.error: BaseException | None = None
        self.push_handle: PushHandle | None = None
        self.listener: TcpListener | None = None
        self._log = log
        self._on_error = on_error
        self._clock = clock
        self._room = room
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"source {source.name}", daemon=True)
        self._inbox = Inbox()
        replayable = source.kind not in ("push", "tcp")
        self._writer = SourceLog(source, log, state, on_append=on_append, read_again=replayable)
        self._ended = self._writer.stream.ended
        self._reader = open_reader(source, base) if replayable and not self._ended else None
        if not replayable:
            self._open_door(state)

    def _open_door(self, state: Path) -> None:
        self._disk = FileDisk(state / "journal" / self.source.name)
        self._journal = Journal(self._disk, self._writer.stream.row_schema)
        self._last_us = 0
        if self._ended:
            self._inbox.shut(UserError("has ended and takes no more rows", name=self.source.name))
        if self.source.kind == "push":
            self.push_handle = PushHandle(self.source, self._log.buckets, self._inbox)
        elif not self._ended:
            self.listener = TcpListener(self.source, self._log.buckets, self._inbox)

    @property
    def stats(self) -> SourceStats:
        """How far it is."""
        return self._writer.stats

    def start(self) -> None:
        """Begin, from where the log ends."""
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end soon; the source itself does not end."""
        self._stopping.set()
        self._inbox.wake()
        if self._thread.ident is None:
            self._clean_up()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until the thread has ended; whether it has."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            if self._ended:
                return
            if self._reader is not None:
                self._replay(self._reader)
            else:
                self._receive()
        except BaseException as error:
            self.error = error
            if self._on_error is not None:
                self._on_error(error)
        finally:
            self._clean_up()

    def _clean_up(self) -> None:
        reason = self.error
        if isinstance(reason, AustralisError) or reason is None:
            self._inbox.shut(reason)
        else:
            self._inbox.shut(Stopped(f"the source stopped: {reason}"))
        if self.listener is not None:
            self.listener.stop()
        if self.source.kind in ("push", "tcp"):
            self._disk.close()
        self._writer.release()

    # --- sources that can be read again --------------------------------------

    def _replay(self, reader: Reader) -> None:
        speed = Options(self.source, self.source.options).speed()
        memo = self._writer.memo
        releases = stamped(reader, self.source, self._log.buckets, memo.resume, memo.unstampable)
        if speed is None:
            self._rush(releases)
        else:
            self._pace(releases, speed)
        if not self._stopping.is_set():
            self._writer.end()

    def _rush(self, releases: Iterator[Release]) -> None:
        taken, closed_at = 0, time.monotonic()
        for release in releases:
            if self._stopping.is_set():
                return
            self._writer.take(release.rows, release.rejected, release.unstampable)
            taken += release.rows.num_rows
            if taken >= CLOSE_ROWS or time.monotonic() - closed_at > CLOSE_EVERY_S:
                self._writer.close(self._writer.stream.due_boundary())
                self._wait_for_room()
                taken, closed_at = 0, time.monotonic()

    def _wait_for_room(self) -> None:
        while self._room is not None and not self._room():
            if self._stopping.wait(ROOM_POLL_S):
                return

    def _pace(self, releases: Iterator[Release], speed: float) -> None:
        pacer = Pacer(
            speed,
            self._log.buckets,
            slack_us=self.source.slack_us,
            boundary_us=self._log.boundary_us,
            wait=self._stopping.wait,
        )
        for release in pacer.pace(releases):
            if self._stopping.is_set():
                return
            self._writer.take(release.rows, release.rejected, release.unstampable)
            self._writer.close(self._writer.stream.due_boundary(release.clock_us))

    # --- sources that cannot --------------------------------------------------

    def _receive(self) -> None:
        self._recover()
        if self.listener is not None:
            self.listener.start()
        while not self._stopping.is_set():
            if self._admit(self._inbox.take(self._patience_s())):
                return
            clock_us = self._now_us() if self.source.time == ARRIVAL else None
            self._writer.close(self._writer.stream.due_boundary(clock_us))
            self._journal.forget(self._writer.memo.resume)

    def _recover(self) -> None:
        memo = self._writer.memo
        for rows in self._journal.rows_from(memo.resume):
            self._writer.take(rows)
            self._last_us = max(self._last_us, int(stime_values(rows.column("_stime")).max()))
        self._last_us = max(self._last_us, memo.newest_us)
        if self._writer.next_row < memo.read:
            raise Stopped(
                f"the journal of '{self.source.name}' ends at row {self._writer.next_row},"
                f" but its log knows of {memo.read}"
            )

    def _now_us(self) -> int:
        """The arrival time of a tuple that comes now."""
        self._last_us = max(self._clock(), self._writer.stream.boundary_us + 1, self._last_us)
        return self._last_us

    def _patience_s(self) -> float:
        """How long nothing needs to be done if no row comes."""
        if self.source.time != ARRIVAL:
            return IDLE_S
        size_us, now_us = self._log.buckets.size_us, self._clock() - 1 - self.source.slack_us
        return min(IDLE_S, (size_us - now_us % size_us) / 1e6)

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
            ended = UserError("has ended and takes no more rows", name=self.source.name)
            self._inbox.shut(ended)
            for delivery in deliveries[last + 1 :]:
                delivery.finish(ended)
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
