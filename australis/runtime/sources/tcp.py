"""JSON lines from TCP connections.

Each connection has a thread. It gathers lines for a moment, parses them at once
and delivers them; it reads no further before they are durable, so that TCP's flow
control slows down a fast producer. With `ack: true` the producer gets, as a number
on a line, how many of its lines have been processed so far: accepted, or rejected
for good. After a broken connection it sends the unacknowledged lines again.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import pyarrow as pa

from australis.diagram.model import ARRIVAL, Source
from australis.kernel.errors import AustralisError, UserError
from australis.runtime.options import Options
from australis.runtime.sources.base import Rejected
from australis.runtime.sources.columns import drop
from australis.runtime.sources.inbox import Delivery, Inbox
from australis.runtime.sources.json_rows import JsonRows
from australis.runtime.sources.lines import Block, LineSplitter
from australis.runtime.sources.stamp import Stamper
from australis.streams.buckets import Buckets

TCP_OPTIONS = ("address", "ack", "unit")
GATHER_S = 0.02
GATHER_LINES = 1000
LINE_BYTES = 1 << 20
POLL_S = 0.2


def read_address(options: Options) -> tuple[str, int]:
    """Host and port of `address`; port 0 takes any free one."""
    text = options.text("address")
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise options.wrong(f"has the option address: {text!r}, which is not host:port")
    return host.strip("[]") or "0.0.0.0", int(port)


class TcpListener:
    """Listens for connections and delivers their rows."""

    def __init__(
        self,
        source: Source,
        buckets: Buckets,
        inbox: Inbox,
        clock: Callable[[], int] | None = None,
    ) -> None:
        options = Options(source, TCP_OPTIONS)
        self._ack = options.flag("ack")
        self._source = source
        self._buckets = buckets
        self._inbox = inbox
        self._clock = clock
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        host, port = read_address(options)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family)
        except OSError as error:
            raise UserError(
                f"cannot listen on {host}:{port}: {error.strerror or error}",
                name=source.name,
                place=source.place,
            ) from None
        self._socket.settimeout(POLL_S)

    @property
    def address(self) -> tuple[str, int]:
        """The address on which it listens."""
        host, port = self._socket.getsockname()[:2]
        return host, port

    def start(self) -> None:
        """Start to accept connections."""
        self._spawn(self._accept, "accept")

    def stop(self) -> None:
        """Accept nothing more and let the connections' threads end."""
        self._stopping.set()
        self._socket.close()
        for thread in self._threads:
            thread.join(2.0)

    def _spawn(self, target: Callable[..., None], what: str, *args: object) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        name = f"{self._source.name}-{what}"
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, peer = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            self._spawn(self._serve, "connection", connection, f"{peer[0]}:{peer[1]}")

    def _serve(self, connection: socket.socket, peer: str) -> None:
        told = _Connection(
            connection, self._source, self._buckets, self._inbox, peer, self._ack, self._clock
        )
        try:
            with connection:
                told.run(self._stopping)
        except (OSError, AustralisError):
            return  # the producer is gone or the source stopped: unacknowledged rows come again


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

    def run(self, stopping: threading.Event) -> None:
        """Read until the producer closes or the source stops."""
        while not stopping.is_set():
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
            self._connection.settimeout(10.0)
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
