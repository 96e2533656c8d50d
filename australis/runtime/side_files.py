"""Files beside the log for what could not enter it: rejected rows and late tuples.

One JSON object per line. A line is the n-th of its kind and always will be, for
a source read again gives the same rows: so after a crash the first n are not
written a second time. A file has a largest size; what comes when it is full is
counted and not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from australis.runtime.files import FileDisk


class SideFile:
    """A file of numbered JSON lines."""

    def __init__(self, path: Path, max_bytes: int, counted: int = 0) -> None:
        """The file at a path, of which this many lines are known to have come already."""
        self._disk = FileDisk(path.parent)
        self._name = path.name
        self._dirty = False
        self._encode = msgspec.json.Encoder().encode
        self._left = max_bytes
        self._full = False
        self.count = max(self._recover(), counted)
        """The number of lines that have come, those that found the file full included."""

    def _recover(self) -> int:
        size, whole, lines = self._disk.size(self._name), 0, 0
        for start in range(0, size, 1 << 20):
            data = self._disk.read(self._name, start, 1 << 20)
            lines += data.count(b"\n")
            if b"\n" in data:
                whole = start + data.rindex(b"\n") + 1
        if whole < size:
            self._disk.cut(self._name, whole)
        self._left -= whole
        return lines

    def add(
        self, number: int, count: int, entries: Callable[[int], Iterable[dict[str, Any]]]
    ) -> int:
        """Take lines of which the first has this number (from 0); returns the next number.

        `entries` makes those from one of them on, counted within this call.
        """
        first = max(self.count - number, 0)
        if first < count:
            if not self._full:
                self._write(entries(first))
            self.count = number + count
        return number + count

    def _write(self, entries: Iterable[dict[str, Any]]) -> None:
        data = bytearray()
        for entry in entries:
            line = self._encode(entry) + b"\n"
            if len(data) + len(line) > self._left:
                self._full = True
                break
            data += line
        if data:
            self._left -= len(data)
            self._disk.append(self._name, bytes(data))
            self._dirty = True

    def sync(self) -> None:
        """Make what was added durable."""
        if self._dirty:
            self._disk.sync(self._name)
            self._dirty = False

    def close(self) -> None:
        """Close the file."""
        self._disk.close()
