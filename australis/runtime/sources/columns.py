"""The conversion of columns as they were read to the declared types.

Whole columns are cast by Arrow. Only where a cast fails are the values at fault
looked for, by halving: a range that casts is good. So one rule decides about a
value, whether its neighbours are good or bad.

Text is read as follows. Blanks around anything but a string do not count, and
an empty text is NULL for anything but a string. Timestamps are ISO 8601, UTC
unless they name a zone, digits beyond microseconds cut off. Binary is base64.
Timestamps and dates lie in the years 1 to 9999, whatever they are read from: so
every program and every sink can express them. Texts are UTF-8.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from australis.runtime.sources.base import shown_value
from australis.runtime.sources.stamp import Stamper
from australis.streams.schema import TIMESTAMP, Schema, type_name

_ZONE = r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$"
_FINE = r"(\.\d{6})\d+"
_MISFIT = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)
_DATE = r"^(\d{4}-\d\d-\d\d|$)"
_WHOLE = r"^(-?\d|$)"
"""How a date, a timestamp or a whole number begins, if it is one."""
_MAX_DIGITS = 38
_NO_DIGIT = r"^[+-]?0*|\.|[eE].*$"
"""What of a decimal number are not its significant digits."""
_DAY_US = 86_400_000_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""The first day of the year 1 and the last one of the year 9999, counted from 1970."""
_END_US = (_LAST_DAY + 1) * _DAY_US - 1


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
    except _MISFIT:
        pass
    wrong = _misfits(column, wanted)
    keep = np.ones(len(column), dtype=bool)
    keep[wrong] = False
    if len(wrong) == len(column):
        return pa.nulls(len(column), wanted), wrong
    good = pc.if_else(pa.array(keep), column, pa.scalar(None, column.type))
    return cast(good, wanted), wrong


def _misfits(column: pa.Array, wanted: pa.DataType) -> list[int]:
    """The positions of the values that do not fit: first those that look like no such value."""
    possible = np.arange(len(column))
    looks = _DATE if pa.types.is_temporal(wanted) else _WHOLE if pa.types.is_integer(wanted) else ""
    if looks and _is_text(column.type) and _casts(column, column.type):
        fits = pc.match_substring_regex(pc.utf8_trim_whitespace(column), looks)
        possible = np.flatnonzero(pc.fill_null(fits, True).to_numpy(zero_copy_only=False))
    rest = column if len(possible) == len(column) else column.take(pa.array(possible))
    found = faults(len(rest), lambda lo, hi: _casts(rest.slice(lo, hi - lo), wanted))
    fine = np.delete(possible, found)
    return list(map(int, np.setdiff1d(np.arange(len(column)), fine)))


def _casts(column: pa.Array, wanted: pa.DataType) -> bool:
    try:
        cast(column, wanted)
    except _MISFIT:
        return False
    return True


def cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The column in this type; an Arrow error if a value does not fit."""
    column.validate(full=True)  # texts that are not UTF-8, decimals with too many digits
    made = column if column.type == wanted else _cast(column, wanted)
    _check_range(made)
    return made


def _check_range(column: pa.Array) -> None:
    """Raise an Arrow error for a time that its type can hold and a stream cannot."""
    if pa.types.is_struct(column.type):
        for child in column.flatten():
            _check_range(child)
    elif pa.types.is_temporal(column.type):
        days = pa.types.is_date(column.type)
        low, high = (_FIRST_DAY, _LAST_DAY) if days else (_FIRST_DAY * _DAY_US, _END_US)
        found = pc.min_max(column.view(pa.int32() if days else pa.int64()))
        least, most = found["min"].as_py(), found["max"].as_py()
        if least is not None and not low <= least <= most <= high:
            raise pa.ArrowInvalid("not in the years 1 to 9999")


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
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
    if wanted == TIMESTAMP:
        return parse_times(trimmed)
    if pa.types.is_decimal(wanted):
        _check_digits(trimmed)
    return trimmed.cast(wanted)


def _check_digits(texts: pa.Array) -> None:
    """Raise an Arrow error for more digits than a decimal can have: Arrow's parser overflows."""
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if longest > _MAX_DIGITS:
        digits = pc.replace_substring_regex(texts, _NO_DIGIT, "")
        if pc.max(pc.binary_length(digits)).as_py() > _MAX_DIGITS:
            raise pa.ArrowInvalid("too many digits")


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
        except ValueError as error:
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
    if len(texts) == 1 and coarse.equals(texts):
        raise pa.ArrowInvalid("not a timestamp")
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
            reasons.setdefault(row, _misfit(field.name, given[row], field.arrow))
        columns.append(column)
    rows = pa.RecordBatch.from_arrays(columns, schema=schema.attributes)
    if stamper is not None:
        for row in stamper.stimes(rows)[1]:
            reasons.setdefault(row, stamper.reason(rows, row))
    return rows, reasons


def _misfit(name: str, value: pa.Scalar, wanted: pa.DataType) -> str:
    text = repr(shown_value(value))
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
