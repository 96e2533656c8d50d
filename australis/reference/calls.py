"""Aggregate functions over windows of time, in parts that can be merged.

A call *lifts* the tuples of one pane into a small value, *merges* two such values
and *finishes* one into a result. Sums are exact integers, of floating-point values
too (fixed point, see `spark/aggregates.py`), so the order of merging cannot show.
`approx_count_distinct` is refused: it would need Spark's HyperLogLog++ with its
tables, bit for bit.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa

from australis.diagram.aggregates import AggregateCall
from australis.kernel.errors import UserError
from australis.reference import types as t
from australis.reference.expressions import Compiled, Row, Run, Scope
from australis.reference.numbers import (
    fitting,
    rescale,
    round_half_up,
    to_double,
    truncate,
)
from australis.reference.order import distinct_key, rank
from australis.streams.schema import TIMESTAMP

Merge = Callable[[Any, Any], Any]
_MAX_INTEGER = 9.2e18
_QUOTIENT_PLACES = 39


@dataclass(frozen=True)
class Call:
    """One aggregate function with its argument."""

    kind: pa.DataType
    lift: Callable[[list[Row]], Any]
    merge: Merge
    finish: Callable[[Any, int, int], Any]
    """Computes the result from the merged value and the window's start and end."""


def make_call(call: AggregateCall, scope: Scope, scale: int) -> Call:
    """The parts of a call; a `UserError` for an unsupported one."""
    if call.function == "window_start":
        return Call(TIMESTAMP, lambda _: None, lambda a, _: a, lambda _, start, __: start)
    if call.function == "window_end":
        return Call(TIMESTAMP, lambda _: None, lambda a, _: a, lambda _, __, end: end)
    if call.function == "count":
        return _count(call, scope)
    value = scope.compile(call.arguments[0])
    if call.function in ("first", "last"):
        return _edge(call.function, value)
    if call.function in ("sum", "avg", "stddev", "stddev_pop", "variance", "var_pop"):
        return _numeric(call.function, value, scale)
    if call.function in ("median", "percentile"):
        return _percentile(call, value, scope)
    if call.function in _FOLDS:
        return _fold(call.function, value)
    raise UserError(
        f"computes {call.function} in a window of time, which the reference engine does not know"
    )


def present(run: Run, rows: Iterable[Row]) -> list[Any]:
    """The values that are not NULL."""
    return [v for v in map(run, rows) if v is not None]


def _only(value: Any, _start: int, _end: int) -> Any:
    return value


def _count(call: AggregateCall, scope: Scope) -> Call:
    if not call.arguments:
        return Call(t.BIGINT, len, operator.add, _only)
    arguments = [scope.compile(argument) for argument in call.arguments]
    if call.distinct:
        return _distinct(arguments)
    run = arguments[0].run
    return Call(t.BIGINT, lambda rows: len(present(run, rows)), operator.add, _only)


def _distinct(arguments: list[Compiled]) -> Call:
    runs = [distinct_key(a) for a in arguments]

    def lift(rows: list[Row]) -> frozenset[Any]:
        if len(runs) == 1:
            return frozenset(present(runs[0], rows))
        together = (tuple([run(row) for run in runs]) for row in rows)
        return frozenset(values for values in together if None not in values)

    return Call(t.BIGINT, lift, operator.or_, lambda found, _, __: len(found))


def _edge(function: str, value: Compiled) -> Call:
    """The first or last tuple's value, by `_stime`, `_id` and the value itself."""
    pick = min if function == "first" else max
    run, key = value.run, rank(value.kind)

    def lift(rows: list[Row]) -> Any:
        return pick((row[0], row[-1], key(v := run(row)), v) for row in rows)

    def choose(a: Any, b: Any) -> Any:
        return pick((a, b), key=lambda found: found[:3])

    return Call(value.kind, lift, choose, lambda found, _, __: found[3])


def _numeric(function: str, value: Compiled, scale: int) -> Call:
    kind = value.kind
    if not t.is_number(kind):
        raise UserError(f"computes {function} of {t.name_of(kind)}, which is not a number")
    if t.is_decimal(kind) and function in ("sum", "avg"):
        return _decimal_sum(value) if function == "sum" else _decimal_average(value)
    if t.is_integral(kind) and function == "sum":
        return _total(value, t.BIGINT, lambda _, total: _bigint(total))
    if function in ("sum", "avg"):
        return _fixed_point(function, value, scale)
    return _spread(function, value, scale)


def _bigint(total: int) -> int | None:
    return total if -(2**63) <= total < 2**63 else None


def _add_each(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(operator.add, a, b))


def _total(value: Compiled, kind: pa.DataType, result: Callable[[int, int], Any]) -> Call:
    """A function of the number and the exact total of integers."""
    run = value.run

    def lift(rows: list[Row]) -> tuple[int, int]:
        values = present(run, rows)
        return len(values), sum(values)

    def finish(found: tuple[int, int], _start: int, _end: int) -> Any:
        return result(*found) if found[0] else None

    return Call(kind, lift, _add_each, finish)


def _decimal_sum(value: Compiled) -> Call:
    kind = t.decimal(value.kind.precision + 10, value.kind.scale)
    return _total(value, kind, lambda _, total: fitting(total, kind.precision))


def _decimal_average(value: Compiled) -> Call:
    scale, digits = value.kind.scale, value.kind.precision
    kind = t.decimal(digits + 4, scale + 4)
    up = 10 ** (_QUOTIENT_PLACES - scale)

    def result(n: int, total: int) -> int | None:
        if fitting(total, min(digits + 10, t.MAX_DIGITS)) is None:
            return None
        quotient = truncate(total * up, n)
        return fitting(rescale(quotient, _QUOTIENT_PLACES, kind.scale), kind.precision)

    return _total(value, kind, result)


def _wholes(value: Compiled, scale: int) -> tuple[Run, float]:
    """The argument as an integer in fixed point (None: it does not fit), and the factor."""
    if t.is_integral(value.kind):
        return (lambda v: v), 1.0
    factor = 10.0**scale
    places = value.kind.scale if t.is_decimal(value.kind) else None

    def whole(v: Any) -> int | None:
        scaled = (v if places is None else to_double(v, places)) * factor
        return int(round_half_up(scaled)) if abs(scaled) < _MAX_INTEGER else None

    return whole, factor


def _fixed_point(function: str, value: Compiled, scale: int) -> Call:
    run = value.run
    whole, factor = _wholes(value, scale)
    average = function == "avg"

    def lift(rows: list[Row]) -> tuple[int, int, int]:
        values = present(run, rows)
        wholes = [w for w in map(whole, values) if w is not None]
        return len(values), len(wholes), sum(wholes)

    def finish(found: tuple[int, int, int], _start: int, _end: int) -> float | None:
        n, fitted, total = found
        if not n or n != fitted:
            return None
        return float(total) / factor / n if average else float(total) / factor

    return Call(t.DOUBLE, lift, _add_each, finish)


def _spread(function: str, value: Compiled, scale: int) -> Call:
    run = value.run
    whole, factor = _wholes(value, scale)
    population, root = function.endswith("_pop"), function.startswith("stddev")

    def lift(rows: list[Row]) -> tuple[int, int, int, int]:
        values = present(run, rows)
        wholes = [w for w in map(whole, values) if w is not None]
        return len(values), len(wholes), sum(wholes), sum(w * w for w in wholes)

    def finish(found: tuple[int, int, int, int], _start: int, _end: int) -> float | None:
        n, fitted, total, squares = found
        divisor = n * n if population else n * (n - 1)
        if n != fitted or divisor <= 0:
            return None
        spread = _scatter(n, total, squares)
        if spread is None:
            return None
        result = spread / float(divisor) / (factor * factor)
        return math.sqrt(result) if root else result

    return Call(t.DOUBLE, lift, _add_each, finish)


def _scatter(n: int, total: int, squares: int) -> float | None:
    """n times the sum of squares less the square of the sum, rounded where Spark rounds."""
    if abs(squares) >= 10**38:
        return None  # Spark's sum of squares does not fit then
    if n < 10**9 and squares < 10**28 and abs(total) < 10**19:
        return max(float(n * squares - total * total), 0.0)
    return max(float(n) * float(squares) - float(total) * float(total), 0.0)


def _percentile(call: AggregateCall, value: Compiled, scope: Scope) -> Call:
    if not t.is_number(value.kind):
        raise UserError(f"computes {call.function} of {t.name_of(value.kind)}")
    share = 0.5
    if call.function == "percentile":
        written = scope.compile(call.arguments[1])
        if not written.literal or not t.is_number(written.kind):
            raise UserError("computes a percentile whose share is not a number written out")
        share = written.to(t.DOUBLE).run(())
    run = value.to(t.DOUBLE).run
    key = rank(t.DOUBLE)

    def finish(found: tuple[float, ...], _start: int, _end: int) -> float | None:
        return percentile(sorted(found, key=key), share) if found else None

    return Call(t.DOUBLE, lambda rows: tuple(present(run, rows)), operator.add, finish)


def percentile(ordered: list[float], share: float) -> float:
    """The value at a share of the way through ordered values, between two if need be."""
    position = (len(ordered) - 1) * share
    lower, higher = math.floor(position), math.ceil(position)
    low, high = ordered[lower], ordered[higher]
    if low == high or lower == higher:
        return low
    return low + (high - low) * (position - lower)


_FOLDS: dict[str, Merge] = {
    "min": min,
    "max": max,
    "bool_and": min,
    "bool_or": max,
    "bit_and": operator.and_,
    "bit_or": operator.or_,
    "bit_xor": operator.xor,
}


def _fold(function: str, value: Compiled) -> Call:
    kind = value.kind
    if function.startswith("bool") and kind != t.BOOLEAN:
        raise UserError(f"computes {function} of {t.name_of(kind)}")
    if function.startswith("bit") and not t.is_integral(kind):
        raise UserError(f"computes {function} of {t.name_of(kind)}")
    if pa.types.is_struct(kind) or kind == t.NULL:
        raise UserError(
            f"computes {function} of {t.name_of(kind)}, which the reference engine does not know"
        )
    merge = _ordered(function) if t.is_float(kind) else _FOLDS[function]
    run = value.run

    def both(a: Any, b: Any) -> Any:
        return b if a is None else a if b is None else merge(a, b)

    def lift(rows: list[Row]) -> Any:
        found = None
        for v in map(run, rows):
            if v is not None:
                found = v if found is None else merge(found, v)
        return found

    return Call(kind, lift, both, _only)


def bit_fold(function: str) -> Callable[[list[int]], int]:
    """A bit operation over all of some integers."""
    operation = _FOLDS[function]
    return lambda values: int(reduce(operation, values))


def _ordered(function: str) -> Merge:
    """The smaller or larger of two doubles; NaN is the largest."""
    if function == "max":
        return lambda a, b: a if a != a or b <= a else b
    return lambda a, b: a if b != b or a <= b else b
