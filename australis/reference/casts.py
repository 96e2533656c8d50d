"""Casts as Spark makes them without ANSI mode: what does not fit is NULL or wraps."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from australis.kernel.errors import UserError
from australis.reference import types as t
from australis.reference.numbers import (
    divide_half_up,
    fitting,
    float32,
    rescale,
    saturate,
    to_double,
    truncate,
    unscaled,
    wrap,
)
from australis.streams.schema import TIMESTAMP

Change = Callable[[Any], Any]
"""Maps a value that is not NULL to a value or NULL."""

_DAY_US = 86_400_000_000
_INTEGER = re.compile(r"([+-]?)(\d*)(\.\d*)?", re.ASCII)
_NUMBER = re.compile(r"([+-]?)(?=\.?\d)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?", re.ASCII)
_SPECIAL = {"nan": "nan", "inf": "inf", "infinity": "inf"}
_TRUE, _FALSE = {"t", "true", "y", "yes", "1"}, {"f", "false", "n", "no", "0"}
_TIME = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?\s*"
    r"(Z|UTC|[+-]\d{2}:\d{2})?)?",
    re.ASCII,
)
_MAX_EXPONENT_DIGITS = 10
"""Java's decimals have exponents of 32 bits."""
_SPACE = "".join(map(chr, range(33))) + "\x7f"


def cast(source: pa.DataType, target: pa.DataType) -> Change:
    """The function that casts between two types; a `UserError` for an unsupported cast."""
    if source in (target, t.NULL):
        return _same
    maker = _MAKERS.get(_family(source))
    made = maker(source, target) if maker else None
    if made is None:
        raise UserError(
            f"casts {t.name_of(source)} to {t.name_of(target)},"
            " which the reference engine does not know"
        )
    return made


def _same(value: Any) -> Any:
    return value


def _family(kind: pa.DataType) -> str:
    if t.is_integral(kind):
        return "integral"
    if t.is_decimal(kind):
        return "decimal"
    return "float" if t.is_float(kind) else str(kind)


def _from_integral(source: pa.DataType, target: pa.DataType) -> Change | None:
    if t.is_integral(target):
        bits = t.BITS[target]
        return _same if bits >= t.BITS[source] else lambda v: wrap(v, bits)
    if t.is_decimal(target):
        precision, factor = target.precision, 10**target.scale
        return lambda v: fitting(v * factor, precision)
    simple: dict[pa.DataType, Change] = {
        t.DOUBLE: float,
        t.FLOAT: lambda v: _nearest_float(v),
        t.BOOLEAN: lambda v: v != 0,
        t.STRING: str,
        TIMESTAMP: lambda v: max(-(2**63), min(2**63 - 1, v * 1_000_000)),
    }
    return simple.get(target)


def _nearest_float(value: int) -> float:
    return float(np.int64(value).astype(np.float32))


def _from_float(source: pa.DataType, target: pa.DataType) -> Change | None:
    shown = _shortest(source)
    if target in (t.INT, t.BIGINT):
        bits = t.BITS[target]
        return lambda v: saturate(v, bits)
    if t.is_integral(target):
        narrow = t.BITS[target]
        return lambda v: wrap(saturate(v, 32), narrow)
    if t.is_decimal(target):
        precision, scale = target.precision, target.scale
        return lambda v: (
            fitting(unscaled(Decimal(shown(v)), scale), precision) if v - v == 0 else None
        )
    simple: dict[pa.DataType, Change] = {
        t.DOUBLE: _same,
        t.FLOAT: float32,
        t.BOOLEAN: lambda v: v != 0,
        t.STRING: lambda v: java_float(v, shown(v)),
    }
    return simple.get(target)


def _shortest(kind: pa.DataType) -> Callable[[float], str]:
    return (lambda v: str(np.float32(v))) if kind == t.FLOAT else repr


def java_float(value: float, shortest: str) -> str:
    """A floating-point number as Java writes it.

    >>> java_float(1e7, "10000000.0"), java_float(0.001, "0.001"), java_float(0.0, "0.0")
    ('1.0E7', '0.001', '0.0')
    """
    if value - value != 0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    _, found, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, found)).rstrip("0") or "0"
    sign = "-" if shortest.startswith("-") else ""
    point = len(found) + exponent
    if value == 0 or -3 < point <= 7:
        padded = "0" * max(0, 1 - point) + digits + "0" * max(0, point - len(digits))
        split = max(point, 1)
        return f"{sign}{padded[:split]}.{padded[split:] or '0'}" if value else f"{sign}0.0"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _from_decimal(source: pa.DataType, target: pa.DataType) -> Change | None:
    scale = source.scale
    unit = 10**scale
    if t.is_integral(target):
        bits = t.BITS[target]
        return lambda v: wrap(wrap(truncate(v, unit), 64), bits)
    if t.is_decimal(target):
        precision, places = target.precision, target.scale
        return lambda v: fitting(rescale(v, scale, places), precision)
    simple: dict[pa.DataType, Change] = {
        t.DOUBLE: lambda v: to_double(v, scale),
        t.FLOAT: lambda v: float(np.float32(to_double(v, scale))),
        t.BOOLEAN: lambda v: v != 0,
        t.STRING: lambda v: java_decimal(v, scale),
    }
    return simple.get(target)


def java_decimal(value: int, scale: int) -> str:
    """A decimal as Java writes it, with an exponent where it is very small."""
    text = str(Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -scale)))
    return text.replace("E+", "E")


def _from_boolean(_source: pa.DataType, target: pa.DataType) -> Change | None:
    if t.is_integral(target):
        return int
    if t.is_decimal(target):
        precision, factor = target.precision, 10**target.scale
        return lambda v: fitting(v * factor, precision)
    if t.is_float(target):
        return float
    return (lambda v: "true" if v else "false") if target == t.STRING else None


def _from_string(_source: pa.DataType, target: pa.DataType) -> Change | None:
    if t.is_integral(target):
        bits = t.BITS[target]
        return lambda v: _parse_integer(v.strip(_SPACE), bits)
    if t.is_decimal(target):
        precision, scale = target.precision, target.scale
        return lambda v: _parse_decimal(v.strip(_SPACE), precision, scale)
    simple: dict[pa.DataType, Change] = {
        t.DOUBLE: lambda v: _parse_float(v.strip(_SPACE)),
        t.FLOAT: lambda v: None if (x := _parse_float(v.strip(_SPACE))) is None else float32(x),
        t.BOOLEAN: _parse_boolean,
        t.BINARY: lambda v: v.encode(),
        TIMESTAMP: lambda v: _parse_time(v.strip(_SPACE)),
        t.DATE: lambda v: None if (x := _parse_time(v.strip(_SPACE))) is None else x // _DAY_US,
    }
    return simple.get(target)


def _parse_integer(text: str, bits: int) -> int | None:
    match = _INTEGER.fullmatch(text)
    if not match or not (match[2] or (match[3] and len(match[3]) > 1)):
        return None
    digits = match[2].lstrip("0")
    if len(digits) > 19:
        return None
    value = int(match[1] + (digits or "0"))
    return value if value == wrap(value, bits) else None


def _parse_float(text: str) -> float | None:
    lower = text.lower()
    if lower.lstrip("+-") in _SPECIAL and len(lower) - len(lower.lstrip("+-")) <= 1:
        return float(lower)
    if text[-1:] in "dDfF" and _NUMBER.fullmatch(text[:-1]):
        text = text[:-1]
    return float(text) if _NUMBER.fullmatch(text) else None


def _parse_decimal(text: str, precision: int, scale: int) -> int | None:
    match = _NUMBER.fullmatch(text)
    if not match or len((match[4] or "").lstrip("+-0")) > _MAX_EXPONENT_DIGITS:
        return None
    written = match[2] + match[3]
    digits = written.lstrip("0")
    point = len(match[2]) + int(match[4] or "0") - (len(written) - len(digits))
    if not digits:
        return 0
    if point > t.MAX_DIGITS:
        return None
    # The first digit that does not fit decides how the others are rounded.
    kept = max(point + scale + 1, 0)
    number = int(digits[:kept].ljust(kept, "0") or "0")
    return fitting(divide_half_up(-number if match[1] == "-" else number, 10), precision)


def _parse_boolean(text: str) -> bool | None:
    word = text.strip(_SPACE).lower()
    return True if word in _TRUE else False if word in _FALSE else None


def _parse_time(text: str) -> int | None:
    match = _TIME.fullmatch(text)
    if not match:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    later = _CYCLE_YEARS if year == 0 else 0  # Python begins with the year 1
    try:
        at = dt.datetime(year + later, month, day, hour, minute, second)
    except ValueError:
        return None
    if later:
        at_us = (at - _EPOCH) // dt.timedelta(microseconds=1) - _CYCLE_DAYS * _DAY_US
    else:
        at_us = (at - _EPOCH) // dt.timedelta(microseconds=1)
    micros = int((match[7] or "").ljust(6, "0")[:6])
    zone = match[8] or "Z"
    offset = 0
    if zone[0] in "+-":
        offset = (int(zone[1:3]) * 60 + int(zone[4:6])) * (1 if zone[0] == "+" else -1)
    return at_us + micros - offset * 60_000_000


_EPOCH = dt.datetime(1970, 1, 1)
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""After this time the calendar repeats itself."""


class Instant(NamedTuple):
    """A timestamp's fields, in UTC, of any year: the calendar goes on beyond Python's."""

    year: int
    rest: dt.datetime
    """The same instant in a year that Python has."""

    @property
    def year_text(self) -> str:
        """The year as Java writes it: four digits, or with its sign."""
        if 0 <= self.year <= 9999:
            return f"{self.year:04d}"
        return f"{'+' if self.year > 0 else '-'}{abs(self.year):04d}"


def instant(micros: int) -> Instant:
    """The fields of a timestamp."""
    cycles = micros // (_CYCLE_DAYS * _DAY_US)
    at = _EPOCH + dt.timedelta(microseconds=micros - cycles * _CYCLE_DAYS * _DAY_US)
    return Instant(at.year + cycles * _CYCLE_YEARS, at)


def _from_timestamp(_source: pa.DataType, target: pa.DataType) -> Change | None:
    simple: dict[pa.DataType, Change] = {
        t.BIGINT: lambda v: v // 1_000_000,
        t.INT: lambda v: wrap(v // 1_000_000, 32),
        t.DOUBLE: lambda v: v / 1e6,
        t.DATE: lambda v: v // _DAY_US,
        t.STRING: _time_text,
    }
    return simple.get(target)


def _time_text(micros: int) -> str:
    at = instant(micros)
    fraction = f".{at.rest.microsecond:06d}".rstrip("0") if at.rest.microsecond else ""
    return f"{at.year_text}-{at.rest:%m-%d %H:%M:%S}{fraction}"


def _from_date(_source: pa.DataType, target: pa.DataType) -> Change | None:
    simple: dict[pa.DataType, Change] = {
        TIMESTAMP: lambda v: v * _DAY_US,
        t.STRING: _date_text,
    }
    return simple.get(target)


def _date_text(days: int) -> str:
    at = instant(days * _DAY_US)
    return f"{at.year_text}-{at.rest:%m-%d}"


def _from_binary(_source: pa.DataType, target: pa.DataType) -> Change | None:
    return (lambda v: v.decode(errors="replace")) if target == t.STRING else None


_MAKERS: dict[str, Callable[[pa.DataType, pa.DataType], Change | None]] = {
    "integral": _from_integral,
    "float": _from_float,
    "decimal": _from_decimal,
    str(t.BOOLEAN): _from_boolean,
    str(t.STRING): _from_string,
    str(TIMESTAMP): _from_timestamp,
    str(t.DATE): _from_date,
    str(t.BINARY): _from_binary,
}
