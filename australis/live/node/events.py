"""What happened at a node, for people and their tools: lines of JSON in `events.jsonl`.

A line says when, how bad, at which node and what; where a machine brought it about, `id` is
the entry that it handled, `cause` the one behind that, maybe of another node, and `on` what
it was (see `entries`); then comes whatever belongs to the event. What a broken or hostile
peer can bring about again and again is told the first times and then ever more rarely,
with a count, and the file is turned over before it grows large. Nobody waits for it: on a
full disk events are lost, and the node goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from australis.live.node.json_lines import JsonLines

FILE = "events.jsonl"
LARGEST = 4 << 20
"""A file is turned over before it is longer than this."""
FIRST = 10
"""So many of a kind are told; after that only those whose number is a power of two."""
QUIET_S = 60.0
"""A kind that did not happen for so long begins anew."""
KINDS = 1000
"""No more kinds than this are told apart."""

INFO, WARNING, ERROR = "info", "warning", "error"

Tell = Callable[..., None]
"""`Events.tell`, for those who have something to tell."""


def tell_nobody(event: str, **fields: Any) -> None:
    """For whoever runs without a node around it."""


class Events:
    """The events of one node."""

    def __init__(self, directory: Path, node: str, clock: Callable[[], float] = time.time) -> None:
        self._file = JsonLines(directory / FILE, LARGEST)
        self._node = node
        self._clock = clock
        self._kinds: dict[tuple[str, str], tuple[int, float]] = {}
        """How often each kind happened, and when last."""
        self._open = False
        self._lock = threading.Lock()

    @property
    def lost(self) -> int:
        """How many could not be written."""
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
        """Write down what happened; events of one name and kind are counted together."""
        with self._lock:
            if not self._open:
                return
            now = self._clock()
            count = self._count(event, kind, now)
            if count > FIRST and count & (count - 1):
                return
            at = datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds")
            line: dict[str, Any] = {"time": at, "level": level, "node": self._node, "event": event}
            if count > FIRST:
                line["count"] = count
            self._file.write(line | fields)

    def _count(self, event: str, kind: str, now: float) -> int:
        if len(self._kinds) >= KINDS:
            self._kinds.clear()
        count, last = self._kinds.get((event, kind), (0, now))
        count = 1 if now - last > QUIET_S else count + 1
        self._kinds[event, kind] = count, now
        return count
