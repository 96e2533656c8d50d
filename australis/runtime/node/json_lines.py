"""A file of JSON lines that is rotated and never blocks its writer for long.

Before it grows too large it is rotated: one earlier file is kept, older ones are
deleted. Lines that cannot be written, as on a full disk, are dropped and counted.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from australis.kernel.errors import UserError
from australis.runtime.files import open_private

MAX_LINE_LENGTH = 4000
"""The largest number of characters of a text; a longer one keeps its beginning and its end."""


def before(path: Path) -> Path:
    """The path of the previous file after rotation.

    >>> before(Path("events.jsonl")).name
    'events.1.jsonl'
    """
    return path.with_suffix(f".1{path.suffix}")


class JsonLines:
    """One rotated file of JSON lines, used by one thread at a time."""

    def __init__(self, path: Path, largest: int) -> None:
        self.path = path
        self.largest = largest
        """The size in bytes at which the file is rotated."""
        self.lost = 0
        """The number of lines that could not be written."""
        self._fd: int | None = None
        self._size = 0

    def write(self, *lines: dict[str, Any]) -> None:
        """Write lines in one call."""
        data = "".join(f"{_encode(line)}\n" for line in lines).encode()
        try:
            if self._fd is not None and self._size + len(data) > self.largest:
                self.close()
                os.replace(self.path, before(self.path))
            if self._fd is None:
                self._fd = open_private(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
                self._size = os.fstat(self._fd).st_size
            self._size += os.write(self._fd, data)
        except (OSError, UserError):
            self.lost += len(lines)
            self.close()

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _encode(line: dict[str, Any]) -> str:
    return json.dumps({name: _short(value) for name, value in line.items()}, default=str)


def _short(value: Any) -> Any:
    if not isinstance(value, str) or len(value) <= MAX_LINE_LENGTH:
        return value
    half = MAX_LINE_LENGTH // 2
    return f"{value[:half]} ... {value[-half:]}"
