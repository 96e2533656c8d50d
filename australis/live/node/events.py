"""What happened at a node, for people and their tools: lines of JSON in `events.jsonl`.

A line says when, how bad, at which node and what; the entry of the node's trace that led
to it, where there is one; and whatever belongs to the event. What a broken or hostile
peer can bring about again and again is told the first times and then ever more rarely,
with a count, and the file is turned over before it grows large. Nobody waits for it: on a
full disk events are lost, and the node goes on.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from australis.kernel.trace import NO_CAUSE

FILE = "events.jsonl"
BEFORE = "events.1.jsonl"
"""The file before this one; older ones are gone."""
LARGEST = 4 << 20
"""A file is turned over before it is longer than this."""
LONGEST = 4000
"""No text in an event has more characters; of a longer one the beginning and the end are kept."""
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
        self.lost = 0
        """How many could not be written."""
        self._path = directory / FILE
        self._before = directory / BEFORE
        self._node = node
        self._clock = clock
        self._kinds: dict[tuple[str, str], tuple[int, float]] = {}
        """How often each kind happened, and when last."""
        self._fd: int | None = None
        self._size = 0
        self._open = False
        self._lock = threading.Lock()

    def open(self) -> None:
        """Begin to write: the directory is this node's."""
        self._open = True

    def close(self) -> None:
        """Write no more."""
        with self._lock:
            self._open = False
            self._close_file()

    def tell(
        self, event: str, *, level: str = INFO, kind: str = "", cause: int = NO_CAUSE, **fields: Any
    ) -> None:
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
            if cause != NO_CAUSE:
                line["cause"] = cause
            if count > FIRST:
                line["count"] = count
            self._write(line | {name: _short(value) for name, value in fields.items()})

    def _count(self, event: str, kind: str, now: float) -> int:
        if len(self._kinds) >= KINDS:
            self._kinds.clear()
        count, last = self._kinds.get((event, kind), (0, now))
        count = 1 if now - last > QUIET_S else count + 1
        self._kinds[event, kind] = count, now
        return count

    def _write(self, line: dict[str, Any]) -> None:
        data = (json.dumps(line, default=str) + "\n").encode()
        try:
            if self._fd is not None and self._size + len(data) > LARGEST:
                self._close_file()
                os.replace(self._path, self._before)
            if self._fd is None:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
                self._size = os.fstat(self._fd).st_size
            self._size += os.write(self._fd, data)
        except OSError:
            self.lost += 1
            self._close_file()

    def _close_file(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _short(value: Any) -> Any:
    if not isinstance(value, str) or len(value) <= LONGEST:
        return value
    half = LONGEST // 2
    return f"{value[:half]} ... {value[-half:]}"
