"""A file of JSON lines that stays small and that nobody waits for.

Before it grows too large it is turned over: the file before it is kept, older ones are
gone. What cannot be written, on a full disk, is lost and counted.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

LONGEST = 4000
"""No text has more characters; of a longer one the beginning and the end are kept."""


def before(path: Path) -> Path:
    """The file before this one.

    >>> before(Path("events.jsonl")).name
    'events.1.jsonl'
    """
    return path.with_suffix(f".1{path.suffix}")


class JsonLines:
    """One such file; one thread at a time."""

    def __init__(self, path: Path, largest: int) -> None:
        self.path = path
        self.largest = largest
        """It is turned over before it is longer than this."""
        self.lost = 0
        """How many lines could not be written."""
        self._fd: int | None = None
        self._size = 0

    def write(self, *lines: dict[str, Any]) -> None:
        """Write lines, all at once."""
        data = "".join(f"{_encode(line)}\n" for line in lines).encode()
        try:
            if self._fd is not None and self._size + len(data) > self.largest:
                self.close()
                os.replace(self.path, before(self.path))
            if self._fd is None:
                self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
                self._size = os.fstat(self._fd).st_size
            self._size += os.write(self._fd, data)
        except OSError:
            self.lost += len(lines)
            self.close()

    def close(self) -> None:
        """Let go of the file; the next line opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _encode(line: dict[str, Any]) -> str:
    return json.dumps({name: _short(value) for name, value in line.items()}, default=str)


def _short(value: Any) -> Any:
    if not isinstance(value, str) or len(value) <= LONGEST:
        return value
    half = LONGEST // 2
    return f"{value[:half]} ... {value[-half:]}"
