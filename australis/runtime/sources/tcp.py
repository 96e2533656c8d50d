"""JSON lines from TCP connections.

Each connection has a thread. It gathers lines for a moment, parses them at once
and delivers them; it reads no further before they are durable, so that TCP's flow
control slows down a fast producer. With `ack: true` the producer gets, as a number
on a line, how many of its lines have been processed so far: accepted, or rejected
for good. After a broken connection it sends the unacknowledged lines again.

`tcp_door` decides who is let in. When there is no room for another connection, the oldest
that has not sent anything yet makes way.
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from australis.diagram.model import ARRIVAL, Source
from australis.kernel.errors import UserError
from australis.node.admission import MAX_UNKNOWN, Limits
from australis.runtime.listener import IDENTIFY_TIMEOUT_S, Connection, Listener
from australis.runtime.node.events import Tell, tell_nobody
from australis.runtime.options import Options
from australis.runtime.sources.base import Rejected
from australis.runtime.sources.columns import drop
from australis.runtime.sources.inbox import Delivery, Inbox
from australis.runtime.sources.json_rows import JsonRows
from australis.runtime.sources.lines import Block, LineSplitter
from australis.runtime.sources.stamp import Stamper
from australis.runtime.sources.tcp_door import TCP_OPTIONS, Door, read_address
from australis.streams.buckets import Buckets

GATHER_S = 0.02
GATHER_LINES = 1000
LINE_BYTES = 1 << 20
POLL_S = 0.2
MAX_PRODUCERS = 256
"""The largest number of connections of a source, each of which may hold a line in memory."""
ACK_TIMEOUT_S = 10.0
"""The time in which a producer has to take an acknowledgement."""


class TcpListener:
    """Listens for connections and delivers their rows."""

    def __init__(
        self,
        source: Source,
        buckets: Buckets,
        inbox: Inbox,
        base: Path = Path(),
        tell: Tell = tell_nobody,
        max_connections: int = MAX_PRODUCERS,
        clock: Callable[[], int] | None = None,
    ) -> None:
        options = Options(source, TCP_OPTIONS)
        self._ack = options.flag("ack")
        self._source = source
        self._buckets = buckets
        self._inbox = inbox
        self._door = Door(source, base)
        self._clock = clock
        host, port = read_address(options)
        room = min(max_connections, MAX_PRODUCERS)
        # Where nothing has to be shown, who is silent may be a producer that has no rows yet.
        limits = Limits(room, MAX_UNKNOWN if self._door.identifies else room)
        name = f"source {source.name}"
        try:
            silence_s = IDENTIFY_TIMEOUT_S if self._door.identifies else None
            self._listener = Listener(name, host, port, self._serve, tell, limits, silence_s)
        except OSError as error:
            raise UserError(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                name=source.name,
                place=source.place,
            ) from None

    @property
    def address(self) -> tuple[str, int]:
        """The address on which it listens."""
        return self._listener.address

    @property
    def refused(self) -> Counter[str]:
        """The number of connections that were refused, by reason."""
        return self._listener.refused

    def start(self) -> None:
        """Start to accept connections."""
        self._listener.start()

    def stop(self) -> None:
        """Accept nothing more and let the connections' threads end."""
        self._listener.stop()

    def _serve(self, connection: Connection) -> None:
        # If the producer is gone or the source stops, unacknowledged rows come again.
        rest = self._door.enter(connection)
        told = _Connection(
            connection.socket,
            self._source,
            self._buckets,
            self._inbox,
            connection.peer,
            self._ack,
            self._clock,
        )
        told.run(lambda: self._listener.stopping, rest)


class _Connection:
    """The connection of one producer."""

    def __init__(
        self,
        connection: socket.socket,
        source: Source,
        buckets: Buckets,
        inbox: Inbox,
        peer: str,
        ack: bool,
        clock: Callable[[], int] | None,
    ) -> None:
        self._connection = connection
        self._inbox = inbox
        self._peer = peer
        self._ack = ack
        self._json = JsonRows(source)
        self._stamper = None if source.time == ARRIVAL else Stamper(source, buckets, clock)
        self._splitter = LineSplitter(LINE_BYTES)
        self._blocks: list[Block] = []
        self._waiting = 0
        self._lines = 0
        self._gather_until = 0.0

    def run(self, stopping: Callable[[], bool], first: bytes = b"") -> None:
        """Read until the producer closes or the source stops; `first` has been read already."""
        if first:
            self._add(self._splitter.feed(first))
        while not stopping():
            left = self._gather_until - time.monotonic() if self._waiting else POLL_S
            self._connection.settimeout(max(left, 0.001))
            try:
                data = self._connection.recv(1 << 16)
            except TimeoutError:
                self._hand_on()
                continue
            self._add(self._splitter.feed(data) if data else self._splitter.finish())
            if not data or self._waiting >= GATHER_LINES or time.monotonic() >= self._gather_until:
                self._hand_on()
            if not data:
                return

    def _add(self, block: Block) -> None:
        if not block.data and not block.rejected:
            return
        if not self._waiting:
            self._gather_until = time.monotonic() + GATHER_S
        self._blocks.append(block)
        unended = bool(block.data) and not block.data.endswith(b"\n")
        self._waiting += block.data.count(b"\n") + unended + len(block.rejected)

    def _hand_on(self) -> None:
        if not self._waiting:
            return
        rejected: list[Rejected] = []
        batches: list[pa.RecordBatch] = []
        for block in self._joined():
            chunk = self._json.parse(block)
            rejected += chunk.rejected
            batches.append(chunk.rows)
        self._deliver(pa.concat_batches(batches), rejected)
        self._lines += self._waiting
        self._blocks, self._waiting = [], 0
        if self._ack:
            self._connection.settimeout(ACK_TIMEOUT_S)
            self._connection.sendall(b"%d\n" % self._lines)

    def _joined(self) -> list[Block]:
        """The blocks, adjacent ones merged, so that Arrow parses them at once."""
        joined: list[Block] = []
        for block in self._blocks:
            if joined and not joined[-1].rejected:
                before = joined.pop()
                block = Block(before.first_line, before.data + block.data, block.rejected)
            joined.append(block)
        return joined

    def _deliver(self, rows: pa.RecordBatch, rejected: list[Rejected]) -> None:
        stimes: pa.Array | None = None
        if self._stamper is not None:
            stimes, wrong = self._stamper.stimes(rows)
            if wrong:
                rejected += self._stamper.reject(rows, wrong)
                rows = drop(rows, dict.fromkeys(wrong, ""))
                stimes, _ = self._stamper.stimes(rows)
        told = tuple(Rejected(one.line, f"{self._peer}: {one.reason}", one.raw) for one in rejected)
        self._inbox.deliver(Delivery(rows, stimes, told))
