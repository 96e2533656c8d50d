"""Outgoing connections: one for each other node, in order, with bounded memory.

A link never blocks whoever sends. Each has a thread that carries what waits, many
messages at a time; when the other node does not take them, or takes them too slowly,
they are dropped and counted. Nothing is lost by that which the next heartbeat does not
ask for again. A rehearsal of a failure cuts or slows a link here.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import pyarrow.flight as fl

from australis.kernel.errors import AustralisError

WAITING_BYTES = 64 << 20
"""More than this does not wait for one node."""
AT_A_TIME = 8 << 20
"""So many bytes are sent in one call, or one message."""
PATIENCE_S = 2.0
"""A call that takes longer has failed: the other node is gone, or stands still."""
POST = "post"
"""The action by which messages are handed over."""


class Refused(AustralisError):
    """The other node has said why it does not take a message."""


class Link:
    """Messages to one other node."""

    def __init__(
        self,
        node: str,
        connect: Callable[[], fl.FlightClient],
        on_refused: Callable[[str, str], None] = lambda node, why: None,
    ) -> None:
        self.node = node
        self.sent = 0
        self.dropped = 0
        self.cut = False
        """A rehearsed failure: nothing gets through."""
        self.slow_s = 0.0
        """A rehearsed failure: everything takes so much longer."""
        self._connect = connect
        self._on_refused = on_refused
        self._client: fl.FlightClient | None = None
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._bytes = 0
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"link to {node}", daemon=True)
        self._thread.start()

    def send(self, message: bytes) -> None:
        """Let a message go; whether it arrives is up to the network."""
        with self._changed:
            if self.cut or self._bytes + len(message) > WAITING_BYTES:
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
                if self._client is None:
                    self._client = self._connect()
                options = fl.FlightCallOptions(timeout=PATIENCE_S)
                for _ in self._client.do_action(fl.Action(POST, pack(batch)), options):
                    pass
                self.sent += len(batch)
            except fl.FlightUnauthenticatedError as error:
                self._failed(len(batch))
                self._on_refused(self.node, str(error))
            except fl.FlightServerError as error:
                self.dropped += len(batch)
                self._on_refused(self.node, str(error))
            except (fl.FlightError, OSError, ValueError):
                self._failed(len(batch))
        self._disconnect()

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
        while self._waiting and (not batch or size + len(self._waiting[0][1]) <= AT_A_TIME):
            _, message = self._waiting.popleft()
            size += len(message)
            batch.append(message)
        self._bytes -= size
        return batch

    def _failed(self, lost: int) -> None:
        """What waits is stale by the time the node is back: begin anew."""
        with self._changed:
            self.dropped += lost + len(self._waiting)
            self._waiting.clear()
            self._bytes = 0
        self._disconnect()
        time.sleep(0.05)

    def _disconnect(self) -> None:
        if self._client is not None:
            with suppress(Exception):
                self._client.close()
            self._client = None


def pack(messages: list[bytes]) -> bytes:
    """Several messages as one body."""
    return b"".join(len(m).to_bytes(4, "little") + m for m in messages)


def unpack(body: bytes) -> list[bytes]:
    """The messages of a body; a `ValueError` if it is cut short.

    >>> unpack(pack([b"one", b"", b"three"]))
    [b'one', b'', b'three']
    """
    messages, at = [], 0
    while at < len(body):
        end = at + 4 + int.from_bytes(body[at : at + 4], "little")
        if at + 4 > len(body) or end > len(body):
            raise ValueError("a message is cut short")
        messages.append(body[at + 4 : end])
        at = end
    return messages
