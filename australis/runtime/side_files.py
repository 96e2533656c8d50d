"""Files beside the log for what could not enter it: rejected rows and late tuples.

One JSON object per line. A line is the n-th of its kind and always will be, for
a source read again gives the same rows: so after a crash the first n are not
written a second time.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from australis.runtime.files import FileDisk


class SideFile:
    """A file of numbered JSON lines."""

    def __init__(self, path: Path) -> None:
        self._disk = FileDisk(path.parent)
        self._name = path.name
        self._dirty = False
        self.written = self._recover()
        """The number of lines in the file."""

    def _recover(self) -> int:
        size, whole, lines = self._disk.size(self._name), 0, 0
        for start in range(0, size, 1 << 20):
            data = self._disk.read(self._name, start, 1 << 20)
            lines += data.count(b"\n")
            if b"\n" in data:
                whole = start + data.rindex(b"\n") + 1
        if whole < size:
            self._disk.cut(self._name, whole)
        return lines

    def add(self, number: int, entries: Iterable[dict[str, Any]]) -> int:
        """Write entries of which the first has this number (from 0); returns the next number."""
        new: list[dict[str, Any]] = []
        for entry in entries:
            if number >= self.written:
                new.append(entry)
                self.written += 1
            number += 1
        if new:
            self._disk.append(self._name, msgspec.json.Encoder().encode_lines(new))
            self._dirty = True
        return number

    def sync(self) -> None:
        """Make what was added durable."""
        if self._dirty:
            self._disk.sync(self._name)
            self._dirty = False

    def close(self) -> None:
        """Close the file."""
        self._disk.close()
