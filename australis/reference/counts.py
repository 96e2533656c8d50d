"""Aggregates over windows of a fixed number of tuples.

Window j of a group covers its tuples [j * slide, j * slide + size), in the order
of (`_stime`, `_id`, values). The first tuple kept always begins a window, so the
kept tuples are all the state there is. Results are computed over whole windows in
that order, in plain floating point, as `spark/count_window.py` does it; there NaN
cannot be told from NULL, so here it counts as NULL too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa

from australis.diagram.aggregates import AggregateCall
from australis.diagram.model import Aggregate, CountWindow
from australis.kernel.errors import UserError
from australis.reference import types as t
from australis.reference.calls import bit_fold
from australis.reference.expressions import Compiled, Row, Scope, constant
from australis.reference.numbers import fitting, to_double, unscaled
from australis.reference.order import distinct_key
from australis.reference.windows import Key, key_function
from australis.streams.schema import TIMESTAMP

Entry = tuple[Any, ...]
"""A tuple's `_stime` and the arguments of the calls."""
Kept = dict[Key, tuple[Entry, ...]]
Result = Callable[[list[Any]], Any]
"""Computes a result from an argument's values, with None for NULL."""
_SAME = ("min", "max", "first", "last", "bit_and", "bit_or", "bit_xor")


class CountWindows:
    """Computes one aggregate over windows of a fixed number of tuples."""

    def __init__(self, o: Aggregate, scope: Scope) -> None:
        assert isinstance(o.window, CountWindow)
        self._size, self._slide = o.window.size, o.window.slide
        by = [(name, scope.compile(text)) for name, text in o.by]
        self._key = key_function([distinct_key(compiled) for _, compiled in by])
        calls = [call for _, call in o.compute]
        arguments = [_argument(call, scope) for call in calls]
        self._arguments = [_without_nan(argument) for argument in arguments]
        made = [_result(call, a.kind) for call, a in zip(calls, arguments, strict=True)]
        self._results = [result for _, result in made]
        self._tie = _tie_break([a.kind for a in arguments])
        self.initial: Kept = {}
        self.fields: list[tuple[str, pa.DataType]] = [(name, c.kind) for name, c in by] + [
            (name, kind) for (name, _), (kind, _) in zip(o.compute, made, strict=True)
        ]

    def run(self, rows: list[Row], kept: Kept) -> tuple[list[Row], Kept]:
        """The windows that these tuples complete, and the tuples that later windows need."""
        if not rows:
            return [], kept
        arrived: dict[Key, list[Entry]] = {}
        for entry, key in self._in_order(rows):
            arrived.setdefault(key, []).append(entry)
        kept, found = dict(kept), []
        for key, entries in arrived.items():
            whole = (*kept.pop(key, ()), *entries)
            done = max(0, (len(whole) - self._size) // self._slide + 1)
            for first in range(0, done * self._slide, self._slide):
                found.append(self._window(key, whole[first : first + self._size]))
            if rest := whole[done * self._slide :]:
                kept[key] = rest
        return found, kept

    def _in_order(self, rows: list[Row]) -> list[tuple[Entry, Key]]:
        entries = [
            (row[0], row[-1], (row[0], *[argument(row) for argument in self._arguments]), row)
            for row in rows
        ]
        entries.sort(key=lambda e: (e[0], e[1], self._tie(e[2][1:])))
        return [(entry, self._key(row)) for _, _, entry, row in entries]

    def _window(self, key: Key, entries: Sequence[Entry]) -> Row:
        _, *columns = zip(*entries, strict=True)
        values = [result(list(c)) for result, c in zip(self._results, columns, strict=True)]
        return (entries[-1][0], *key, *values, 0)


def _argument(call: AggregateCall, scope: Scope) -> Compiled:
    if call.function in ("window_start", "window_end"):
        return scope.column(["_stime"])
    if not call.arguments:
        return constant(t.INT, 1)
    if len(call.arguments) > 1 and call.function == "count":
        raise UserError("counts distinct combinations, which a count window cannot")
    compiled = scope.compile(call.arguments[0])
    if pa.types.is_struct(compiled.kind) or compiled.kind == t.NULL:
        raise UserError(
            f"computes {call.function} of {t.name_of(compiled.kind)} in a window of tuples,"
            " which the reference engine does not know"
        )
    return compiled


def _without_nan(argument: Compiled) -> Callable[[Row], Any]:
    run = argument.run
    if not t.is_float(argument.kind):
        return run
    return lambda row: v if (v := run(row)) == v else None


def _tie_break(kinds: list[pa.DataType]) -> Callable[[tuple[Any, ...]], Any]:
    """The order of tuples of one time and id, which only a stream merged with itself has."""
    by_name = sorted(range(len(kinds)), key=lambda at: f"a{at}")
    whole = [t.is_integral(kind) for kind in kinds]

    def key(values: tuple[Any, ...]) -> Any:
        # NULL comes last, but integers carry their NULLs apart, after all values.
        of = [
            (False, values[at] or 0) if whole[at] else (values[at] is None, values[at] or 0)
            for at in by_name
        ]
        return [part if not part[0] else (True,) for part in of], [
            values[at] is None for at in by_name if whole[at]
        ]

    return key


def _result(call: AggregateCall, kind: pa.DataType) -> tuple[pa.DataType, Result]:
    """The type of a call's result, and how to compute it."""
    function = call.function
    if function in ("count", "approx_count_distinct"):
        distinct = call.distinct or function != "count"
        return t.BIGINT, (lambda v: len(set(_present(v)))) if distinct else _count
    if function in ("window_start", "window_end"):
        return TIMESTAMP, min if function == "window_start" else max
    if function in ("bool_and", "bool_or"):
        if kind != t.BOOLEAN:
            raise UserError(f"computes {function} of {t.name_of(kind)}")
        return t.BOOLEAN, _of_present(all if function == "bool_and" else any)
    if function in _SAME:
        return kind, _same_type(function, kind)
    if not t.is_number(kind):
        raise UserError(f"computes {function} of {t.name_of(kind)}, which is not a number")
    if function in ("sum", "avg"):
        return _sum(kind) if function == "sum" else _average(kind)
    return t.DOUBLE, _of_present(_spread(call, kind))


def _present(values: list[Any]) -> list[Any]:
    return [v for v in values if v is not None]


def _count(values: list[Any]) -> int:
    return len(_present(values))


def _of_present(function: Callable[[list[Any]], Any]) -> Result:
    """A function of the values that are not NULL; NULL if there is none."""
    return lambda values: function(found) if (found := _present(values)) else None


def _same_type(function: str, kind: pa.DataType) -> Result:
    if function == "first":
        return lambda values: values[0]
    if function == "last":
        return lambda values: values[-1]
    if function in ("min", "max"):
        return _of_present(min if function == "min" else max)
    if not t.is_integral(kind):
        raise UserError(f"computes {function} of {t.name_of(kind)}")
    return _of_present(bit_fold(function))


def _sum(kind: pa.DataType) -> tuple[pa.DataType, Result]:
    if t.is_integral(kind):
        return t.BIGINT, _of_present(lambda v: x if -(2**63) <= (x := sum(v)) < 2**63 else None)
    if not t.is_decimal(kind):
        return t.DOUBLE, _of_present(lambda v: float(reduce(add, v)))
    scale = kind.scale
    result = t.decimal(kind.precision + 10, scale)
    return result, _of_present(
        lambda v: fitting(unscaled(_decimal_sum(v, scale), scale), result.precision)
    )


def _decimal_sum(values: list[int], scale: int) -> Decimal:
    total: Decimal = sum((Decimal(v).scaleb(-scale) for v in values), Decimal(0))
    return total


def _average(kind: pa.DataType) -> tuple[pa.DataType, Result]:
    if t.is_decimal(kind):
        scale = kind.scale
        return t.DOUBLE, _of_present(lambda v: float(_decimal_sum(v, scale) / len(v)))
    return t.DOUBLE, _of_present(lambda v: float(reduce(add, v) / len(v)))


def _spread(call: AggregateCall, kind: pa.DataType) -> Callable[[list[Any]], float | None]:
    scale = kind.scale if t.is_decimal(kind) else 0

    def compute(values: list[Any]) -> float | None:
        numbers = np.array([to_double(v, scale) for v in values])
        if call.function == "median":
            return float(np.median(numbers))
        if call.function == "percentile":
            return float(np.quantile(numbers, float(call.arguments[1])))
        freedom = 0 if call.function.endswith("_pop") else 1
        if len(values) <= freedom:
            return None
        variance = float(np.var(numbers, ddof=freedom))
        return variance**0.5 if call.function.startswith("stddev") else variance

    return compute
