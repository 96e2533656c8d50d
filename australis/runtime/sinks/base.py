"""What all sinks share: the interface of writers, and the owner of an output.

A sink's position may lie outside the state directory, beside its output. If the
state is deleted and the output is not, a new run would continue from the old
position and miss results. So each state directory has a random mark per sink,
which the output carries too.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from australis.diagram.model import Sink
from australis.kernel.errors import UserError
from australis.runtime.files import make_directory, stopping
from australis.runtime.sealed import read_sealed, write_sealed


class SinkWriter(Protocol):
    """Writes the stable tuples of one stream, starting after its position."""

    @property
    def position(self) -> int:
        """The id of the last tuple that is durably written; -1 if there is none."""
        ...

    def write(self, batch: pa.RecordBatch) -> None:
        """Take tuples with their header columns, in order of their ids."""
        ...

    def flush(self) -> None:
        """Make what was written durable and advance the position.

        A sink for which that is costly (Parquet) does it less often, so only the
        position tells what is durable.
        """
        ...

    def close(self) -> None:
        """Make everything durable and end."""
        ...


class Position(msgspec.Struct, frozen=True):
    """The stored position of a sink: the last id, the length in bytes, and the owner's mark."""

    last_id: int = -1
    bytes: int = 0
    run: str = ""


def run_mark(state: Path, sink: Sink, *, fresh: bool = False) -> str:
    """The mark of this state directory for this sink: random, and the stream it reads."""
    path = state / "sinks" / f"{sink.name}.run"
    with stopping("write", path):
        make_directory(path.parent)
    found = None if fresh else read_mark(path)
    if found is None:
        found = uuid.uuid4().hex.encode()
        write_sealed(path, _mark_of(path), found)
    return f"{found.decode()} {sink.stream}"


def read_mark(path: Path) -> bytes | None:
    """The mark in a file; None if there is no file."""
    remedy = "remove it and the output of the sink, or name another output, to write it anew"
    return read_sealed(path, _mark_of(path), remedy)


def _mark_of(path: Path) -> str:
    return f"mark of {path.name.removesuffix('.run')}"


class PositionFile:
    """The file that holds a sink's position."""

    def __init__(self, path: Path, what: str, remedy: str, *, private: bool = True) -> None:
        """A file with this content; `remedy` says what to do when it is damaged."""
        self.path = path
        self._what = what
        self._remedy = remedy
        self._private = private

    def load(self) -> Position | None:
        """The position in the file; None if there is no file."""
        found = read_sealed(self.path, self._what, self._remedy, private=self._private)
        return None if found is None else msgspec.json.decode(found, type=Position)

    def save(self, position: Position) -> None:
        """Store a position, durably and atomically."""
        data = msgspec.json.encode(position)
        write_sealed(self.path, self._what, data, private=self._private)


def kept_in_state(path: Path) -> PositionFile:
    """The position of a sink without a file of its own, in the state directory."""
    what = f"position of {path.name.removesuffix('.position')}"
    return PositionFile(path, what, "remove it, and the sink gets what logs still hold again")


def after(batch: pa.RecordBatch, last_id: int) -> pa.RecordBatch:
    """The tuples after this id, since those written before a crash may be delivered again."""
    if batch.num_rows == 0 or batch.column("_id")[0].as_py() > last_id:
        return batch
    return batch.filter(pc.greater(batch.column("_id"), last_id))


def last_id_of(batch: pa.RecordBatch) -> int:
    """The id of the last tuple of a batch that is not empty."""
    return int(batch.column("_id")[-1].as_py())


class PositionedSink:
    """A sink that stores its position in a file; it leaves out tuples up to its last id."""

    def __init__(self, file: PositionFile, durable: Position) -> None:
        self._file = file
        self._durable = durable
        self._last_id = durable.last_id

    @property
    def position(self) -> int:
        """See `SinkWriter`."""
        return self._durable.last_id

    def write(self, batch: pa.RecordBatch) -> None:
        """See `SinkWriter`."""
        batch = after(batch, self._last_id)
        if batch.num_rows:
            self._put(batch)
            self._last_id = last_id_of(batch)

    def flush(self) -> None:
        """See `SinkWriter`."""
        if self._last_id != self._durable.last_id:
            durable = self._sync()
            self._file.save(durable)
            self._durable = durable

    def close(self) -> None:
        """See `SinkWriter`."""
        self.flush()

    def _put(self, batch: pa.RecordBatch) -> None:
        """Write tuples that are new."""
        raise NotImplementedError

    def _sync(self) -> Position:
        """Make durable what was put; returns the position after it."""
        return Position(self._last_id)


def foreign(what: Path) -> UserError:
    """The error of a sink whose path holds something that is not its own output."""
    return UserError(
        f"would write to {what}, which another run wrote or which is not from Australis:"
        " choose another path, remove it, or begin afresh"
    )
