"""Messages to whoever has no port of its own: a client fetches them from its producers.

A client opens one stream to each node that it reads from, and the node writes what it has
for it as it comes. While the client is away, or too slow, messages are dropped: the next
heartbeat says what it still needs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

import pyarrow as pa

from australis.live.node.wire import WireError

WAITING_BYTES = 16 << 20
"""More than this does not wait for one client, unless it is a single message."""
AT_A_TIME = 1 << 20
"""So many bytes are written at once, or one message: a stream that nobody reads holds no more."""
STREAMS = 16
"""So many streams of one client may hang before it is refused another."""
MESSAGES = pa.schema([pa.field("message", pa.binary())])
"""What such a stream is made of: messages as `wire` encodes them."""
QUIET_S = 1.0
"""After so long without a message an empty batch shows whether the client is still there."""


class Mailbox:
    """What waits for one client."""

    def __init__(self) -> None:
        self.sent = 0
        self.sent_bytes = 0
        self.dropped = 0
        self.cut = False
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._reader = 0
        """Which of the client's streams is the current one; 0 while there is none."""
        self._opened = 0
        self._life = 0
        """The latest process of the client."""
        self._streams = 0
        """How many streams there are, with those that were given up but hang."""
        self._changed = threading.Condition()

    @property
    def waiting_bytes(self) -> int:
        """How much waits to be fetched."""
        return self._bytes

    def send(self, message: bytes) -> None:
        """Let a message wait to be fetched."""
        with self._changed:
            full = self._bytes > 0 and self._bytes + len(message) > WAITING_BYTES
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

    def read(self, life: int) -> Iterator[pa.RecordBatch]:
        """What comes for the client, until it opens another stream or this one is closed."""
        if life < self._life:
            raise WireError("another process reads in this name, and began later")
        self._life = life
        if self._streams >= STREAMS:
            raise WireError(f"{STREAMS} streams are open already, and nobody reads them")
        return self._read()

    def _read(self) -> Iterator[pa.RecordBatch]:
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
                        self._changed.wait(QUIET_S)
                    if self._reader != mine:
                        return
                    messages = self._take()
                self.sent += len(messages)
                self.sent_bytes += sum(map(len, messages))
                yield pa.record_batch([pa.array(messages, pa.binary())], schema=MESSAGES)
        finally:
            with self._changed:
                self._streams -= 1
                if self._reader == mine:
                    self._reader = 0

    def _take(self) -> list[bytes]:
        taken: list[bytes] = []
        size = 0
        while self._waiting and (not taken or size + len(self._waiting[0]) <= AT_A_TIME):
            taken.append(self._waiting.popleft())
            size += len(taken[-1])
        self._bytes -= size
        return taken
