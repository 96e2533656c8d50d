"""A source on a node: its proxy, and what its machine hears of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from australis.diagram.model import Source
from australis.kernel.machine import Event
from australis.live.datapath import SharedLog
from australis.live.node.hosts import SourceHost
from australis.live.options import Options
from australis.live.proxy import SourceProxy
from australis.protocols.dpc.effects import BucketClosed
from australis.streams.buckets import END_OF_STREAM_US

FAST = 16
"""So much faster than time a source that was read at full speed goes on when it has ended."""


class SourceFeed:
    """Tells a source's machine which buckets are closed.

    While the source gives rows that is what its proxy has logged. When it has ended, empty
    buckets follow as time passes, by the clock that its rows followed: its stream must not hold
    up those it is merged with.
    """

    def __init__(
        self,
        source: Source,
        log: SharedLog,
        host: SourceHost,
        post: Callable[[str, Event], None],
        on_error: Callable[[BaseException], None],
        now: Callable[[], int],
        *,
        state: Path,
        base: Path,
        began: tuple[int, int],
    ) -> None:
        self.log = log
        self._host = host
        self._post = post
        self._now = now
        self._source = source
        self._began = began
        self._over: tuple[int, int] | None = None
        """When the end of a source without a pace of its own was seen, and at which bucket."""
        self._closed = log.buckets.closed_by(log.boundary_us) if not self._ended else -1
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
        )

    @property
    def _ended(self) -> bool:
        return self.log.boundary_us >= END_OF_STREAM_US

    @property
    def closed(self) -> int:
        """The last bucket that is closed, as far as its readers are concerned."""
        return max(self._closed, self.log.begins)

    def start(self) -> None:
        """Begin to read the source."""
        if self._ended:
            rows = self.log.last_bucket
            self._closed = self.log.begins if rows is None else rows
        self._ticker.start()
        self.proxy.start()

    def _appended(self) -> None:
        if not self._ended:
            self._close(self.log.buckets.closed_by(self.log.boundary_us))

    def _close(self, upto: int) -> None:
        with self._lock:
            if upto <= self._closed:
                return
            now = self._now()
            for number in range(max(self._closed + 1, upto - 64), upto + 1):
                self._host.entered(self._host.name, number, now)
            self._closed = upto
        self._post(self._host.name, BucketClosed(self._host.name, upto))

    def _tick(self) -> None:
        every_s = self.log.buckets.size_us / 1e6
        while not self._stopping.wait(every_s):
            if self._ended:
                rows = self.log.last_bucket
                known = max(self.closed, -1 if rows is None else rows, self._known)
                self._close(max(known, self._by_now(known)))

    def _by_now(self, known: int) -> int:
        """The bucket up to which time has passed for a source that has ended."""
        source, buckets, now = self._source, self.log.buckets, self._now()
        if source.kind in ("push", "tcp"):
            return buckets.closed_by(now - source.slack_us)
        speed = Options(source, source.options).speed()
        if speed is not None:
            at_us, stream_us = self._began
            return buckets.closed_by(stream_us + int((now - at_us) * speed) - source.slack_us)
        if self._over is None:
            self._over = (now, known)
        since, bucket = self._over
        return bucket + FAST * (now - since) // buckets.size_us

    @property
    def _known(self) -> int:
        """The last bucket that a consumer has: in an earlier life it was closed already."""
        consumers = self._host.machine.subscribers.all.values()
        return max((one.have for one in consumers), default=-1)

    def stop(self) -> None:
        """Stop reading; the source itself does not end."""
        self._stopping.set()
        self.proxy.stop()
        self.proxy.join()
        with suppress(RuntimeError):
            self._ticker.join()
