"""CSV files with a header line.

Columns are matched by name; columns the schema does not name are ignored.
An empty field is NULL; a quoted empty field is the empty string where the
column is a string. A field that holds a comma or a quote is quoted, with its
quotes doubled (RFC 4180), but a field may not hold a line break: a line whose
quotes do not pair is rejected, so that one stray quote costs one row and not
the rest of the file. A carriage return without a newline is a line break too.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv

from australis.diagram.model import Source
from australis.kernel.errors import UserError
from australis.runtime.sources.base import Chunk, FilesRead, Rejected, without_first
from australis.runtime.sources.columns import drop, fit
from australis.runtime.sources.lines import BYTE_ORDER_MARK, Block, by_line, file_blocks
from australis.runtime.sources.paths import find_files, in_file, require_columns
from australis.runtime.sources.stamp import reader_stamper

_FIELD = rb'(?>"[^"]*(?>""[^"]*)*"|[^",][^,]*|)'
_PAIRED = re.compile(_FIELD + rb"(?>," + _FIELD + rb")*").fullmatch
"""Whether each quoted field of a line ends in it; a quote within a plain field is a character."""


class CsvReader:
    """Reads one or several CSV files, one after the other."""

    def __init__(self, source: Source, base: Path) -> None:
        self._source = source
        self._files = [_File(source, path) for path in find_files(source, base)]
        self._several = len(self._files) > 1
        self._read = FilesRead(file.path for file in self._files)

    @property
    def share(self) -> float:
        """See `Reader`."""
        return self._read.share

    def chunks(self, skip: int) -> Iterator[Chunk]:
        """See `Reader`."""
        return without_first(self._all(), skip)

    def _all(self) -> Iterator[Chunk]:
        for file in self._files:
            for chunk in file.chunks(partial(self._read.upto, file.path)):
                yield in_file(chunk, file.path) if self._several else chunk


class _File:
    def __init__(self, source: Source, path: Path) -> None:
        self.path = path
        self._schema = source.schema
        self._stamper = reader_stamper(source)
        self._header = self._read_header(source)
        require_columns(source, path, self._header)
        self._wanted = {str(self._header.index(name)): name for name in self._schema.names}

    def _read_header(self, source: Source) -> list[str]:
        def wrong(sentence: str) -> UserError:
            return UserError(sentence, name=source.name, place=source.place)

        first = next(file_blocks(self.path), None)
        line = first.lines[0] if first is not None else b""
        if first is None or first.first_line != 1 or not line.strip():
            raise wrong(f"reads {self.path.name}, which has no header line")
        if not _PAIRED(line) or any(one.line == 1 for one in first.rejected):
            raise wrong(f"reads {self.path.name}, whose header line cannot be read")
        try:
            names = [name.strip() for name in next(csv.reader([line.decode()]))]
        except csv.Error:
            raise wrong(f"reads {self.path.name}, whose header line cannot be read") from None
        twice = [name for name in self._schema.names if names.count(name) > 1]
        if twice:
            raise wrong(f"reads {self.path.name}, which has two columns '{twice[0]}'")
        return names

    def chunks(self, on_read: Callable[[int], None]) -> Iterator[Chunk]:
        for block in file_blocks(self.path, on_read=on_read):
            if block.first_line == 1:
                _, _, body = block.data.partition(b"\n")
                block = Block(2, body, block.rejected)
            yield self._chunk(_one_row_a_line(block))

    def _chunk(self, block: Block) -> Chunk:
        raw, rejected, row_lines = self._strings(block)
        rows, reasons = fit(raw, self._schema, self._stamper)
        if reasons and row_lines is None:
            row_lines = block.rows
        told = (block.reject((row_lines or [])[row], reason) for row, reason in reasons.items())
        return Chunk(drop(rows, reasons), by_line((*block.rejected, *rejected, *told)))

    def _strings(self, block: Block) -> tuple[pa.RecordBatch, list[Rejected], list[int] | None]:
        """The declared columns as strings, malformed rows, and each row's line if that is known."""
        if not block.data.strip(b"\r\n"):
            empty = [pa.array([], pa.string())] * len(self._wanted)
            return pa.RecordBatch.from_arrays(empty, list(self._wanted.values())), [], None
        malformed: dict[int, str] = {}

        def on_malformed(row: arrow_csv.InvalidRow) -> str:
            malformed[row.number - 1] = (
                f"has {row.actual_columns} columns, not {row.expected_columns}"
            )
            return "skip"

        # Arrow would take a byte order mark for the beginning of a file; only ours knows that.
        data = b"\n" + block.data if block.data.startswith(BYTE_ORDER_MARK) else block.data
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            # One block and one thread: only then are malformed rows numbered.
            read_options=arrow_csv.ReadOptions(
                use_threads=False,
                block_size=len(data) + 1,
                column_names=[str(i) for i in range(len(self._header))],
            ),
            parse_options=arrow_csv.ParseOptions(invalid_row_handler=on_malformed),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(self._wanted, pa.string()),
                include_columns=list(self._wanted),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        ).rename_columns(list(self._wanted.values()))
        raw = pa.RecordBatch.from_arrays(
            [column.combine_chunks() for column in table.columns], names=table.column_names
        )
        if not malformed:
            return raw, [], None
        rejected = [block.reject(block.rows[row], why) for row, why in malformed.items()]
        return raw, rejected, [at for row, at in enumerate(block.rows) if row not in malformed]


def _one_row_a_line(block: Block) -> Block:
    """The block without the lines of which Arrow would not make one row each."""
    wrong: dict[int, str] = {}
    if b'"' in block.data:
        unpaired = (i for i, line in enumerate(block.lines) if b'"' in line and not _PAIRED(line))
        wrong = dict.fromkeys(unpaired, "has a quote without its pair")
    if b"\r" in block.data and block.data.count(b"\r") != block.data.count(b"\r\n"):
        within = (i for i, line in enumerate(block.lines) if b"\r" in line)
        wrong |= dict.fromkeys(within, "has a carriage return that does not end it")
    return block.blank(wrong) if wrong else block
