"""Files with one JSON object per line (see `json_rows` for what a line may hold)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from australis.diagram.model import Source
from australis.runtime.sources.base import Chunk, FilesRead, without_first
from australis.runtime.sources.json_rows import JsonRows
from australis.runtime.sources.lines import file_blocks
from australis.runtime.sources.paths import find_files, in_file


class JsonlReader:
    """Reads one or several files of JSON lines, one after the other."""

    def __init__(self, source: Source, base: Path) -> None:
        self._rows = JsonRows(source)
        self._paths = find_files(source, base)
        self._read = FilesRead(self._paths)

    @property
    def share(self) -> float:
        """See `Reader`."""
        return self._read.share

    def chunks(self, skip: int) -> Iterator[Chunk]:
        """See `Reader`."""
        return without_first(self._all(), skip)

    def _all(self) -> Iterator[Chunk]:
        for path in self._paths:
            for block in file_blocks(path, on_read=partial(self._read.upto, path)):
                chunk = self._rows.parse(block)
                yield in_file(chunk, path) if len(self._paths) > 1 else chunk
