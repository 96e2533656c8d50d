"""Messages to clients, which have no port of their own and fetch them from their producers.

A client opens one stream to each node that it reads from, and the node writes messages to
it as they arise. While the client is away, or too slow, messages are dropped: its next
heartbeat says what it still needs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from australis.runtime.node.wire import WireError

MAX_QUEUED_BYTES = 16 << 20
"""The largest number of bytes queued for one client, unless a single message has more."""
MAX_BATCH_BYTES = 1 << 20
"""The largest number of bytes in one write, unless a single message has more; a stream whose
client does not read holds no more than this."""
MAX_STREAMS = 16
"""The number of streams that one client may leave unread before it is refused another."""
INBOX = "inbox"
"""The request for such a stream."""
KEEPALIVE_S = 1.0
"""The time without a message after which an empty part shows whether the client is connected."""


class Mailbox:
    """The queue of messages for one client."""

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes = MAX_QUEUED_BYTES if max_bytes is None else max_bytes
        self.sent = 0
        self.sent_bytes = 0
        self.dropped = 0
        self.cut = False
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._reader = 0
        """The number of the client's current stream; 0 while there is none."""
        self._opened = 0
        self._incarnation = 0
        """The latest incarnation of the client."""
        self._streams = 0
        """The number of open streams, including abandoned ones that hang."""
        self._changed = threading.Condition()

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes that wait to be fetched."""
        return self._bytes

    def send(self, message: bytes) -> None:
        """Queue a message for the client."""
        with self._changed:
            full = self._bytes > 0 and self._bytes + len(message) > self._max_bytes
            if self.cut or not self._reader or full:
                self.dropped += 1
                return
            self._waiting.append(message)
            self._bytes += len(message)
            self._changed.notify_all()

    def close(self) -> None:
        """End the client's stream."""
        with self._changed:
            self._reader = 0
            self._changed.notify_all()

    def read(self, incarnation: int) -> Iterator[list[bytes]]:
        """The client's messages, until it opens another stream or this one is closed."""
        if incarnation < self._incarnation:
            raise WireError("another process reads in this name, and began later")
        self._incarnation = incarnation
        if self._streams >= MAX_STREAMS:
            raise WireError(f"{MAX_STREAMS} streams are open already, and unread")
        return self._read()

    def _read(self) -> Iterator[list[bytes]]:
        with self._changed:
            self._opened += 1
            self._streams += 1
            mine = self._reader = self._opened
            self._waiting.clear()
            self._bytes = 0
            self._changed.notify_all()
        try:
            while True:
                with self._changed:
                    if not self._waiting and self._reader == mine:
                        self._changed.wait(KEEPALIVE_S)
                    if self._reader != mine:
                        return
                    messages = self._take()
                self.sent += len(messages)
                self.sent_bytes += sum(map(len, messages))
                yield messages
        finally:
            with self._changed:
                self._streams -= 1
                if self._reader == mine:
                    self._reader = 0

    def _take(self) -> list[bytes]:
        taken: list[bytes] = []
        size = 0
        while self._waiting and (not taken or size + len(self._waiting[0]) <= MAX_BATCH_BYTES):
            taken.append(self._waiting.popleft())
            size += len(taken[-1])
        self._bytes -= size
        return taken
