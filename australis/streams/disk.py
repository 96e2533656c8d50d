"""The interface between the log and a disk.

The live world implements it by files, the simulated world by memory that loses
unsynced data in a crash. Names are flat: a disk is one directory.
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
        """Write at the end of a file; the data is durable only after `sync`."""
        ...

    def sync(self, name: str) -> None:
        """Make everything appended to this file durable."""
        ...

    def cut(self, name: str, size: int) -> None:
        """Shorten a file to this length, durably."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Replace the content of a file, durably and atomically."""
        ...

    def remove(self, name: str) -> None:
        """Delete a file."""
        ...
