"""The source proxy: one thread that turns a source into a stable log.

A source that can be read again is read from the log's cursor on; rows that
cannot be asked for again go through a `Receiver` and its journal. Either way
every row is in the log once, or in the file of late tuples once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from australis.diagram.model import Source
from australis.kernel.errors import AustralisError, Stopped
from australis.live.options import Options
from australis.live.receiver import Receiver, has_ended
from australis.live.source_log import SourceLog, SourceStats
from australis.live.sources import check_options, open_reader
from australis.live.sources.base import Reader
from australis.live.sources.inbox import Inbox
from australis.live.sources.push import PushHandle
from australis.live.sources.replay import Pacer, Release, stamped
from australis.live.sources.tcp import TcpListener
from australis.streams.log import StableLog

CLOSE_ROWS = 100_000
CLOSE_EVERY_S = 0.2
"""At full speed buckets are appended together, to sync seldom."""
ROOM_POLL_S = 0.02

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
        began: tuple[int, int] | None = None,
    ) -> None:
        """Sources at full speed wait for `room` ahead of their readers.

        Others are as far as the time that has passed since they `began`: by the clock, and in
        their own time. Without that they go on from where they were.
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
        self._began = began
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
        if self._ended:
            self._inbox.shut(has_ended(self.source))
        else:
            self._receiver = Receiver(
                self.source, self._writer, self._inbox, state, self._log.buckets, self._clock
            )
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
            if self._stopping.is_set():
                return
            self._writer.take(release.rows, release.rejected, release.unstampable)
            self._writer.close(self._writer.stream.due_boundary(release.clock_us))

    # --- sources that cannot --------------------------------------------------

    def _receive(self, receiver: Receiver) -> None:
        receiver.recover()
        if self.listener is not None:
            self.listener.start()
        while not self._stopping.is_set() and not receiver.step():
            pass
