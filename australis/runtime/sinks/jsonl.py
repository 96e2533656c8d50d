"""One JSON object per tuple and line: `_id`, `_stime`, then the attributes in order.

`json_values` defines how values are written. Each tuple is in the file exactly
once: beside it, `<path>.position` holds the number of bytes that count; what lies
after them is cut off after a crash and written again.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa

from australis.kernel.errors import UserError
from australis.runtime.files import FileDisk
from australis.runtime.json_values import json_objects
from australis.runtime.sinks.base import Position, PositionedSink, PositionFile, foreign


def position_file(path: Path) -> PositionFile:
    """The position of a sink that writes to this path."""
    remedy = "remove it and the output beside it to write both anew, or name another output"
    place = path.with_name(path.name + ".position")
    return PositionFile(place, "position of a jsonl sink", remedy, private=False)


class JsonlSink(PositionedSink):
    """Appends tuples to a file of JSON lines."""

    def __init__(self, path: Path, run: str, *, fresh: bool = False) -> None:
        self.path = path
        sidecar = position_file(path)
        self._disk = FileDisk(path.parent, private=False)
        self._encoder = msgspec.json.Encoder()
        if fresh and sidecar.load() is not None:
            for old in (sidecar.path.name, path.name):
                if old in self._disk.names():
                    self._disk.remove(old)
        super().__init__(sidecar, self._open(sidecar, run))
        self._size = self._durable.bytes

    def _open(self, sidecar: PositionFile, run: str) -> Position:
        kept, size = sidecar.load(), self._disk.size(self.path.name)
        if kept is None:
            if self.path.exists():
                raise foreign(self.path)
            # Before the file itself: after a crash in between it must not look foreign.
            kept = Position(run=run)
            sidecar.save(kept)
        if kept.run != run:
            raise foreign(self.path)
        if size < kept.bytes:
            raise UserError(
                f"has written {kept.bytes} bytes to {self.path}, of which {size} are left:"
                " restore the file, or begin afresh"
            )
        if not self.path.exists():
            self._disk.append(self.path.name, b"")
        if size > kept.bytes:
            self._disk.cut(self.path.name, kept.bytes)
        return kept

    def _put(self, batch: pa.RecordBatch) -> None:
        data = self._encoder.encode_lines(json_objects(batch, ("_id", "_stime")))
        self._disk.append(self.path.name, data)
        self._size += len(data)

    def _sync(self) -> Position:
        self._disk.sync(self.path.name)
        return Position(self._last_id, self._size, self._durable.run)

    def close(self) -> None:
        """See `SinkWriter`."""
        super().close()
        self._disk.close()
