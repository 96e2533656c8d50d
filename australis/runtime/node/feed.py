"""A source on a node: its proxy, and the buckets that are reported to its machine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from australis.diagram.model import ARRIVAL, Source
from australis.kernel.machine import Event
from australis.protocols.dpc.effects import BucketClosed, LimitSource
from australis.protocols.dpc.proxies import SourceMachine
from australis.protocols.dpc.source_pair import RowsJournalled
from australis.protocols.dpc.subscribers import Subscribers
from australis.runtime.logs import SharedLog
from australis.runtime.options import Options
from australis.runtime.proxy import JOURNALLED, SourceProxy
from australis.streams.buckets import END_OF_STREAM_US
from australis.streams.log import segment_bytes_of
from australis.streams.source_clock import SourceClock

DRAIN_SPEED = 16
"""The speed, in times real time, at which the stream of a source that was read at full speed
continues with empty buckets after its end."""


class SourceFeed:
    """Reports closed buckets to a source's machine.

    While the source produces rows these are the buckets that its proxy has logged. After its end
    empty buckets follow as time passes, by the clock that its rows followed, so that its stream
    does not hold up the streams it is merged with.
    """

    def __init__(
        self,
        source: Source,
        log: SharedLog,
        machine: SourceMachine,
        post: Callable[[str, Event], None],
        on_error: Callable[[BaseException], None],
        now: Callable[[], int],
        *,
        state: Path,
        base: Path,
        began: tuple[int, int] | None,
        room: Callable[[], bool],
        member: str = "",
    ) -> None:
        """A feed whose stream ends with its source if `began` is None, else continues after it.

        With a standby it reports to this `member`, also how many rows its journal has.
        """
        self._log = log
        log.entry_clock = now
        self._machine = machine
        self._limit: int | None = None
        self._on_error = on_error
        self._report = partial(post, member or source.name)
        self._now = now
        self._source = source
        self._began = began
        self._clock: SourceClock | None = None
        """The clock of an ended source whose stream goes on by it."""
        self._over: tuple[int, int] | None = None
        """The time and bucket at which an unpaced source was seen to have ended."""
        self._closed = log.closed if not self._ended else -1
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._ticker = threading.Thread(
            target=self._tick, name=f"end of {source.name}", daemon=True
        )
        self.proxy = SourceProxy(
            source,
            log,
            state,
            base=base,
            on_append=lambda stream: self._appended(),
            on_error=on_error,
            clock=now,
            began=began,
            on_journalled=self._journalled if member else None,
            room=room,
            full=lambda: self.full,
            release_bytes=segment_bytes_of(self.max_bytes),
        )

    def log(self, stream: str) -> SharedLog:
        """The source's log."""
        return self._log

    def limit(self, effect: LimitSource) -> None:
        """Hold back buckets beyond this one (back-pressure)."""
        self._limit = effect.upto

    @property
    def max_bytes(self) -> int | None:
        """The bytes that fit its log."""
        return self._machine.subscribers.bounds.max_bytes

    @property
    def full(self) -> bool:
        """Whether the log has no room, so that the source waits (back-pressure)."""
        limited = self._limit is not None and self.closed >= self._limit
        return limited or self._log.trimmed_upto < self._log.fits_after(self.max_bytes)

    @property
    def waits_for(self) -> list[str]:
        """The consumers for which a full log waits."""
        return self._machine.waits_for

    @property
    def subscribers(self) -> Subscribers:
        """The consumers of the source."""
        return self._machine.subscribers

    @property
    def _ended(self) -> bool:
        return self._began is not None and self._log.boundary_us >= END_OF_STREAM_US

    @property
    def closed(self) -> int:
        """The last bucket that is closed for its consumers."""
        return max(self._closed, self._log.trimmed_upto)

    def start(self) -> None:
        """Start to read the source."""
        if self._ended:
            rows = self._log.last_bucket
            self._closed = self._log.trimmed_upto if rows is None else rows
        if self._began is not None:
            self._ticker.start()
        self.proxy.start()

    def _appended(self) -> None:
        if not self._ended:
            self._close(self._log.closed)

    def _close(self, upto: int) -> None:
        with self._lock:
            if upto <= self._closed:
                return
            before, self._closed = self._closed, upto
            self._log.note_entries(before, [(upto, self._now())])
            digests = self._log.recent_digests(before, upto)
            fits_after = self._log.fits_after(self.max_bytes)
        self._report(BucketClosed(self._source.name, upto, digests, fits_after))

    def _journalled(self, rows: int) -> None:
        self._report(RowsJournalled(self._source.name, rows))

    def _tick(self) -> None:
        try:
            self._go_on()
        except BaseException as error:
            self._on_error(error)

    def _go_on(self) -> None:
        """Close empty buckets as time passes, once the source has ended."""
        every_s = self._log.buckets.size_us / 1e6
        while not self._stopping.wait(every_s):
            if self._ended and not self.full:
                rows = self._log.last_bucket
                known = max(self.closed, -1 if rows is None else rows, self._known)
                self._close(max(known, self._by_now(known)))

    @property
    def due(self) -> int | None:
        """The last bucket that should be closed by now; None if that does not follow a clock."""
        stats, source = self.proxy.stats, self._source
        follows = source.kind not in JOURNALLED or source.time == ARRIVAL or stats.idle
        time_us = self._time_us() if follows or self._ended else None
        return None if time_us is None else self._log.buckets.closed_by(time_us - source.slack_us)

    def _time_us(self) -> int | None:
        """The time that its clock or its pace has reached; None at full speed."""
        if self._source.kind in JOURNALLED:
            return self._now()
        speed = Options(self._source, self._source.options).speed()
        if speed is None or self._began is None:
            return None
        at_us, stream_us = self._began
        return stream_us + int((self._now() - at_us) * speed)

    def _by_now(self, known: int) -> int:
        """The last bucket that is closed by now, for a source that has ended."""
        source, buckets, now = self._source, self._log.buckets, self._now()
        time_us = self._time_us()
        if time_us is not None:
            if self._clock is None:
                self._clock = SourceClock(buckets.end(known), time_us)
            return buckets.closed_by(self._clock.time(time_us) - source.slack_us)
        if self._over is None:
            self._over = (now, known)
        since, bucket = self._over
        return bucket + DRAIN_SPEED * (now - since) // buckets.size_us

    @property
    def _known(self) -> int:
        """The last bucket that any consumer has, which an earlier incarnation must have closed."""
        consumers = self._machine.subscribers.all.values()
        return max((one.have for one in consumers), default=-1)

    def stop(self) -> None:
        """Stop reading; the source itself does not end."""
        self._stopping.set()
        self.proxy.stop()
        self.proxy.join()
        with suppress(RuntimeError):
            self._ticker.join()
