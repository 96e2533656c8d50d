"""A file of marks: how far another file was synced, noted without a sync of its own.

What ends a file may be a record that a crash has torn, or one that was acknowledged and is damaged.
A mark tells the two apart. A mark that is written after each sync survives the process, but maybe
not a power cut: it may lag behind what is durable and is never ahead of it. Damaged marks are
passed over, since without them there is only less certainty.
"""

from __future__ import annotations

from contextlib import suppress

from australis.kernel.errors import Stopped
from australis.streams.disk import Disk
from australis.streams.frames import frame, whole_frames

MAX_BYTES = 64 << 10
"""The size at which the file is begun anew."""


class Marks:
    """The marks in one file, of which the last one counts."""

    def __init__(self, disk: Disk, name: str) -> None:
        self._disk = disk
        self._name = name
        self._bytes = MAX_BYTES  # whatever ends the file, the next mark replaces it
        self._settled = True

    def last(self) -> bytes | None:
        """The last mark; None if there is none."""
        size = self._disk.size(self._name)
        data = self._disk.read(self._name, 0, size) if size else b""
        return max(whole_frames(data), default=(0, None))[1]

    def add(self, mark: bytes) -> None:
        """Write a mark; a full disk only leaves it out."""
        if self._bytes >= MAX_BYTES:
            with suppress(Stopped, OSError):
                self.begin(mark)
            return
        before, self._bytes = self._bytes, MAX_BYTES
        with suppress(Stopped, OSError):
            data = frame(mark)
            self._disk.append(self._name, data)
            self._bytes = before + len(data)
            self._settled = False

    def begin(self, mark: bytes) -> None:
        """Replace all marks by this one, durably."""
        data = frame(mark)
        self._disk.replace(self._name, data)
        self._bytes, self._settled = len(data), True

    def settle(self) -> None:
        """Make the last mark durable."""
        if not self._settled:
            self._disk.sync(self._name)
            self._settled = True
