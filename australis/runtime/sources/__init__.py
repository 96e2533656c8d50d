"""The sources of tuples: files, generators, sockets and programs.

Files and generators can be read again (`open_reader`), so the log's cursor is all the
state they need. Rows from a socket or a push cannot; they go through the journal (see
`runtime.journal`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from australis.diagram.model import ARRIVAL, Source
from australis.kernel.errors import UserError
from australis.kernel.names import known_names
from australis.runtime.options import Options
from australis.runtime.sources.base import Chunk, Reader, Rejected
from australis.runtime.sources.csv import CsvReader
from australis.runtime.sources.generate import GENERATE_OPTIONS, GENERATORS, read_options
from australis.runtime.sources.jsonl import JsonlReader
from australis.runtime.sources.parquet import ParquetReader
from australis.runtime.sources.paths import FILE_OPTIONS
from australis.runtime.sources.stamp import check_time
from australis.runtime.sources.tcp_door import TCP_OPTIONS, Door, read_address, tls_files
from australis.streams.schema import parse_type

__all__ = ["Chunk", "Reader", "Rejected", "check_options", "open_reader"]

_FILE_READERS: dict[str, Callable[[Source, Path], Reader]] = {
    "csv": CsvReader,
    "jsonl": JsonlReader,
    "parquet": ParquetReader,
}
_OPTIONS = dict.fromkeys(_FILE_READERS, FILE_OPTIONS) | {
    "generate": GENERATE_OPTIONS,
    "tcp": TCP_OPTIONS,
    "push": ("unit",),
}


def open_reader(source: Source, base: Path) -> Reader | None:
    """The reader of a source that can be read again; None for the others."""
    check_options(source)
    if source.kind in _FILE_READERS:
        return _FILE_READERS[source.kind](source, base)
    if source.kind == "generate":
        return GENERATORS[source.options["generator"]](source)
    return None


def check_options(source: Source, base: Path | None = None) -> None:
    """Raise a `UserError` for a mistake in a source; with `base` its files are checked too."""
    if source.kind not in _OPTIONS:
        raise UserError(
            f"is of the unknown kind '{source.kind}' ({known_names(source.kind, _OPTIONS)})",
            name=source.name,
            place=source.place,
        )
    options = Options(source, _OPTIONS[source.kind])
    if source.kind == "tcp":
        read_address(options)
        options.flag("ack")
        tls_files(source)
        if base is not None:
            Door(source, base)
    if source.kind == "generate":
        options.choice("generator", GENERATORS, "")
        read_options(source)
    if source.kind in _FILE_READERS:
        options.texts("path")
    if source.kind not in ("tcp", "push"):
        options.speed()
        if source.time == ARRIVAL:
            raise options.wrong("needs 'time': the column that sets the order of its tuples")
    if source.kind == "csv" and any(parse_type(f.type).num_fields for f in source.schema):
        raise options.wrong("has a struct column, which a CSV file cannot hold")
    check_time(source)
    if base is not None:
        open_reader(source, base)
