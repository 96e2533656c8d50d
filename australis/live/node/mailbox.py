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

WAITING_BYTES = 16 << 20
"""More than this does not wait for one client."""
MESSAGES = pa.schema([pa.field("message", pa.binary())])
"""What such a stream is made of: messages as `wire` encodes them."""
QUIET_S = 1.0
"""After so long without a message an empty batch shows whether the client is still there."""


class Mailbox:
    """What waits for one client."""

    def __init__(self) -> None:
        self.sent = 0
        self.dropped = 0
        self.cut = False
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._reader = 0
        """Which of the client's streams is the current one; 0 while there is none."""
        self._opened = 0
        self._changed = threading.Condition()

    def send(self, message: bytes) -> None:
        """Let a message wait to be fetched."""
        with self._changed:
            full = self._bytes + len(message) > WAITING_BYTES
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

    def read(self) -> Iterator[pa.RecordBatch]:
        """What comes for the client, until it opens another stream or this one is closed."""
        with self._changed:
            self._opened += 1
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
                    messages = list(self._waiting)
                    self._waiting.clear()
                    self._bytes = 0
                self.sent += len(messages)
                yield pa.record_batch([pa.array(messages, pa.binary())], schema=MESSAGES)
        finally:
            with self._changed:
                if self._reader == mine:
                    self._reader = 0
