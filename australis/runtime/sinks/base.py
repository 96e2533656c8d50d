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
from australis.runtime.files import make_directory, replace_file, stopping


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
        if fresh or not path.exists():
            replace_file(path, uuid.uuid4().hex.encode())
        return f"{path.read_text()} {sink.stream}"


def load_position(path: Path) -> Position | None:
    """The position in a file; None if there is no file."""
    with stopping("read", path):
        if not path.exists():
            return None
        try:
            return msgspec.json.decode(path.read_bytes(), type=Position)
        except msgspec.DecodeError:
            raise UserError(f"has a position file that cannot be read: {path}") from None


def save_position(path: Path, position: Position) -> None:
    """Store a position, durably and atomically."""
    with stopping("write", path):
        replace_file(path, msgspec.json.encode(position))


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

    def __init__(self, path: Path, durable: Position) -> None:
        self._path = path
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
            save_position(self._path, durable)
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
