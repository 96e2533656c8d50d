"""Where tuples come from: files, generators, sockets and programs.

Files and generators can be read again (`open_reader`), so the log's cursor is
all that must be remembered. What comes through a socket or a push cannot; it
goes through the journal (see `live.journal`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from australis.diagram.model import ARRIVAL, Source
from australis.kernel.errors import UserError
from australis.live.options import Options
from australis.live.sources.base import Chunk, Reader, Rejected
from australis.live.sources.csv import CsvReader
from australis.live.sources.generate import GENERATE_OPTIONS, GENERATORS, read_options
from australis.live.sources.jsonl import JsonlReader
from australis.live.sources.parquet import ParquetReader
from australis.live.sources.paths import FILE_OPTIONS
from australis.live.sources.stamp import check_time
from australis.live.sources.tcp import TCP_OPTIONS, read_address
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
    """A `UserError` for a mistake in a source; with `base` its files are looked at too."""
    if source.kind not in _OPTIONS:
        known = ", ".join(_OPTIONS)
        raise UserError(
            f"is of the unknown kind '{source.kind}' (known: {known})",
            name=source.name,
            place=source.place,
        )
    options = Options(source, _OPTIONS[source.kind])
    if source.kind == "tcp":
        read_address(options)
        options.flag("ack")
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
