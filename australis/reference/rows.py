"""Converts record batches to rows of plain Python values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import pyarrow as pa

from australis.reference.expressions import Row
from australis.streams.schema import HEADER_NAMES, Schema

Reader = Callable[[Any], list[Any]]
_INT32, _INT64 = pa.int32(), pa.int64()


def reader(kind: pa.DataType) -> Reader:
    """A function that reads a column of this type into a list with None for NULL."""
    if pa.types.is_timestamp(kind):
        return lambda column: column.view(_INT64).to_pylist()
    if pa.types.is_date(kind):
        return lambda column: column.view(_INT32).to_pylist()
    if pa.types.is_decimal(kind):
        return _decimals
    if pa.types.is_struct(kind):
        return _structs(kind)
    return lambda column: column.to_pylist()


def _decimals(column: pa.Array) -> list[int | None]:
    data = memoryview(column.buffers()[1])
    first = column.offset
    numbers: list[int | None] = [
        int.from_bytes(data[16 * at : 16 * at + 16], "little", signed=True)
        for at in range(first, first + len(column))
    ]
    if column.null_count:
        valid = column.is_valid().to_pylist()
        return [number if ok else None for number, ok in zip(numbers, valid, strict=True)]
    return numbers


def _structs(kind: pa.DataType) -> Reader:
    readers = [reader(field.type) for field in kind]

    def read(column: pa.Array) -> list[Any]:
        children = [
            read_child(child) for read_child, child in zip(readers, column.flatten(), strict=True)
        ]
        found: list[Any] = list(zip(*children, strict=True))
        if column.null_count:
            valid = column.is_valid().to_pylist()
            return [value if ok else None for value, ok in zip(found, valid, strict=True)]
        return found

    return read


class BatchReader:
    """Reads the batches of one logged stream."""

    def __init__(self, schema: Schema, *, ids: bool) -> None:
        self._readers = [reader(field.arrow) for field in schema]
        self._ids = ids

    def rows(self, batches: Sequence[pa.RecordBatch]) -> list[Row]:
        """All rows of the batches: `_stime`, the attributes, and the id (0 if ids are not
        requested).
        """
        found: list[Row] = []
        for batch in batches:
            columns = [batch.column(2).view(_INT64).to_pylist()]
            for at, read in enumerate(self._readers, len(HEADER_NAMES)):
                columns.append(read(batch.column(at)))
            ids = batch.column(1).to_pylist() if self._ids else repeat(0)
            found.extend(zip(*columns, ids, strict=False))
        return found
