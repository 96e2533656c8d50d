"""Notable events of a node, for people and their tools: lines of JSON in `events.jsonl`.

A line gives the time, the level, the node and the event; where a machine caused it, `id` is
the entry that it handled, `cause` the entry that led to that, maybe of another node, and `on`
what it was (see `entries`); the fields of the event follow. Events that a broken or hostile
peer can repeat are throttled, with a count, and the file is rotated before it grows large.
No component waits for this file: on a full disk events are lost, and the node continues.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from australis.runtime.node.json_lines import JsonLines

FILE = "events.jsonl"
MAX_FILE_BYTES = 4 << 20
"""The size in bytes at which the file is rotated."""
UNTHROTTLED_COUNT = 10
"""The number of events of a kind that are all recorded; of later ones only those whose number is
a power of two."""
THROTTLE_RESET_S = 60.0
"""The time without an event of a kind after which its count starts over."""
MAX_KINDS = 1000
"""The largest number of kinds that are counted separately."""

INFO, WARNING, ERROR = "info", "warning", "error"

Tell = Callable[..., None]
"""The type of `Events.tell`, for components that record events."""


def tell_nobody(event: str, **fields: Any) -> None:
    """A stand-in for `Events.tell` where there is no node."""


class Events:
    """The events of one node."""

    def __init__(self, directory: Path, node: str, clock: Callable[[], float] = time.time) -> None:
        self._file = JsonLines(directory / FILE, MAX_FILE_BYTES)
        self._node = node
        self._clock = clock
        self._kinds: dict[tuple[str, str], tuple[int, float]] = {}
        """The count of each kind, and the time of its last event."""
        self._open = False
        self._lock = threading.Lock()

    @property
    def lost(self) -> int:
        """The number of events that could not be written."""
        return self._file.lost

    def open(self) -> None:
        """Begin to write: the directory is this node's."""
        self._open = True

    def close(self) -> None:
        """Write no more."""
        with self._lock:
            self._open = False
            self._file.close()

    def tell(self, event: str, *, level: str = INFO, kind: str = "", **fields: Any) -> None:
        """Record an event; events of one name and kind are counted together."""
        with self._lock:
            if not self._open:
                return
            now = self._clock()
            count = self._count(event, kind, now)
            if count > UNTHROTTLED_COUNT and count & (count - 1):
                return
            at = datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds")
            line: dict[str, Any] = {"time": at, "level": level, "node": self._node, "event": event}
            if count > UNTHROTTLED_COUNT:
                line["count"] = count
            self._file.write(line | fields)

    def _count(self, event: str, kind: str, now: float) -> int:
        if len(self._kinds) >= MAX_KINDS:
            self._kinds.clear()
        count, last = self._kinds.get((event, kind), (0, now))
        count = 1 if now - last > THROTTLE_RESET_S else count + 1
        self._kinds[event, kind] = count, now
        return count
