"""A lane's checkpoint on its way to a replica that lost its own: files, piece by piece.

Neither side holds more than a piece of it in memory. What comes in is taken for what it is,
bytes from another machine: names stay below the directory, and there is a limit to it all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Annotated, BinaryIO

import msgspec
import pyarrow.flight as fl

from australis.kernel.ids import MAX_BUCKET
from australis.live.files import make_directory, stopping, sync_directory
from australis.live.node.wire import LONGEST_NAME, WireError, short

ACTION = "snapshot"
"""The action by which one is asked for."""
CHUNK = 1 << 20
"""A file is sent in pieces of this size."""
LARGEST = 4 << 30
"""A snapshot that is larger is not taken."""
MOST_FILES = 100_000
"""Nor one of more files."""


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A piece of one file."""

    upto: Annotated[int, msgspec.Meta(ge=-1, le=MAX_BUCKET)]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
    data: bytes
    last: bool
    """Whether the snapshot ends with it."""


def pieces(upto: int, directory: Path) -> Iterator[bytes]:
    """What is sent of a snapshot that covers the buckets up to this one; then it is removed."""
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


def fetch(client: fl.FlightClient, machine: str, stream: str, into: Path, timeout_s: float) -> int:
    """Write the latest checkpoint of a lane on another node into a directory, durably.

    The bucket it covers; a `WireError` if it is none.
    """
    shutil.rmtree(into, ignore_errors=True)
    make_directory(into)
    names: set[str] = set()
    covered: set[int] = set()
    size, whole = 0, False
    action = fl.Action(ACTION, msgspec.msgpack.encode((machine, stream)))
    with closing(_Files(into)) as files:
        for result in client.do_action(action, fl.FlightCallOptions(timeout=timeout_s)):
            piece = _piece(result.body.to_pybytes())
            names.add(piece.name)
            covered.add(piece.upto)
            size, whole = size + len(piece.data), piece.last
            if size > LARGEST or len(names) > MOST_FILES or len(covered) > 1:
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
                    path.parent.mkdir(parents=True, exist_ok=True)
                    self._file, self._name = path.open("ab"), name
                assert self._file is not None
                self._file.write(data)
        except Exception as error:
            taken = FileExistsError | NotADirectoryError | IsADirectoryError
            if isinstance(error.__cause__, taken):
                raise WireError(f"a snapshot with a file called '{short(name)}'") from None
            raise

    def close(self) -> None:
        """Make the last one durable."""
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
