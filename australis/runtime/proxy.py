"""The source proxy: one thread that turns a source into a stable log.

A source that can be read again is read from the log's cursor on; rows that
cannot be requested again go through a `Receiver` and its journal. Either way
every row is in the log once, or in the file of late tuples once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from australis.diagram.model import Source
from australis.kernel.errors import AustralisError, Stopped
from australis.runtime.journal import Journal
from australis.runtime.node.events import Tell, tell_nobody
from australis.runtime.options import Options
from australis.runtime.receiver import Receiver, has_ended
from australis.runtime.source_log import SourceLog, SourceStats
from australis.runtime.sources import check_options, open_reader
from australis.runtime.sources.base import Reader
from australis.runtime.sources.inbox import Inbox
from australis.runtime.sources.push import PushHandle
from australis.runtime.sources.replay import Pacer, RowRelease, stamped
from australis.runtime.sources.tcp import MAX_PRODUCERS, TcpListener
from australis.streams.log import SEGMENT_BYTES, StableLog

JOURNALLED = ("push", "tcp")
"""The kinds of sources whose rows cannot be requested again."""
CLOSE_ROWS = 100_000
CLOSE_EVERY_S = 0.2
"""The interval at which a source at full speed appends its buckets, to sync seldom."""
ROOM_POLL_S = 0.02

_WALL_AT_START_US = time.time_ns() // 1000
_MONOTONIC_AT_START_NS = time.monotonic_ns()


def wall_clock_us() -> int:
    """The wall clock, read once at the start, so that later steps of the clock have no effect."""
    return _WALL_AT_START_US + (time.monotonic_ns() - _MONOTONIC_AT_START_NS) // 1000


class SourceProxy:
    """Runs one source on a separate thread."""

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
        full: Callable[[], bool] = lambda: False,
        release_bytes: int = SEGMENT_BYTES,
        began: tuple[int, int] | None = None,
        on_journalled: Callable[[int], None] | None = None,
        tell: Tell = tell_nobody,
        max_connections: int = MAX_PRODUCERS,
    ) -> None:
        """A proxy; at full speed its source waits for `room` ahead of its consumers.

        While its log is `full` no row is taken: files are not read on, and what is pushed is not
        acknowledged. At full speed it appends at most about `release_bytes` at once.

        A paced source follows the time that has passed since it `began`: by the clock, and in
        its own time. Without `began` it continues from where it was. With `on_journalled` rows
        that cannot be requested again are acknowledged by `acknowledge` only. A tcp source has at most
        `max_connections`.
        """
        check_options(source)
        self.source = source
        self.error: BaseException | None = None
        self.push_handle: PushHandle | None = None
        self.listener: TcpListener | None = None
        self._receiver: Receiver | None = None
        self._log = log
        self._on_error = on_error
        self._clock = clock
        self._room = room
        self._full = full
        self._release_bytes = release_bytes
        self._began = began
        self._on_journalled = on_journalled
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"source {source.name}", daemon=True)
        self._inbox = Inbox()
        replayable = source.kind not in JOURNALLED
        self._writer = SourceLog(source, log, state, on_append=on_append, read_again=replayable)
        self._ended = self._writer.stream.ended
        self._reader = open_reader(source, base) if replayable and not self._ended else None
        if not replayable:
            self._open_door(state, base, tell, max_connections)

    def _open_door(self, state: Path, base: Path, tell: Tell, max_connections: int) -> None:
        if self._ended:
            self._inbox.shut(has_ended(self.source))
        else:
            self._receiver = Receiver(
                self.source,
                self._writer,
                self._inbox,
                state,
                self._log.buckets,
                self._clock,
                self._on_journalled,
            )
        if self.source.kind == "push":
            self.push_handle = PushHandle(self.source, self._log.buckets, self._inbox, self._clock)
        elif not self._ended:
            self.listener = TcpListener(
                self.source,
                self._log.buckets,
                self._inbox,
                base,
                tell,
                max_connections,
                clock=self._clock,
            )

    @property
    def stats(self) -> SourceStats:
        """The counts of the source so far."""
        return self._writer.stats

    @property
    def journal(self) -> Journal | None:
        """The journal of a source whose rows cannot be requested again."""
        return None if self._receiver is None else self._receiver.journal

    def acknowledge(self, rows: int) -> None:
        """Acknowledge the rows before this number to their producers."""
        if self._receiver is not None:
            self._receiver.acknowledge(rows)

    @property
    def share(self) -> float | None:
        """The approximate share of the rows that has been read; None where that is unknown."""
        if self._ended or self._writer.stream.ended:
            return 1.0
        paced = Options(self.source, self.source.options).speed() is not None
        return None if self._reader is None or paced else self._reader.share

    def start(self) -> None:
        """Start to read from where the log ends."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end soon; the source itself does not end."""
        self._stopping.set()
        self._inbox.wake()
        if self._thread.ident is None:
            self._clean_up()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until the thread has ended; returns whether it has."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            if self._ended:
                return
            if self._reader is not None:
                self._replay(self._reader)
            elif self._receiver is not None:
                self._receive(self._receiver)
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
        if self._receiver is not None:
            self._receiver.release()
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

    def _rush(self, releases: Iterator[RowRelease]) -> None:
        taken, taken_bytes, closed_at = 0, 0, time.monotonic()
        self._wait_while_full()
        for release in releases:
            if self._stopping.is_set():
                return
            self._writer.take(release.rows, release.rejected, release.unstampable)
            taken += release.rows.num_rows
            taken_bytes += release.rows.nbytes
            enough = taken >= CLOSE_ROWS or taken_bytes >= self._release_bytes
            if enough or time.monotonic() - closed_at > CLOSE_EVERY_S:
                self._writer.close(self._writer.stream.due_boundary())
                self._wait_for_room()
                taken, taken_bytes, closed_at = 0, 0, time.monotonic()

    def _wait_while_full(self) -> None:
        while self._full() and not self._stopping.wait(ROOM_POLL_S):
            pass

    def _wait_for_room(self) -> None:
        while self._full() or (self._room is not None and not self._room()):
            if self._stopping.wait(ROOM_POLL_S):
                return

    def _pace(self, releases: Iterator[RowRelease], speed: float) -> None:
        began = None
        if self._began is not None:
            at_us, stream_us = self._began
            began = (time.monotonic() - (self._clock() - at_us) / 1e6, stream_us)
        pacer = Pacer(
            speed,
            self._log.buckets,
            slack_us=self.source.slack_us,
            boundary_us=self._log.boundary_us,
            began=began,
            wait=self._stopping.wait,
        )
        for release in pacer.pace(releases):
            self._wait_while_full()
            if self._stopping.is_set():
                return
            self._writer.take(release.rows, release.rejected, release.unstampable)
            self._writer.stats.ahead_us = pacer.ahead_us
            self._writer.close(self._writer.stream.due_boundary(release.clock_us))

    # --- sources that cannot --------------------------------------------------

    def _receive(self, receiver: Receiver) -> None:
        receiver.recover()
        if self.listener is not None:
            self.listener.start()
        while not self._stopping.is_set():
            if self._full():
                self._stopping.wait(ROOM_POLL_S)
            elif receiver.step():
                return
