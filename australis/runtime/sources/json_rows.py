"""Lines of JSON objects into rows; used by files and by sockets.

Each line is decoded by itself and holds one whole object, so that no line has an
influence on another. A missing key is NULL, keys the schema does not name are passed
over, and of a key that is there twice the last one counts. Decimals may be numbers or
strings, timestamps and dates are strings, binary is base64 (see `columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from australis.diagram.model import Source
from australis.kernel.errors import UserError
from australis.runtime.sources.base import Chunk
from australis.runtime.sources.columns import drop, fit
from australis.runtime.sources.lines import Block, by_line
from australis.runtime.sources.stamp import reader_stamper

DECODED_LINES = 8192
"""The number of lines that are held as Python objects at once."""
_DEEP = "is not JSON that fits the schema: nested too deeply"

Decode = Callable[[bytes], Any]
MakeArray = Callable[[list[Any]], pa.Array]
"""Makes a column of the decoded values of its rows."""


class JsonRows:
    """Parses blocks of JSON lines into the rows of one source."""

    def __init__(self, source: Source) -> None:
        self._schema = source.schema
        self._stamper = reader_stamper(source)
        row = pa.struct(list(source.schema.attributes))
        try:
            self._decode: Decode = msgspec.json.Decoder(_object_type(row)).decode
        except ValueError:
            raise UserError(
                'has a column whose name holds a \\, a " or a control character, which JSON lines'
                " cannot name here",
                name=source.name,
                place=source.place,
            ) from None
        self._columns = _children(row)

    def parse(self, block: Block) -> Chunk:
        """The rows of a block, and its rejected lines."""
        block = block.valid_utf8()
        filled = [index for index, line in enumerate(block.lines) if line.strip()]
        parts: list[pa.RecordBatch] = []
        accepted: list[int] = []
        wrong: dict[int, str] = {}
        for start in range(0, max(len(filled), 1), DECODED_LINES):
            at, objects = self._decoded(block.lines, filled[start : start + DECODED_LINES], wrong)
            accepted += at
            columns = [make(objects) for make in self._columns]
            parts.append(pa.RecordBatch.from_arrays(columns, names=list(self._schema.names)))
        rows, reasons = fit(pa.concat_batches(parts), self._schema, self._stamper)
        wrong |= {accepted[row]: reason for row, reason in reasons.items()}
        told = (block.reject(index, reason) for index, reason in wrong.items())
        return Chunk(drop(rows, reasons), by_line((*block.rejected, *told)))

    def _decoded(
        self, lines: Sequence[bytes], at: list[int], wrong: dict[int, str]
    ) -> tuple[list[int], list[Any]]:
        """The objects of the good ones among these lines, and what is wrong with the others."""
        decode = self._decode
        try:
            return at, [decode(lines[index]) for index in at]
        except (msgspec.DecodeError, RecursionError):
            pass
        accepted: list[int] = []
        objects: list[Any] = []
        for index in at:
            try:
                objects.append(decode(lines[index]))
            except msgspec.DecodeError as error:
                wrong[index] = f"is not JSON that fits the schema: {error}"
            except RecursionError:
                wrong[index] = _DEEP
            else:
                accepted.append(index)
        return accepted, objects


def _object_type(struct: pa.DataType) -> type[msgspec.Struct]:
    """The type by which msgspec decodes an object with these fields."""
    names = {f"c{i}": field.name for i, field in enumerate(struct)}
    fields = [(f"c{i}", _value_type(field.type) | None, None) for i, field in enumerate(struct)]
    return msgspec.defstruct("Row", fields, rename=names, gc=False)


def _value_type(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return _object_type(kind)
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1) - 1
        return Annotated[int, msgspec.Meta(ge=-most - 1, le=most)]
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_boolean(kind):
        return bool
    return Decimal if pa.types.is_decimal(kind) else str


def _children(struct: pa.DataType) -> list[MakeArray]:
    """What makes a column of each field of some objects."""
    return [_column(f"c{i}", field.type) for i, field in enumerate(struct)]


def _column(name: str, kind: pa.DataType) -> MakeArray:
    make = _maker(kind)
    return lambda objects: make([getattr(one, name) for one in objects])


def _maker(kind: pa.DataType) -> MakeArray:
    """What makes an array of decoded values: of text where JSON has no type for them."""
    if pa.types.is_struct(kind):
        return _struct_maker(kind)
    if pa.types.is_decimal(kind):
        texts = pa.string()
        return lambda values: pa.array([None if v is None else str(v) for v in values], texts)
    if pa.types.is_temporal(kind) or pa.types.is_binary(kind):
        kind = pa.string()
    elif pa.types.is_floating(kind):
        kind = pa.float64()
    return lambda values: pa.array(values, kind)


def _struct_maker(struct: pa.DataType) -> MakeArray:
    names = [field.name for field in struct]
    columns = _children(struct)
    nothing = _object_type(struct)()

    def make(values: list[Any]) -> pa.Array:
        mask = pa.array([value is None for value in values], pa.bool_())
        objects = [nothing if value is None else value for value in values]
        return pa.StructArray.from_arrays(
            [column(objects) for column in columns], names=names, mask=mask
        )

    return make
