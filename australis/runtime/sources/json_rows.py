"""Lines of JSON objects into rows; used by files and by sockets.

A block of lines is parsed by Arrow at once. If that fails, the lines at fault
are found by halving, and the others are taken. A line holds one whole object.
A missing key is NULL, keys the schema does not name are passed over. Decimals
may be numbers or strings, timestamps and dates are strings (see `columns`).
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.json as arrow_json

from australis.diagram.model import Source
from australis.runtime.sources.base import Chunk
from australis.runtime.sources.columns import drop, faults, fit
from australis.runtime.sources.lines import Block, by_line
from australis.runtime.sources.stamp import reader_stamper


class JsonRows:
    """Parses blocks of JSON lines into the rows of one source."""

    def __init__(self, source: Source) -> None:
        self._schema = source.schema
        self._stamper = reader_stamper(source)
        self._wire = pa.schema([_wire(field) for field in self._schema.attributes])
        self._options = arrow_json.ParseOptions(
            explicit_schema=self._wire, unexpected_field_behavior="ignore"
        )
        self._quick = msgspec.json.Decoder(_quick_type(pa.struct(list(self._wire))))

    def parse(self, block: Block) -> Chunk:
        """The rows of a block, and its rejected lines."""
        block = block.valid_utf8()
        at = _filled(block)
        raw = self._parse(block.data)
        # An object that spans lines, or two on one, would misplace every later line.
        if raw is None or raw.num_rows != len(at):
            block, at = self._without_faults(block, at)
            raw = self._parse(b"\n".join(block.lines[i] for i in at))
            assert raw is not None, "lines that parse apart parse together"
        rows, reasons = fit(raw, self._schema, self._stamper)
        told = (block.reject(at[row], reason) for row, reason in reasons.items())
        return Chunk(drop(rows, reasons), by_line((*block.rejected, *told)))

    def _without_faults(self, block: Block, lines: list[int]) -> tuple[Block, list[int]]:
        def works(chosen: list[int]) -> bool:
            raw = self._parse(b"\n".join(block.lines[i] for i in chosen))
            return raw is not None and raw.num_rows == len(chosen)

        # Halving is slow where faults are many, so those that are easy to detect go first.
        wrong = {i for i in lines if self._looks_wrong(block.lines[i]) and not works([i])}
        others = [i for i in lines if i not in wrong]
        wrong |= {others[n] for n in faults(len(others), lambda lo, hi: works(others[lo:hi]))}
        told = {i: self._reason(block.lines[i]) for i in sorted(wrong)}
        return block.blank(told), [i for i in lines if i not in wrong]

    def _looks_wrong(self, line: bytes) -> bool:
        """A quick check that a line may be at fault; Arrow alone decides."""
        try:
            self._quick.decode(line)
        except msgspec.DecodeError:
            return True
        return False

    def _parse(self, data: bytes) -> pa.RecordBatch | None:
        if not data.strip():
            return _empty(self._wire)
        try:
            table = self._read(data)
        except pa.ArrowInvalid:
            return None
        columns = [column.combine_chunks() for column in table.columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._wire)

    def _read(self, data: bytes) -> pa.Table:
        options = arrow_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        table = arrow_json.read_json(
            pa.BufferReader(data), read_options=options, parse_options=self._options
        )
        return table.select(self._wire.names)

    def _reason(self, line: bytes) -> str:
        try:
            self._read(line)
        except pa.ArrowInvalid as error:
            said = str(error).removesuffix(" in row 0").removeprefix("JSON parse error: ")
            return f"is not JSON that fits the schema: {said}"
        return "is not one JSON object"


def _filled(block: Block) -> list[int]:
    return [index for index, line in enumerate(block.lines) if line.strip()]


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _wire(field: pa.Field) -> pa.Field:
    """The type of a column in JSON: text where JSON has no type for it."""
    return pa.field(field.name, _wire_type(field.type))


def _wire_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_wire(child) for child in kind])
    if pa.types.is_temporal(kind) or pa.types.is_binary(kind):
        return pa.string()
    return kind


def _quick_type(kind: pa.DataType) -> Any:
    """The type by which msgspec decodes a column."""
    if pa.types.is_struct(kind):
        names = {f"c{i}": field.name for i, field in enumerate(kind)}
        fields = [(f"c{i}", _quick_type(field.type) | None, None) for i, field in enumerate(kind)]
        return msgspec.defstruct("Row", fields, rename=names)
    if pa.types.is_integer(kind):
        return int
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_boolean(kind):
        return bool
    return float | str if pa.types.is_decimal(kind) else str
