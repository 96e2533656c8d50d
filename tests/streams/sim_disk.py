"""A disk in memory that can crash.

A crash loses unsynced bytes, wholly or in part: the caller determines how many of the unsynced
bytes of each file reach the platter, so that torn records occur.
"""

from __future__ import annotations

from collections.abc import Callable


class SimDisk:
    """One simulated directory (see `streams.disk.Disk`)."""

    def __init__(self) -> None:
        self._files: dict[str, bytearray] = {}
        self._synced: dict[str, int] = {}
        self.writes_left: int | None = None
        """The number of further writes until the disk is full; None is an unlimited disk."""

    def names(self) -> list[str]:
        return sorted(self._files)

    def size(self, name: str) -> int:
        return len(self._files.get(name, b""))

    def read(self, name: str, offset: int, length: int) -> bytes:
        return bytes(self._files[name][offset : offset + length])

    def append(self, name: str, data: bytes) -> None:
        self._spend(name, data)
        self._files.setdefault(name, bytearray()).extend(data)
        self._synced.setdefault(name, 0)

    def sync(self, name: str) -> None:
        self._synced[name] = len(self._files[name])

    def cut(self, name: str, size: int) -> None:
        del self._files[name][size:]
        self._synced[name] = len(self._files[name])

    def replace(self, name: str, data: bytes) -> None:
        self._spend(name, b"")
        self._files[name] = bytearray(data)
        self._synced[name] = len(data)

    def remove(self, name: str) -> None:
        del self._files[name]
        del self._synced[name]

    def crash(self, survives: Callable[[int], int] = lambda unsynced: 0) -> None:
        """Lose unsynced bytes: `survives` maps the number of unsynced bytes to the number kept."""
        for name, data in self._files.items():
            unsynced = len(data) - self._synced[name]
            del data[self._synced[name] + survives(unsynced) :]
            self._synced[name] = len(data)

    def content(self) -> dict[str, bytes]:
        """The content of all files, to compare two disks."""
        return {name: bytes(data) for name, data in self._files.items()}

    def _spend(self, name: str, data: bytes) -> None:
        if self.writes_left is None:
            return
        if self.writes_left == 0:
            self._files.setdefault(name, bytearray()).extend(data[: len(data) // 2])
            self._synced.setdefault(name, 0)
            raise OSError(28, "No space left on device")
        self.writes_left -= 1
