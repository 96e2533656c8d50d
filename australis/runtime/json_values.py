"""Tuples as JSON objects, for people and for programs that read lines.

Timestamps are ISO 8601 in UTC with microseconds, dates ISO 8601, decimals
strings (a JSON number would lose digits in most readers), binary base64. JSON
has no NaN and no infinity: they are the strings "NaN", "Infinity" and
"-Infinity", as Spark writes and reads them.
"""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from australis.streams.schema import HEADER_NAMES, TIMESTAMP


def json_objects(batch: pa.RecordBatch, header: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """One object per row: these header columns first, then the attributes in order."""
    names = [*header, *(name for name in batch.schema.names if name not in HEADER_NAMES)]
    columns = [_values(batch.column(name)) for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def iso_times(column: pa.Array) -> pa.Array:
    """Timestamps as ISO 8601 texts in UTC."""
    plain = column.cast(pa.timestamp("us")).cast(pa.string())
    return pc.binary_join_element_wise(pc.replace_substring(plain, " ", "T"), "Z", "")


def iso_time(micros: int) -> str:
    """One time as such a text."""
    return str(iso_times(pa.array([micros], TIMESTAMP))[0].as_py())


def _values(column: pa.Array) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return list(iso_times(column).to_pylist())
    if pa.types.is_date(kind) or pa.types.is_decimal(kind):
        return list(column.cast(pa.string()).to_pylist())
    if pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_binary(kind):
        return [None if v is None else base64.b64encode(v).decode() for v in column.to_pylist()]
    if pa.types.is_struct(kind):
        return _structs(column)
    return list(column.to_pylist())


def _floats(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if pc.all(pc.is_finite(column)).as_py() is not False:
        return values
    names = {float("inf"): "Infinity", float("-inf"): "-Infinity"}
    return ["NaN" if value != value else names.get(value, value) for value in values]


def _structs(column: pa.Array) -> list[Any]:
    names = [field.name for field in column.type]
    children = [_values(child) for child in column.flatten()]
    objects = [dict(zip(names, row, strict=True)) for row in zip(*children, strict=True)]
    valid = column.is_valid().to_pylist()
    return [one if there else None for one, there in zip(objects, valid, strict=True)]
