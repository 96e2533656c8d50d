"""Parquet files.

Columns are matched by name and cast to the declared types; a value that does
not fit rejects its row, which is named by its number in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from australis.diagram.model import Source
from australis.kernel.errors import Stopped, UserError
from australis.runtime.sources.base import Chunk, FilesRead, Rejected, shown_row, without_first
from australis.runtime.sources.columns import drop, fit
from australis.runtime.sources.paths import find_files, in_file, require_columns
from australis.runtime.sources.stamp import reader_stamper

BATCH_ROWS = 32_768
_UNREADABLE = (pa.ArrowException, OSError, ValueError, LookupError, OverflowError)
"""What pyarrow raises for files that are damaged."""


class ParquetReader:
    """Reads one or several Parquet files, one after the other."""

    def __init__(self, source: Source, base: Path) -> None:
        self._schema = source.schema
        self._stamper = reader_stamper(source)
        self._paths = find_files(source, base)
        self._read = FilesRead(self._paths)
        for path in self._paths:
            self._check(source, path)

    @property
    def share(self) -> float:
        """See `Reader`."""
        return self._read.share

    def _check(self, source: Source, path: Path) -> None:
        try:
            names = pq.read_schema(path).names
        except _UNREADABLE as error:
            said = str(error).split("\n")[0].rstrip(".")
            raise UserError(
                f"reads {path.name}, which is not a Parquet file: {said}",
                name=source.name,
                place=source.place,
            ) from None
        require_columns(source, path, names)

    def chunks(self, skip: int) -> Iterator[Chunk]:
        """See `Reader`."""
        return without_first(self._all(), skip)

    def _all(self) -> Iterator[Chunk]:
        for path in self._paths:
            try:
                for chunk in self._file(path):
                    yield in_file(chunk, path) if len(self._paths) > 1 else chunk
            except _UNREADABLE as error:
                raise Stopped(f"cannot read {path}: {error}") from error

    def _file(self, path: Path) -> Iterator[Chunk]:
        first = 1
        with pq.ParquetFile(path) as file:
            for raw in file.iter_batches(
                BATCH_ROWS, columns=list(self._schema.names), use_threads=False
            ):
                rows, reasons = fit(raw, self._schema, self._stamper)
                rejected = tuple(
                    Rejected(first + row, reason, shown_row(raw, row))
                    for row, reason in sorted(reasons.items())
                )
                yield Chunk(drop(rows, reasons), rejected)
                first += raw.num_rows
                size = path.stat().st_size
                self._read.upto(path, size * (first - 1) // max(1, file.metadata.num_rows))
