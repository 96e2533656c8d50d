"""Functions of Spark SQL over numbers, texts and times."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from australis.kernel.errors import UserError
from australis.reference import types as t
from australis.reference.arithmetic import both, modulo
from australis.reference.casts import instant
from australis.reference.choices import cast_to
from australis.reference.expressions import (
    Compiled,
    Scope,
    builds,
    constant,
    unknown,
)
from australis.reference.hashing import xxhash64
from australis.reference.numbers import NAN, divide_half_up, fitting, saturate, wrap
from australis.streams.schema import TIMESTAMP, parse_type

_DAY_US = 86_400_000_000


def one(value: Compiled, kind: pa.DataType, function: Callable[[Any], Any]) -> Compiled:
    """A function of one value that is NULL if its argument is."""
    run = value.run
    return Compiled(kind, lambda r: None if (x := run(r)) is None else function(x))


def _text(node: exp.Expr, scope: Scope) -> Compiled:
    """An argument as text, as Spark casts it where it expects text."""
    compiled = scope.build(node)
    if pa.types.is_struct(compiled.kind) or compiled.kind == t.BINARY:
        raise unknown(node)
    return compiled.to(t.STRING)


def _number(node: exp.Expr, scope: Scope) -> Compiled:
    compiled = scope.build(node)
    if compiled.kind == t.STRING:
        compiled = compiled.to(t.DOUBLE)
    if not t.is_number(compiled.kind):
        raise unknown(node)
    return compiled


def _whole(node: exp.Expr, scope: Scope) -> Compiled:
    compiled = scope.build(node)
    if not t.is_integral(compiled.kind):
        raise unknown(node)
    return compiled.to(t.INT)


_TEXT_TO_TEXT: dict[type[exp.Expr], Callable[[str], str]] = {
    exp.Upper: str.upper,
    exp.Lower: str.lower,
    exp.Reverse: lambda x: x[::-1],
}
for _kind, _change in _TEXT_TO_TEXT.items():

    @builds(_kind)
    def _change_text(
        node: exp.Func, scope: Scope, change: Callable[[str], str] = _change
    ) -> Compiled:
        return one(_text(node.this, scope), t.STRING, change)


@builds(exp.Length)
def _length(node: exp.Length, scope: Scope) -> Compiled:
    value = scope.build(node.this)
    return one(value if value.kind == t.BINARY else _text(node.this, scope), t.INT, len)


@builds(exp.Trim, settings=("this", "position"))
def _trim(node: exp.Trim, scope: Scope) -> Compiled:
    sides = {"LEADING": str.lstrip, "TRAILING": str.rstrip}
    strip = sides.get(str(node.args.get("position") or ""), str.strip)
    return one(_text(node.this, scope), t.STRING, lambda x: strip(x, " "))


_TESTS: dict[type[exp.Expr], Callable[[str, str], bool]] = {
    exp.StartsWith: str.startswith,
    exp.EndsWith: str.endswith,
    exp.Contains: lambda x, y: y in x,
}
for _kind, _test in _TESTS.items():

    @builds(_kind)
    def _test_text(
        node: exp.Func, scope: Scope, test: Callable[[str, str], bool] = _test
    ) -> Compiled:
        a, b = _text(node.this, scope), _text(node.expression, scope)
        return both(a, b, t.BOOLEAN, test)


@builds(exp.StrPosition, settings=("this", "substr"))
def _position(node: exp.StrPosition, scope: Scope) -> Compiled:
    a, b = _text(node.this, scope), _text(node.args["substr"], scope)
    return both(a, b, t.INT, lambda x, y: x.find(y) + 1)


@builds(exp.Concat, settings=("expressions", "safe", "coalesce"))
def _concat(node: exp.Concat, scope: Scope) -> Compiled:
    runs = [_text(part, scope).run for part in node.expressions]

    def run(row: Any) -> str | None:
        parts = [part(row) for part in runs]
        return None if None in parts else "".join(parts)

    return Compiled(t.STRING, run)


@builds(exp.DPipe, settings=("this", "expression", "safe"))
def _pipe(node: exp.DPipe, scope: Scope) -> Compiled:
    if isinstance(node.expression, exp.Add | exp.Sub):
        written = node.sql(dialect="spark")
        raise UserError(f"needs parentheses in {written!r} for the reference engine")
    return _concat(exp.Concat(expressions=[node.this, node.expression]), scope)


@builds(exp.Substring, settings=("this", "start", "length"))
def _substring(node: exp.Substring, scope: Scope) -> Compiled:
    text, start = _text(node.this, scope), _whole(node.args["start"], scope)
    length = node.args.get("length")
    wanted = constant(t.INT, 2**31 - 1) if length is None else _whole(length, scope)
    runs = text.run, start.run, wanted.run

    def run(row: Any) -> str | None:
        x, at, n = (part(row) for part in runs)
        return None if x is None or at is None or n is None else substring(x, at, n)

    return Compiled(t.STRING, run)


def substring(text: str, start: int, length: int) -> str:
    """The given number of characters from a position, counted from 1, or from the end if negative.

    >>> substring("hello", 2, 3), substring("hello", -3, 2), substring("hello", 0, 2)
    ('ell', 'll', 'he')
    """
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(first, 0) : max(first + length, 0)]


@builds(exp.Left, exp.Right)
def _end(node: exp.Left | exp.Right, scope: Scope) -> Compiled:
    text, count = _text(node.this, scope), _whole(node.expression, scope)
    if isinstance(node, exp.Left):
        return both(text, count, t.STRING, lambda x, n: x[: max(n, 0)])
    return both(text, count, t.STRING, lambda x, n: x[-n:] if n > 0 else "")


@builds(exp.Replace, settings=("this", "expression", "replacement"))
def _replace(node: exp.Replace, scope: Scope) -> Compiled:
    new = node.args.get("replacement")
    texts = [_text(part, scope).run for part in (node.this, node.expression)]
    texts.append(constant(t.STRING, "").run if new is None else _text(new, scope).run)

    def run(row: Any) -> str | None:
        x, old, fresh = (part(row) for part in texts)
        if x is None or old is None or fresh is None:
            return None
        return str(x.replace(old, fresh)) if old else str(x)

    return Compiled(t.STRING, run)


@builds(exp.SplitPart, settings=("this", "delimiter", "part_index"))
def _split_part(node: exp.SplitPart, scope: Scope) -> Compiled:
    text, mark = _text(node.this, scope), _text(node.args["delimiter"], scope)
    place = scope.build(node.args["part_index"])
    if not mark.literal or not place.literal or not mark.run(()) or not place.run(()):
        raise unknown(node)
    delimiter, number = mark.run(()), place.run(())
    at = number - 1 if number > 0 else number

    def part(x: str) -> str:
        parts = x.split(delimiter)
        return parts[at] if -len(parts) <= at < len(parts) else ""

    return one(text, t.STRING, part)


@builds(exp.Abs)
def _absolute(node: exp.Abs, scope: Scope) -> Compiled:
    value = _number(node.this, scope)
    bits = t.BITS.get(value.kind)
    return one(value, value.kind, abs if bits is None else lambda x: wrap(abs(x), bits))


@builds(exp.Sign)
def _sign(node: exp.Sign, scope: Scope) -> Compiled:
    value = _number(node.this, scope).to(t.DOUBLE)
    return one(value, t.DOUBLE, lambda x: x if x != x or x == 0 else math.copysign(1.0, x))


@builds(exp.Sqrt)
def _root(node: exp.Sqrt, scope: Scope) -> Compiled:
    value = _number(node.this, scope).to(t.DOUBLE)
    return one(value, t.DOUBLE, lambda x: math.sqrt(x) if x >= 0 else NAN)


@builds(exp.Floor, exp.Ceil)
def _to_whole(node: exp.Floor | exp.Ceil, scope: Scope) -> Compiled:
    value, up = _number(node.this, scope), isinstance(node, exp.Ceil)
    if value.kind == t.BIGINT:
        return value
    if t.is_decimal(value.kind):
        return _decimal_to_whole(value, up)
    change = math.ceil if up else math.floor
    return one(
        value.to(t.DOUBLE),
        t.BIGINT,
        lambda x: saturate(float(change(x)) if x - x == 0 else x, 64),
    )


def _decimal_to_whole(value: Compiled, up: bool) -> Compiled:
    digits, scale = value.kind.precision, value.kind.scale
    if scale == 0:
        return value
    unit, kind = 10**scale, t.decimal(digits - scale + 1, 0)
    return one(value, kind, lambda x: -(-x // unit) if up else x // unit)


@builds(exp.Round, settings=("this", "decimals"))
def _round(node: exp.Round, scope: Scope) -> Compiled:
    value, written = _number(node.this, scope), node.args.get("decimals")
    places = constant(t.INT, 0) if written is None else scope.build(written)
    if not places.literal or not t.is_integral(places.kind) or (wanted := places.run(())) < 0:
        raise unknown(node)
    if t.is_integral(value.kind):
        return value
    if t.is_decimal(value.kind):
        digits, scale = value.kind.precision, value.kind.scale
        kept = min(scale, wanted)
        kind, unit = t.decimal(digits - scale + 1 + kept, kept), 10 ** (scale - kept)
        return one(value, kind, lambda x: fitting(divide_half_up(x, unit), kind.precision))
    if value.kind == t.FLOAT:
        raise unknown(node)
    return one(value, t.DOUBLE, lambda x: round_to(x, wanted))


def round_to(value: float, places: int) -> float:
    """A double rounded to this number of decimal places, by its shortest decimal form, halves up.

    >>> round_to(2.675, 2), round_to(-0.5, 0)
    (2.68, -1.0)
    """
    if value - value != 0:
        return value
    shown = Decimal(repr(value))
    exponent = shown.as_tuple().exponent
    assert isinstance(exponent, int)
    if -exponent <= places:
        return value
    return float(shown.quantize(Decimal((0, (1,), -places)), ROUND_HALF_UP))


@builds(exp.IsNan)
def _is_nan(node: exp.IsNan, scope: Scope) -> Compiled:
    run = _number(node.this, scope).to(t.DOUBLE).run
    return Compiled(t.BOOLEAN, lambda r: (x := run(r)) is not None and x != x)


@builds(exp.TsOrDsToDate)
def _date(node: exp.TsOrDsToDate, scope: Scope) -> Compiled:
    return scope.build(node.this).to(t.DATE)


@builds(exp.TimeStrToTime)
def _time(node: exp.TimeStrToTime, scope: Scope) -> Compiled:
    return scope.build(node.this).to(TIMESTAMP)


_CLOCK: dict[type[exp.Expr], Callable[[int], int]] = {
    exp.Hour: lambda x: x // 3_600_000_000 % 24,
    exp.Minute: lambda x: x // 60_000_000 % 60,
    exp.Second: lambda x: x // 1_000_000 % 60,
}
_SINCE: dict[type[exp.Expr], Callable[[int], int]] = {
    exp.UnixSeconds: lambda x: x // 1_000_000,
    exp.UnixMillis: lambda x: x // 1_000,
    exp.UnixMicros: lambda x: x,
}
_CALENDAR: dict[type[exp.Expr], Callable[[int], int]] = {
    exp.Year: lambda x: instant(x * _DAY_US).year,
    exp.Month: lambda x: instant(x * _DAY_US).rest.month,
    exp.Day: lambda x: instant(x * _DAY_US).rest.day,
    exp.DayOfMonth: lambda x: instant(x * _DAY_US).rest.day,
}
for _fields, _source, _result in (
    (_CLOCK, TIMESTAMP, t.INT),
    (_SINCE, TIMESTAMP, t.BIGINT),
    (_CALENDAR, t.DATE, t.INT),
):
    for _kind, _field in _fields.items():

        @builds(_kind)
        def _time_field(
            node: exp.Func,
            scope: Scope,
            field: Callable[[int], int] = _field,
            source: pa.DataType = _source,
            result: pa.DataType = _result,
        ) -> Compiled:
            return one(scope.build(node.this).to(source), result, field)


_FORMATS = {
    "%Y": "{0.year_text}",
    "%mstrict": "{0.rest.month:02d}",
    "%dstrict": "{0.rest.day:02d}",
    "%Hstrict": "{0.rest.hour:02d}",
    "%Mstrict": "{0.rest.minute:02d}",
    "%Sstrict": "{0.rest.second:02d}",
}
"""The values the parser produces for yyyy, MM, dd, HH, mm and ss."""


@builds(exp.TimeToStr, settings=("this", "format"))
def _date_format(node: exp.TimeToStr, scope: Scope) -> Compiled:
    written = str(node.args["format"].this)
    rest = written
    for mark in _FORMATS:
        rest = rest.replace(mark, "")
    if any(c.isalpha() or c in "%{}'[]#" for c in rest):
        raise unknown(node)
    for mark, field in _FORMATS.items():
        written = written.replace(mark, field)
    return one(scope.build(node.this).to(TIMESTAMP), t.STRING, lambda x: written.format(instant(x)))


@builds(exp.Anonymous, settings=("this", "expressions"))
def _by_name(node: exp.Anonymous, scope: Scope) -> Compiled:
    name = str(node.this).lower()
    arguments = [scope.build(part) for part in node.expressions]
    if name in ("isnull", "isnotnull") and len(arguments) == 1:
        run, null = arguments[0].run, name == "isnull"
        return Compiled(t.BOOLEAN, lambda r: (run(r) is None) is null)
    if name == "pmod" and len(arguments) == 2 and all(t.is_number(a.kind) for a in arguments):
        return modulo(*arguments, positive=True)
    if name == "xxhash64" and arguments:
        return Compiled(t.BIGINT, xxhash64(arguments))
    if name in _TYPE_NAMES and len(arguments) == 1:
        return cast_to(arguments[0], parse_type(name))
    raise unknown(node)


_TYPE_NAMES = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string")
