"""Outgoing connections: one for each other node, in order, with bounded memory.

A link never blocks whoever sends. Each has a thread that carries what waits, many
messages at a time; when the other node does not take them, or takes them too slowly,
they are dropped and counted. Nothing is lost by that which the next heartbeat does not
ask for again. Before anything is said the other side says who it is; if that is not the
node meant, of this cluster and version, it is asked again after a while. A rehearsal of
a failure cuts or slows a link here.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.flight as fl

from australis.catalog.cluster import Cluster
from australis.kernel.errors import AustralisError
from australis.live.certs import Credentials
from australis.live.node.events import WARNING, Tell, tell_nobody
from australis.live.node.wire import LARGEST, VERSION, short

WAITING_BYTES = 64 << 20
"""More than this does not wait for one node, unless it is a single message."""
AT_A_TIME = 1 << 20
"""So many bytes are sent in one call, or one message."""
MESSAGES = 4096
"""So many messages are sent in one call at most."""
PATIENCE_S = 2.0
"""A call that takes longer has failed: the other node is gone, or stands still,"""
SLOWEST = 256 << 10
"""unless it carries more bytes than a slow network does in this many a second."""
AGAIN_S = 0.05
"""So long after a failure a node is tried again,"""
STRANGER_S = 3.0
"""and so long after somebody else has answered in its place."""
SILENT_MS = 5000
"""After so long without a word a connection is tested, and given up after so long again."""
OPTIONS = [
    ("grpc.max_receive_message_length", LARGEST + (1 << 20)),
    ("grpc.keepalive_time_ms", SILENT_MS),
    ("grpc.keepalive_timeout_ms", SILENT_MS),
    ("grpc.http2.ping_timeout_ms", SILENT_MS),
]
"""How connections are made: else one whose other end has vanished would wait for ever."""
UNREACHABLE = "unreachable"
"""The trouble of a link whose node does not answer, however that shows."""
POST = "post"
"""The action by which messages are handed over."""
HELLO = "hello"
"""The action by which a node says who it is."""


class Mismatch(AustralisError):
    """Whoever answers is not the node that is meant, or speaks another version."""


class Hello(msgspec.Struct, frozen=True):
    """Who a node is."""

    version: int
    cluster: str
    node: str
    digest: str = ""
    """Of what it computes; empty if it does not say."""


def greeted(client: fl.FlightClient, cluster: str, node: str, digest: str = "") -> fl.FlightClient:
    """The connection, once this node of this cluster has answered; else a `Mismatch`.

    With a digest of what is computed, that must be the same there.
    """
    try:
        hello = _hello(client, node)
        if hello.version != VERSION:
            raise Mismatch(
                f"'{node}' speaks version {hello.version} of the protocol, not {VERSION}"
            )
        if hello.cluster != cluster:
            raise Mismatch(f"'{node}' is of cluster '{short(hello.cluster)}', not of '{cluster}'")
        if hello.node != node:
            raise Mismatch(f"'{short(hello.node)}' answers where '{node}' should")
        if digest and hello.digest != digest:
            raise Mismatch(f"'{node}' has another diagram, other functions or another epoch")
    except BaseException:
        client.close()
        raise
    return client


def _hello(client: fl.FlightClient, node: str) -> Hello:
    options = fl.FlightCallOptions(timeout=PATIENCE_S)
    try:
        first = next(iter(client.do_action(fl.Action(HELLO, b""), options)), None)
        body = b"" if first is None else first.body.to_pybytes()
        return msgspec.msgpack.decode(body, type=Hello)
    except (fl.FlightServerError, pa.ArrowNotImplementedError) as error:
        raise Mismatch(f"'{node}' does not say who it is: {sentence_of(error)}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Mismatch(f"'{node}' does not say who it is, or not so that one understands") from None


def sentence_of(error: BaseException) -> str:
    """What another node, or the way to it, has to say, without what Flight adds to it."""
    return short(str(error).partition(". Detail: ")[0]) or type(error).__name__


def connect(cluster: Cluster, node: str, credentials: Credentials | None) -> fl.FlightClient:
    """A connection to a node."""
    place = cluster.nodes[node]
    how: dict[str, Any] = {"generic_options": OPTIONS}
    if credentials is None:
        return fl.connect(f"grpc://{place.address}", **how)
    return fl.connect(f"grpc+tls://{place.address}", **how, **credentials.for_client(node))


class Link:
    """Messages to one other node."""

    def __init__(
        self, node: str, connect: Callable[[], fl.FlightClient], tell: Tell = tell_nobody
    ) -> None:
        self.node = node
        self.sent = 0
        self.sent_bytes = 0
        self.dropped = 0
        self.cut = False
        """A rehearsed failure: nothing gets through."""
        self.slow_s = 0.0
        """A rehearsed failure: everything takes so much longer."""
        self._connect = connect
        self._tell = tell
        self._trouble: str | None = None
        """What keeps it from working; empty if nothing does, None if that is not known yet."""
        self._client: fl.FlightClient | None = None
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._resting = False
        """While it rests after a failure, nothing waits."""
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"link to {node}", daemon=True)
        self._thread.start()

    @property
    def up(self) -> bool:
        """Whether the last call got through."""
        return self._trouble == ""

    @property
    def tried(self) -> bool:
        """Whether there was a call at all; some nodes have nothing to say to each other."""
        return self._trouble is not None

    @property
    def waiting_bytes(self) -> int:
        """How much waits to be sent."""
        return self._bytes

    def send(self, message: bytes) -> None:
        """Let a message go; whether it arrives is up to the network."""
        with self._changed:
            full = self._bytes > 0 and self._bytes + len(message) > WAITING_BYTES
            if self.cut or full or self._resting or self._closed:
                self.dropped += 1
                return
            self._waiting.append((time.monotonic() + self.slow_s, message))
            self._bytes += len(message)
            self._changed.notify()

    def close(self) -> None:
        """Drop what waits and end."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(PATIENCE_S + 1)

    def _run(self) -> None:
        while batch := self._next():
            try:
                self._post(batch)
            except fl.FlightServerError as error:
                self._lost(len(batch))
                why = sentence_of(error)
                self._tell("refused_by", level=WARNING, kind=self.node, peer=self.node, why=why)
            except Mismatch as error:
                self._failed(len(batch), str(error), str(error), STRANGER_S)
            except Exception as error:
                # Flight has many ways to say that a node cannot be reached.
                self._failed(len(batch), UNREACHABLE, sentence_of(error), AGAIN_S)
        self._disconnect()

    def _post(self, batch: list[bytes]) -> None:
        if self._client is None:
            self._client = self._connect()
        body = pack(batch)
        options = fl.FlightCallOptions(timeout=PATIENCE_S + len(body) / SLOWEST)
        for _ in self._client.do_action(fl.Action(POST, body), options):
            pass
        self.sent += len(batch)
        self.sent_bytes += len(body)
        if self._trouble != "":
            self._trouble = ""
            self._tell("link_up", kind=self.node, peer=self.node)

    def _next(self) -> list[bytes]:
        """What to send now, oldest first; nothing once the link is closed."""
        with self._changed:
            while not self._closed:
                wait = self._waiting[0][0] - time.monotonic() if self._waiting else None
                if wait is not None and wait <= 0:
                    return self._take()
                self._changed.wait(wait)
        return []

    def _take(self) -> list[bytes]:
        batch: list[bytes] = []
        size = 0
        while self._waiting and len(batch) < MESSAGES:
            if batch and size + len(self._waiting[0][1]) > AT_A_TIME:
                break
            _, message = self._waiting.popleft()
            size += len(message)
            batch.append(message)
        self._bytes -= size
        return batch

    def _lost(self, count: int) -> None:
        with self._changed:
            self.dropped += count

    def _failed(self, lost: int, trouble: str, why: str, rest_s: float) -> None:
        """What waits is stale by the time the node is back: begin anew after a rest."""
        if trouble != self._trouble:
            self._trouble = trouble
            self._tell("link_down", level=WARNING, kind=self.node, peer=self.node, why=why)
        self._disconnect()
        with self._changed:
            self.dropped += lost + len(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            self._resting = True
            self._changed.wait_for(lambda: self._closed, rest_s)
            self._resting = False

    def _disconnect(self) -> None:
        if self._client is not None:
            with suppress(Exception):
                self._client.close()
            self._client = None


def pack(messages: list[bytes]) -> bytes:
    """Several messages as one body."""
    return b"".join(len(m).to_bytes(4, "little") + m for m in messages)


def unpack(body: bytes) -> list[bytes]:
    """The messages of a body; a `ValueError` if it is cut short or holds too many.

    >>> unpack(pack([b"one", b"", b"three"]))
    [b'one', b'', b'three']
    """
    messages: list[bytes] = []
    at = 0
    while at < len(body):
        end = at + 4 + int.from_bytes(body[at : at + 4], "little")
        if at + 4 > len(body) or end > len(body):
            raise ValueError("a message is cut short")
        if len(messages) == MESSAGES:
            raise ValueError(f"more than {MESSAGES} messages at a time")
        messages.append(body[at + 4 : end])
        at = end
    return messages
