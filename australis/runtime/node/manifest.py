"""The checksums of the files of a checkpoint of Spark, which a lane reads back at its start.

Spark's own checksums make a micro-batch slower than all else that its logs cost, and a damaged file
would end the query again at every start. So the files that are new after each micro-batch are
listed here with their sizes and checksums, before the log has the results of the batch; the commit
of a batch follows when Spark asks for the next one. Before a query starts, what it will read back
is compared with the list.

The list is not synced: the files that it names are not either. Files that it does not name, those
of the last moment before a crash, are not checked.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import msgspec

from australis.kernel.errors import Damaged
from australis.runtime.files import open_private, read_private, replace_file, stopping, write_all
from australis.spark.checkpoint import last_commit
from australis.spark.stored import named_by, read_back, stored_files, version_of
from australis.streams.frames import frame, whole_frames

FILE = "manifest"
CHUNK = 1 << 20
MAX_BYTES = 1 << 20
"""The size at which the list is begun anew, with the files that are still there."""

_Stamp = tuple[int, int, int]
"""What changes when a file is written again: its inode, size and time."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One file, by its path in the checkpoint."""

    name: str
    size: int
    check: int


class Manifest:
    """The list of one checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._path = checkpoint / FILE
        self._entries: dict[str, Entry] = {}
        self._stamps: dict[str, _Stamp] = {}
        self._bytes = 0

    # --- while a query runs -----------------------------------------------------------------

    def add_new(self) -> None:
        """List the files that are new, or that were written again."""
        with stopping("read", self._checkpoint):
            self._add(self._changed(stored_files(self._checkpoint)))

    def add_commit(self, batch_id: int) -> None:
        """List the commit of a micro-batch once it is there."""
        name = f"commits/{batch_id}"
        if name not in self._stamps:
            with stopping("read", self._checkpoint):
                self._add(self._changed(self._named(name, f"commits/.{batch_id}.crc")))

    def copy_to(self, clone: Path) -> None:
        """Write the list of a clone of this checkpoint, by what is listed here."""
        copy = Manifest(clone)
        known = {name: entry for name, entry in self._entries.items() if name != "metadata"}
        with stopping("read", clone):
            names = [name for name, _ in stored_files(clone)]
            names += [name for zipped in names for name in self._with(clone, zipped)]
            shared = {name: known[name] for name in names if name in known}
            copy._entries = shared | {
                name: entry
                for name in names
                if name not in shared and (entry := copy._entry(name)) is not None
            }
        copy.save()

    def _named(self, *names: str) -> Iterator[tuple[str, Path]]:
        return ((name, self._checkpoint / name) for name in names)

    def _changed(self, files: Iterable[tuple[str, Path | os.DirEntry[str]]]) -> list[str]:
        found: list[str] = []
        for name, file in files:
            try:
                stamp = _stamp(file)
            except FileNotFoundError:
                continue  # Spark has just removed it
            if self._stamps.get(name) != stamp:
                self._stamps[name] = stamp
                found.append(name)
                found += self._changed(self._named(*self._with(self._checkpoint, name)))
        return found

    @staticmethod
    def _with(checkpoint: Path, name: str) -> list[str]:
        """The files that are complete once this one is there."""
        return named_by(checkpoint, name) if name.endswith(".zip") else []

    def _add(self, names: list[str]) -> None:
        entries = [entry for name in names if (entry := self._entry(name)) is not None]
        if not entries:
            return
        self._entries |= {entry.name: entry for entry in entries}
        if not self._bytes or self._bytes > MAX_BYTES:
            self.save()
            return
        data = frame(msgspec.msgpack.encode(entries))
        fd = open_private(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
        self._bytes += len(data)

    def _entry(self, name: str) -> Entry | None:
        try:
            size, check = _check(self._checkpoint / name)
        except FileNotFoundError:
            return None
        return Entry(name, size, check)

    def save(self) -> None:
        """Write the list anew, durably, with the files that are still there."""
        there = {n: e for n, e in self._entries.items() if (self._checkpoint / n).exists()}
        data = frame(msgspec.msgpack.encode(list(there.values())))
        with stopping("write", self._path):
            replace_file(self._path, data)
        self._entries, self._bytes = there, len(data)
        self._stamps = {name: stamp for name, stamp in self._stamps.items() if name in there}

    # --- before it starts -------------------------------------------------------------------

    def verify(self) -> None:
        """Check what a query will read back; raises `Damaged` with the first file that differs."""
        for damage in self.damages():
            raise damage
        committed = last_commit(self._checkpoint)
        state = 0 if committed is None else committed + 1
        for name in list(self._entries):
            version = version_of(name)
            if version is not None and version.number > state:
                del self._entries[name]  # the batch is repeated, and writes it again
        if self._entries:
            self.save()
        self._stamps = {name: _stamp(self._checkpoint / name) for name in self._entries}

    def damages(self) -> list[Damaged]:
        """Everything that differs from the list."""
        committed = last_commit(self._checkpoint)
        with stopping("read", self._path):
            self._load()
            if not self._entries:
                return [] if committed is None else [self._damaged(FILE, "is missing")]
            here = {name for name in self._entries if (self._checkpoint / name).exists()}
            needed = read_back(self._entries.keys(), here, committed)
            for name in list(needed):
                needed |= self._entries.keys() & {*self._with(self._checkpoint, name)}
            checked = here & (needed | {n for n in here if version_of(n) is None})
            missing = [self._damaged(name, "is missing") for name in sorted(needed - here)]
            return missing + [
                self._damaged(name, "is damaged")
                for name in sorted(checked)
                if self._entry(name) != self._entries[name]
            ]

    def _load(self) -> None:
        data = read_private(self._path) if self._path.exists() else b""
        for _, payload in whole_frames(data):
            for entry in msgspec.msgpack.decode(payload, type=list[Entry]):
                path = PurePosixPath(entry.name)
                if not path.is_absolute() and ".." not in path.parts:
                    self._entries[entry.name] = entry

    def _damaged(self, name: str, what: str) -> Damaged:
        path = self._checkpoint / name
        return Damaged(f"the checkpoint file {path} {what}", file=str(path))


def _stamp(file: Path | os.DirEntry[str]) -> _Stamp:
    found = file.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _check(path: Path) -> tuple[int, int]:
    size = check = 0
    with path.open("rb", buffering=0) as file:
        while data := file.read(CHUNK):
            size, check = size + len(data), zlib.crc32(data, check)
    return size, check
