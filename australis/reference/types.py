"""The types of expressions, and the common types that Spark gives to two of them.

Types are Arrow types; `NULL` is that of a bare `null`. Values are plain Python: a timestamp is its
microseconds, a date its days, a decimal its unscaled integer (the scale is in the type), a struct a
tuple.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from australis.kernel.errors import UserError
from australis.streams.schema import TIMESTAMP, type_name

NULL = pa.null()
BOOLEAN = pa.bool_()
TINYINT, SMALLINT, INT, BIGINT = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE = pa.float32(), pa.float64()
STRING, BINARY, DATE = pa.string(), pa.binary(), pa.date32()

BITS = {TINYINT: 8, SMALLINT: 16, INT: 32, BIGINT: 64}
_BY_WIDTH = [TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE]
_DIGITS = {TINYINT: 3, SMALLINT: 5, INT: 10, BIGINT: 20}
MAX_DIGITS = 38
_LEAST_SCALE = 6


def name_of(kind: pa.DataType) -> str:
    """The name of this type in Spark SQL."""
    return "void" if kind == NULL else type_name(kind)


def is_integral(kind: pa.DataType) -> bool:
    """Whether it is tinyint, smallint, int or bigint."""
    return kind in BITS


def is_float(kind: pa.DataType) -> bool:
    """Whether it is float or double."""
    return kind in (FLOAT, DOUBLE)


def is_decimal(kind: pa.DataType) -> bool:
    """Whether it is a decimal of any precision."""
    return bool(pa.types.is_decimal(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether the type is numeric."""
    return kind in _BY_WIDTH or is_decimal(kind)


def decimal(precision: int, scale: int) -> pa.DataType:
    """The decimal of these digits, at most as many as there can be."""
    return pa.decimal128(min(precision, MAX_DIGITS), min(scale, MAX_DIGITS))


def adjusted(precision: int, scale: int) -> pa.DataType:
    """The decimal of these digits, with fewer behind the point if there are too many."""
    if precision <= MAX_DIGITS:
        return pa.decimal128(precision, scale)
    kept = max(MAX_DIGITS - (precision - scale), min(scale, _LEAST_SCALE))
    return pa.decimal128(MAX_DIGITS, kept)


def as_decimal(kind: pa.DataType) -> pa.DataType:
    """The decimal that holds every value of an integral type."""
    return kind if is_decimal(kind) else pa.decimal128(_DIGITS[kind], 0)


def tightest(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type both fit without a change of meaning, or None."""
    if a == b or b == NULL:
        return a
    if a == NULL:
        return b
    if a in _BY_WIDTH and b in _BY_WIDTH:
        return max(a, b, key=_BY_WIDTH.index)
    if {a, b} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    return _tightest_decimal(a, b) if is_number(a) and is_number(b) else None


def _tightest_decimal(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if is_float(a) or is_float(b):
        return DOUBLE
    a, b = as_decimal(a), as_decimal(b)
    scale = max(a.scale, b.scale)
    return decimal(max(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def wider(kinds: Sequence[pa.DataType], *, strings: bool = True) -> pa.DataType:
    """The common type of the branches of an expression; with a string it is a string."""
    found = NULL
    for kind in kinds:
        both = tightest(found, kind)
        if both is None and strings and STRING in (found, kind):
            other = kind if found == STRING else found
            both = None if other in (BINARY, BOOLEAN) or pa.types.is_nested(other) else STRING
        if both is None:
            raise UserError(f"mixes {name_of(found)} and {name_of(kind)}")
        found = both
    return found


def compared(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """The type in which two values are compared; a string takes the other one's type."""
    if a == STRING != b:
        a, b = b, a
    if b == STRING and a not in (STRING, NULL):
        return DOUBLE if is_decimal(a) else a
    both = tightest(a, b)
    if both is None:
        raise UserError(f"compares {name_of(a)} with {name_of(b)}")
    return both
