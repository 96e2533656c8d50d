"""A line per tuple for people: the time, then name=value, aligned.

There are colours only on a terminal. The position is kept in the state directory, so
that a run that continues does not print everything again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from australis.runtime.json_values import json_objects
from australis.runtime.sinks.base import Position, PositionedSink, kept_in_state

MAX_WIDTH = 40
"""The largest width that aligns columns; wider values are printed whole."""


class ConsoleSink(PositionedSink):
    """Prints tuples to a text stream."""

    def __init__(self, stream: TextIO, path: Path) -> None:
        file = kept_in_state(path)
        super().__init__(file, file.load() or Position())
        self._stream = stream
        self._console = Console(file=stream, highlight=False, soft_wrap=True)
        self._on_terminal = stream.isatty()
        self._widths: dict[str, int] = {}

    def _put(self, batch: pa.RecordBatch) -> None:
        for row in json_objects(batch, ("_stime",)):
            line = self._line(row)
            if self._on_terminal:
                self._console.print(line)
            else:
                self._stream.write(line.plain + "\n")

    def _line(self, row: dict[str, Any]) -> Text:
        line = Text(str(row.pop("_stime")).replace("T", " ").removesuffix("Z"), "dim")
        for name, value in row.items():
            shown = "NULL" if value is None else str(value)
            width = max(self._widths.get(name, 0), min(len(shown), MAX_WIDTH))
            self._widths[name] = width
            padded = shown.rjust(width) if isinstance(value, int | float) else shown.ljust(width)
            line.append(f"  {name}=", "cyan").append(padded)
        line.rstrip()
        return line

    def flush(self) -> None:
        """See `SinkWriter`."""
        self._stream.flush()
        super().flush()
