"""The sinks of output streams: files, the console, or a Python program.

A sink follows one stream and stores its position, so that a run that continues
misses nothing. Files hold each tuple exactly once; a function may get tuples
again after a crash.
"""

from __future__ import annotations

import sys
from pathlib import Path

from australis.diagram.model import Diagram, Sink
from australis.kernel.errors import UserError
from australis.kernel.names import known_names
from australis.runtime.files import make_directory, stopping
from australis.runtime.options import Options
from australis.runtime.sinks.base import SinkWriter, run_mark
from australis.runtime.sinks.callback import CallbackSink, StreamIterator
from australis.runtime.sinks.console import ConsoleSink
from australis.runtime.sinks.jsonl import JsonlSink
from australis.runtime.sinks.parquet import ParquetSink
from australis.streams.schema import Schema

__all__ = ["SinkWriter", "StreamIterator", "check_options", "open_sink"]

_OPTIONS: dict[str, tuple[str, ...]] = {
    "jsonl": ("path",),
    "parquet": ("path",),
    "console": (),
    "callback": ("call", "rows"),
}


def check_options(sink: Sink) -> Options:
    """The options of a sink; raises a `UserError` for a mistake in them."""
    if sink.kind not in _OPTIONS:
        raise UserError(
            f"is of the unknown kind '{sink.kind}' ({known_names(sink.kind, _OPTIONS)})",
            name=sink.name,
            place=sink.place,
        )
    options = Options(sink, _OPTIONS[sink.kind])
    if sink.kind in ("jsonl", "parquet"):
        options.text("path")
    if sink.kind == "callback":
        options.flag("rows")
        if not callable(sink.options.get("call")):
            raise options.wrong("needs the option 'call', a Python function")
    return options


def refuse_shared_files(diagram: Diagram, base: Path) -> None:
    """Raise a `UserError` if a sink would write where another part reads or writes."""
    taken = {
        path: source.name
        for source in diagram.sources
        if source.kind in ("csv", "jsonl", "parquet")
        for path in _paths(source.options["path"], base)
    }
    for sink in diagram.sinks:
        if sink.kind in ("jsonl", "parquet"):
            for path in _paths(sink.options["path"], base):
                if path in taken:
                    raise UserError(
                        f"would write to {path}, which is '{taken[path]}''s",
                        name=sink.name,
                        place=sink.place,
                    )
                taken[path] = sink.name


def _paths(given: object, base: Path) -> list[Path]:
    several = given if isinstance(given, list | tuple) else [given]
    return [(base / Path(str(one)).expanduser()).resolve() for one in several]


def open_sink(
    sink: Sink, schema: Schema, state: Path, base: Path, *, fresh: bool = False
) -> SinkWriter:
    """The writer of a sink, at its position; `fresh` starts over and deletes old output."""
    options = check_options(sink)
    try:
        return _open(sink, options, schema, state, base, fresh)
    except UserError as error:
        raise error.at(sink.place, sink.name) from None


def _open(
    sink: Sink, options: Options, schema: Schema, state: Path, base: Path, fresh: bool
) -> SinkWriter:
    if sink.kind in ("jsonl", "parquet"):
        path = base / Path(options.text("path")).expanduser()
        run = run_mark(state, sink, fresh=fresh)
        if sink.kind == "parquet":
            return ParquetSink(path, schema, run, fresh=fresh)
        if path.is_dir():
            raise UserError(f"would write to {path}, which is a directory")
        return JsonlSink(path, run, fresh=fresh)
    position = state / "sinks" / f"{sink.name}.position"
    with stopping("write", position):
        make_directory(position.parent)
        if fresh:
            position.unlink(missing_ok=True)
    if sink.kind == "console":
        return ConsoleSink(sys.stdout, position)
    return CallbackSink(sink.options["call"], position, rows=options.flag("rows"))
