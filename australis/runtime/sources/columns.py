"""The conversion of columns as they were read to the declared types.

Whole columns are cast by Arrow. Only where a cast fails are the values at fault
looked for, by halving: a range that casts is good. So one rule decides about a
value, whether its neighbours are good or bad.

Text is read as follows. Blanks around anything but a string do not count, and
an empty text is NULL for anything but a string. Timestamps are ISO 8601, UTC
unless they name a zone, digits beyond microseconds cut off. Binary is base64.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from australis.runtime.sources.stamp import Stamper
from australis.streams.schema import TIMESTAMP, Schema, type_name

_ZONE = r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$"
_FINE = r"(\.\d{6})\d+"


def faults(count: int, works: Callable[[int, int], bool]) -> list[int]:
    """The positions at fault: `works(lo, hi)` says whether a range holds none."""
    found: list[int] = []
    ranges = [(0, count)]
    while ranges:
        lo, hi = ranges.pop()
        if lo == hi or works(lo, hi):
            continue
        if hi - lo == 1:
            found.append(lo)
        else:
            middle = (lo + hi) // 2
            ranges += [(middle, hi), (lo, middle)]
    return found


def convert(column: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, list[int]]:
    """The column in this type, NULL where a value does not fit, and those positions."""
    try:
        return cast(column, wanted), []
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    wrong = faults(len(column), lambda lo, hi: _casts(column.slice(lo, hi - lo), wanted))
    keep = pa.array([True] * len(column)).to_numpy(zero_copy_only=False)
    keep[wrong] = False
    good = pc.if_else(pa.array(keep), column, pa.scalar(None, column.type))
    return cast(good, wanted), wrong


def _casts(column: pa.Array, wanted: pa.DataType) -> bool:
    try:
        cast(column, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The column in this type; an Arrow error if a value does not fit."""
    if column.type == wanted:
        return column
    if pa.types.is_struct(wanted) and pa.types.is_struct(column.type):
        return _cast_struct(column, wanted)
    if not _is_text(column.type):
        return column.cast(wanted)
    if _is_text(wanted):
        return column.cast(wanted)
    if pa.types.is_binary(wanted):
        return _from_base64(column)
    trimmed = pc.utf8_trim_whitespace(column)
    trimmed = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, trimmed.type), trimmed)
    return parse_times(trimmed) if wanted == TIMESTAMP else trimmed.cast(wanted)


def _cast_struct(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    fields = [column.type.get_field_index(field.name) for field in wanted]
    if min(fields, default=0) < 0:
        raise pa.ArrowInvalid("a field of the struct is missing")
    flat = column.flatten()
    children = [cast(flat[i], field.type) for i, field in zip(fields, wanted, strict=True)]
    mask = pc.is_null(column) if column.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _from_base64(column: pa.Array) -> pa.Array:
    def decoded(text: str | None) -> bytes | None:
        try:
            return None if text is None else base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise pa.ArrowInvalid(str(error)) from None

    return pa.array([decoded(text) for text in column.to_pylist()], pa.binary())


def parse_times(texts: pa.Array) -> pa.Array:
    """ISO 8601 texts as timestamps in UTC."""
    for kind in (TIMESTAMP, pa.timestamp("us")):
        try:
            return texts.cast(kind).cast(TIMESTAMP)
        except pa.ArrowInvalid:
            continue
    coarse = pc.replace_substring_regex(texts, _FINE, r"\1")
    zoned = pc.match_substring_regex(coarse, _ZONE)
    none = pa.scalar(None, coarse.type)
    with_zone = pc.if_else(zoned, coarse, none).cast(TIMESTAMP)
    without = pc.if_else(zoned, none, coarse).cast(pa.timestamp("us")).cast(TIMESTAMP)
    return pc.coalesce(with_zone, without)


def fit(
    raw: pa.RecordBatch, schema: Schema, stamper: Stamper | None
) -> tuple[pa.RecordBatch, dict[int, str]]:
    """All rows in the schema's types, and the reason for each row that does not fit."""
    reasons: dict[int, str] = {}
    columns: list[pa.Array] = []
    for field in schema:
        given = raw.column(field.name)
        column, wrong = convert(given, field.arrow)
        for row in wrong:
            reasons.setdefault(row, _misfit(field.name, given[row].as_py(), field.arrow))
        columns.append(column)
    rows = pa.RecordBatch.from_arrays(columns, schema=schema.attributes)
    if stamper is not None:
        for row in stamper.stimes(rows)[1]:
            reasons.setdefault(row, stamper.reason(rows, row))
    return rows, reasons


def _misfit(name: str, value: Any, wanted: pa.DataType) -> str:
    text = repr(value)
    text = text if len(text) <= 80 else text[:80] + "…"
    return f"column '{name}': {text} does not fit {type_name(wanted)}"


def drop(rows: pa.RecordBatch, reasons: dict[int, str]) -> pa.RecordBatch:
    """The rows without those that have a reason for rejection."""
    if not reasons:
        return rows
    keep = [True] * rows.num_rows
    for row in reasons:
        keep[row] = False
    return rows.filter(pa.array(keep))
