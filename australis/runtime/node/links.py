"""Outgoing connections: one for each other node, in order, with bounded memory.

A link never blocks its sender. A thread per link sends queued messages in batches; when
the other node does not accept them, or accepts them too slowly, they are dropped and
counted. The next heartbeat asks again for whatever was lost. Before the first message the
other side identifies itself; if it is not the intended node, of this cluster and version,
the link retries later. Fault injection cuts or slows a link here.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import msgspec

from australis.deployment.cluster import Cluster
from australis.kernel.errors import AustralisError
from australis.runtime.node.events import WARNING, Tell, tell_nobody
from australis.runtime.node.transport import (
    CONNECT_TIMEOUT_S,
    MIN_BYTES_PER_S,
    NETWORK_ERRORS,
    NodeConnection,
    Refused,
    sentence_of,
)
from australis.runtime.node.wire import VERSION, short
from australis.runtime.sockets import Access

__all__ = ["NETWORK_ERRORS", "Hello", "Link", "Mismatch", "connect", "greeted", "sentence_of"]

MAX_QUEUED_BYTES = 64 << 20
"""The largest number of bytes queued for one node, unless a single message has more."""
MAX_CALL_BYTES = 1 << 20
"""The largest number of bytes in one call, unless a single message has more."""
MAX_CALL_MESSAGES = 4096
"""The largest number of messages in one call."""
CALL_TIMEOUT_S = 2.0
"""The time after which a call has failed, because the other node is down or paused."""
RETRY_S = 0.05
"""The delay after a failure before a node is tried again."""
MISMATCH_RETRY_S = 3.0
"""The delay before a node is tried again after a different process has answered in its place."""
UNREACHABLE = "unreachable"
"""The trouble of a link whose node does not answer, whatever the error is."""
POST = "post"
"""The action by which messages are handed over."""
HELLO = "hello"
"""The action by which a node identifies itself."""


class Mismatch(AustralisError):
    """The process that answers is not the intended node, or has another protocol version."""


class Hello(msgspec.Struct, frozen=True):
    """The identity of a node."""

    version: int
    cluster: str
    node: str
    digest: str = ""
    """The digest of what the node computes; empty if it does not give one."""


def greeted(client: NodeConnection, cluster: str, node: str, digest: str = "") -> NodeConnection:
    """The connection, once this node of this cluster has answered; raises a `Mismatch` otherwise.

    With a digest of what is computed, the other node must have the same one.
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


def _hello(client: NodeConnection, node: str) -> Hello:
    try:
        parts = list(client.call(HELLO, timeout_s=CALL_TIMEOUT_S))
        return msgspec.msgpack.decode(parts[0] if parts else b"", type=Hello)
    except Refused as error:
        raise Mismatch(f"'{node}' does not say who it is: {sentence_of(error)}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Mismatch(f"'{node}' does not say who it is, or not so that one understands") from None


def connect(
    cluster: Cluster, node: str, access: Access, timeout_s: float = CONNECT_TIMEOUT_S
) -> NodeConnection:
    """A connection to a node."""
    place = cluster.nodes[node]
    return NodeConnection(place.host, place.port, node, access, timeout_s)


class Link:
    """The outgoing messages to one other node."""

    def __init__(
        self, node: str, connect: Callable[[], NodeConnection], tell: Tell = tell_nobody
    ) -> None:
        self.node = node
        self.sent = 0
        self.sent_bytes = 0
        self.dropped = 0
        self.cut = False
        """Whether an injected fault drops all messages."""
        self.slow_s = 0.0
        """The delay that an injected fault adds to every call."""
        self._connect = connect
        self._tell = tell
        self._trouble: str | None = None
        """The reason why the link fails; empty if it works, None if that is not known yet."""
        self._client: NodeConnection | None = None
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._resting = False
        """Whether the link pauses after a failure, during which no messages are queued."""
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"link to {node}", daemon=True)
        self._thread.start()

    @property
    def up(self) -> bool:
        """Whether the last call succeeded."""
        return self._trouble == ""

    @property
    def tried(self) -> bool:
        """Whether there was any call yet; some pairs of nodes exchange no messages."""
        return self._trouble is not None

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes that wait to be sent."""
        return self._bytes

    def send(self, message: bytes) -> None:
        """Queue a message; it may be lost."""
        with self._changed:
            full = self._bytes > 0 and self._bytes + len(message) > MAX_QUEUED_BYTES
            if self.cut or full or self._resting or self._closed:
                self.dropped += 1
                return
            self._waiting.append((time.monotonic() + self.slow_s, message))
            self._bytes += len(message)
            self._changed.notify()

    def close(self) -> None:
        """Drop queued messages and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(CALL_TIMEOUT_S + 1)

    def _run(self) -> None:
        while batch := self._next():
            try:
                self._post(batch)
            except Refused as error:
                self._lost(len(batch))
                why = sentence_of(error)
                self._tell("refused_by", level=WARNING, kind=self.node, peer=self.node, why=why)
            except Mismatch as error:
                self._failed(len(batch), str(error), str(error), MISMATCH_RETRY_S)
            except Exception as error:
                # There are many kinds of errors for a node that cannot be reached.
                self._failed(len(batch), UNREACHABLE, sentence_of(error), RETRY_S)
        self._disconnect()

    def _post(self, batch: list[bytes]) -> None:
        if self._client is not None and self._client.stale:
            self._disconnect()  # the node may close a connection that was idle for long
        if self._client is None:
            self._client = self._connect()
        body = pack(batch)
        for _ in self._client.call(POST, body, CALL_TIMEOUT_S + len(body) / MIN_BYTES_PER_S):
            pass
        self.sent += len(batch)
        self.sent_bytes += len(body)
        if self._trouble != "":
            self._trouble = ""
            self._tell("link_up", kind=self.node, peer=self.node)

    def _next(self) -> list[bytes]:
        """The next batch of messages, oldest first; empty once the link is closed."""
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
        while self._waiting and len(batch) < MAX_CALL_MESSAGES:
            if batch and size + len(self._waiting[0][1]) > MAX_CALL_BYTES:
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
        """Drop the queue, which is stale by the time the node is back, and pause before a retry."""
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
        if len(messages) == MAX_CALL_MESSAGES:
            raise ValueError(f"more than {MAX_CALL_MESSAGES} messages at a time")
        messages.append(body[at + 4 : end])
        at = end
    return messages
