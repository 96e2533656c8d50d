"""The transfer of a lane's checkpoint to a replica that lost its own: files, piece by piece.

Neither side holds more than one piece in memory. Incoming bytes are not trusted: file names
must stay below the directory, and sizes are limited.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Annotated, BinaryIO

import msgspec

from australis.kernel.ids import MAX_BUCKET
from australis.runtime.files import make_directory, open_private, stopping, sync_directory
from australis.runtime.node.transport import NodeConnection
from australis.runtime.node.wire import MAX_NAME_LENGTH, WireError, short

ACTION = "snapshot"
"""The action by which a snapshot is requested."""
CHUNK = 1 << 20
"""The size of the pieces in which a file is sent."""
MAX_SNAPSHOT_BYTES = 4 << 30
"""The largest snapshot that is accepted."""
MAX_FILES = 100_000
"""The largest number of files in a snapshot that is accepted."""


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A piece of one file."""

    upto: Annotated[int, msgspec.Meta(ge=-1, le=MAX_BUCKET)]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
    data: bytes
    last: bool
    """Whether the snapshot ends with this piece."""


def pieces(upto: int, directory: Path) -> Iterator[bytes]:
    """The messages of a snapshot that covers the buckets up to this one; its files are removed
    afterwards."""
    try:
        waiting: tuple[str, bytes] | None = None
        for chunk in _chunks(directory):
            if waiting is not None:
                yield msgspec.msgpack.encode(Piece(upto, *waiting, last=False))
            waiting = chunk
        if waiting is not None:
            yield msgspec.msgpack.encode(Piece(upto, *waiting, last=True))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _chunks(directory: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(p for p in directory.rglob("*") if p.is_file()):
        name = path.relative_to(directory).as_posix()
        with path.open("rb") as file:
            yield name, file.read(CHUNK)
            while data := file.read(CHUNK):
                yield name, data


def fetch(client: NodeConnection, machine: str, stream: str, into: Path, timeout_s: float) -> int:
    """Write the latest checkpoint of a lane on another node into a directory, durably.

    Returns the last bucket it covers; raises a `WireError` if the answer is no snapshot.
    """
    shutil.rmtree(into, ignore_errors=True)
    make_directory(into)
    names: set[str] = set()
    covered: set[int] = set()
    size, whole = 0, False
    what = msgspec.msgpack.encode((machine, stream))
    with closing(_Files(into)) as files:
        for part in client.call(ACTION, what, timeout_s):
            piece = _piece(part)
            names.add(piece.name)
            covered.add(piece.upto)
            size, whole = size + len(piece.data), piece.last
            if size > MAX_SNAPSHOT_BYTES or len(names) > MAX_FILES or len(covered) > 1:
                raise WireError(f"a snapshot of {size:,} bytes, {len(names):,} files, at {covered}")
            files.append(piece.name, piece.data)
    if not whole:
        raise WireError("a snapshot is cut short")
    for directory, _, _ in os.walk(into):
        sync_directory(Path(directory))
    return covered.pop()


class _Files:
    """Files below a directory that grow one after the other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._name = ""
        self._file: BinaryIO | None = None

    def append(self, name: str, data: bytes) -> None:
        path = self._directory / name
        try:
            with stopping("write", path):
                if name != self._name:
                    self.close()
                    path.parent.mkdir(0o700, parents=True, exist_ok=True)
                    fd = open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
                    self._file, self._name = os.fdopen(fd, "ab"), name
                assert self._file is not None
                self._file.write(data)
        except Exception as error:
            taken = FileExistsError | NotADirectoryError | IsADirectoryError
            if isinstance(error.__cause__, taken):
                raise WireError(f"a snapshot with a file called '{short(name)}'") from None
            raise

    def close(self) -> None:
        """Make the last file durable and close it."""
        if self._file is not None:
            with stopping("write", self._directory / self._name):
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()
            self._file = None


def _piece(data: bytes) -> Piece:
    """A piece of a file that belongs below the directory it will be written to."""
    try:
        piece = msgspec.msgpack.decode(data, type=Piece)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise WireError("a snapshot with something else in it") from None
    path = PurePosixPath(piece.name)
    if path.is_absolute() or ".." in path.parts or "\0" in piece.name or not path.name:
        raise WireError(f"a snapshot with a file called '{short(piece.name)}'")
    return piece
