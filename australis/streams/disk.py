"""What the log asks of a disk.

The live world answers with files, the simulated world with memory that forgets
what was not synced. Names are flat: a disk is one directory.
"""

from __future__ import annotations

from typing import Protocol


class Disk(Protocol):
    """One directory of append-only files."""

    def names(self) -> list[str]:
        """The names of all files."""
        ...

    def size(self, name: str) -> int:
        """The length of a file in bytes; 0 if there is none."""
        ...

    def read(self, name: str, offset: int, length: int) -> bytes:
        """These bytes of a file, fewer where it ends."""
        ...

    def append(self, name: str, data: bytes) -> None:
        """Write behind the end of a file; durable only after `sync`."""
        ...

    def sync(self, name: str) -> None:
        """Make everything appended to this file durable."""
        ...

    def cut(self, name: str, size: int) -> None:
        """Shorten a file to this length, durably."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Give a file this content, durably and all at once."""
        ...

    def remove(self, name: str) -> None:
        """Delete a file."""
        ...
