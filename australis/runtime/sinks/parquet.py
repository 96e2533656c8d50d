"""A directory of Parquet files: `_id`, `_stime` and the attributes.

A part is named by its first tuple's id and appears atomically: it is written under a
hidden name, synced and renamed. It ends after `PART_ROWS` tuples, with a flush
once it is `PART_S` old, and when the sink is closed. Its metadata names its last
id, so the parts themselves are the position, and each tuple is in one part.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from australis.kernel.errors import Damaged
from australis.runtime.files import make_directory, stopping, sync_directory
from australis.runtime.sinks.base import after, foreign, last_id_of
from australis.streams.schema import Schema

PART_ROWS = 1_000_000
PART_S = 60.0
GROUP_ROWS = 65_536
"""The number of tuples in a row group, since many small groups are slow to read."""

_LAST_ID = b"australis.last_id"
_RUN = b"australis.run"
_CHECK = b"australis.check"
"""The checksum of the two others and of the part's name."""


def _check(name: str, last_id: bytes, run: bytes) -> bytes:
    return b"%08x" % zlib.crc32(b"\n".join((name.encode(), last_id, run)))


class ParquetSink:
    """Writes tuples to the parts of one directory."""

    def __init__(
        self,
        directory: Path,
        schema: Schema,
        run: str,
        *,
        fresh: bool = False,
        part_rows: int = PART_ROWS,
        part_s: float = PART_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self._run = run
        self._schema = pa.schema(list(schema.arrow)[1:])
        self._part_rows = part_rows
        self._part_s = part_s
        self._monotonic = monotonic
        self._writer: pq.ParquetWriter | None = None
        self._gathered: list[pa.RecordBatch] = []
        self._rows = 0
        self._first_id = 0
        self._opened_at = 0.0
        self._position = self._open(fresh)
        self._last_id = self._position

    def _open(self, fresh: bool) -> int:
        if self.directory.exists() and not self.directory.is_dir():
            raise foreign(self.directory)
        with stopping("open", self.directory):
            make_directory(self.directory, private=False)
            for path in self.directory.glob(".part-*.tmp"):
                path.unlink()
            parts = sorted(self.directory.glob("*.parquet"))
            if fresh:
                for path in parts:
                    if _RUN in (pq.read_metadata(path).metadata or {}):
                        path.unlink()
                parts = sorted(self.directory.glob("*.parquet"))
        if not parts:
            return -1
        try:
            metadata = pq.read_metadata(parts[-1]).metadata or {}
        except (pa.ArrowInvalid, OSError):
            raise foreign(self.directory) from None
        last_id, run = metadata.get(_LAST_ID, b""), metadata.get(_RUN, b"")
        if _CHECK in metadata and metadata[_CHECK] != _check(parts[-1].name, last_id, run):
            raise Damaged(
                f"{parts[-1]} is damaged: remove it, and it is written again from what logs still"
                " hold"
            )
        if run != self._run.encode() or _CHECK not in metadata:
            raise foreign(self.directory)
        return int(last_id)

    @property
    def position(self) -> int:
        """See `SinkWriter`."""
        return self._position

    def write(self, batch: pa.RecordBatch) -> None:
        """See `SinkWriter`."""
        batch = after(batch, self._last_id)
        if not batch.num_rows:
            return
        if not self._rows:
            self._first_id = batch.column("_id")[0].as_py()
            self._opened_at = self._monotonic()
        self._gathered.append(batch.select(self._schema.names))
        self._rows += batch.num_rows
        self._last_id = last_id_of(batch)
        if sum(part.num_rows for part in self._gathered) >= GROUP_ROWS:
            self._write_group()
        if self._rows >= self._part_rows:
            self._end_part()

    def flush(self) -> None:
        """End the part if it is old enough."""
        if self._rows and self._monotonic() - self._opened_at >= self._part_s:
            self._end_part()

    def close(self) -> None:
        """End the part."""
        if self._rows:
            self._end_part()

    @property
    def _temporary(self) -> Path:
        return self.directory / f".part-{self._first_id:020d}.parquet.tmp"

    def _write_group(self) -> None:
        with stopping("write", self._temporary):
            if self._writer is None:
                self._writer = pq.ParquetWriter(self._temporary, self._schema)
            self._writer.write_table(pa.Table.from_batches(self._gathered, self._schema))
        self._gathered = []

    def _end_part(self) -> None:
        if self._gathered:
            self._write_group()
        assert self._writer is not None, "a part has rows"
        final = self.directory / f"part-{self._first_id:020d}.parquet"
        with stopping("write", final):
            last_id, run = str(self._last_id).encode(), self._run.encode()
            check = _check(final.name, last_id, run)
            self._writer.add_key_value_metadata({_LAST_ID: last_id, _RUN: run, _CHECK: check})
            self._writer.close()
            fd = os.open(self._temporary, os.O_RDWR)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
            os.replace(self._temporary, final)
            sync_directory(self.directory)
        self._writer, self._rows = None, 0
        self._position = self._last_id
