"""Aggregate functions as Spark columns whose result does not depend on grouping.

Integers are summed in two halves, so that no partial sum can overflow whatever
the order; floating-point values are summed as integers with `scale` decimal
places and divided once at the end. A value that does not fit (NaN, infinite, too
large for the scale) makes the result NULL, as does an overflowing total.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, DoubleType, FloatType, IntegralType

from australis.diagram.aggregates import AggregateCall
from australis.kernel.errors import UserError

WINDOW_EDGES = {"window_start": "_window.start", "window_end": "_window.end"}
"""The calls that read the window itself instead of computing over it."""

_HALF = 1 << 32
_MAX_INTEGER = 9.2e18


def aggregate_column(call: AggregateCall, frame: DataFrame, scale: int) -> Column:
    """The column that computes this call over groups of the frame."""
    if call.function == "count":
        return _count(call)
    value = F.expr(call.arguments[0])
    if call.function in ("first", "last"):
        pick = F.min_by if call.function == "first" else F.max_by
        return pick(value, F.struct("_stime", "_id", value.alias("value")))
    if call.function in ("sum", "avg", "stddev", "stddev_pop", "variance", "var_pop"):
        kind = frame.select(value.alias("x")).schema["x"].dataType
        return _numeric(call.function, value, kind, scale)
    return F.expr(f"{call.function}({', '.join(call.arguments)})")


def _count(call: AggregateCall) -> Column:
    if not call.arguments:
        return F.count(F.lit(1))
    if not call.distinct:
        return F.count(F.expr(call.arguments[0]))
    columns = [F.expr(argument) for argument in call.arguments]
    if len(columns) == 1:
        return F.size(F.collect_set(columns[0])).cast("bigint")
    some_null = columns[0].isNull()
    for column in columns[1:]:
        some_null = some_null | column.isNull()
    together = F.struct(*(c.alias(f"c{i}") for i, c in enumerate(columns)))
    return F.size(F.collect_set(F.when(~some_null, together))).cast("bigint")


def _numeric(function: str, value: Column, kind: DataType, scale: int) -> Column:
    if isinstance(kind, DecimalType) and function in ("sum", "avg"):
        return F.sum(value) if function == "sum" else F.avg(value)
    if isinstance(kind, IntegralType):
        whole, factor = value.cast("bigint"), 1.0
    elif isinstance(kind, FloatType | DoubleType | DecimalType):
        factor = 10.0**scale
        scaled = value.cast("double") * F.lit(factor)
        whole = F.when(F.abs(scaled) < F.lit(_MAX_INTEGER), F.round(scaled)).cast("bigint")
    else:
        raise UserError(f"computes {function} of {kind.simpleString()}, which is not a number")
    misfits = F.count(value) - F.count(whole)
    if function == "sum" and isinstance(kind, IntegralType):
        return _exact_sum(whole).try_cast("bigint")
    total = _exact_sum(whole).cast("double") / F.lit(factor)
    if function == "sum":
        return F.when(misfits == 0, total)
    if function == "avg":
        return F.when(misfits == 0, total / F.count(value))
    result = _variance(whole, population=function.endswith("_pop")) / F.lit(factor * factor)
    return F.when(misfits == 0, F.sqrt(result) if function.startswith("stddev") else result)


def _exact_sum(whole: Column) -> Column:
    """The sum of bigints as a decimal, from the sums of their high and low halves."""
    high = F.sum(F.shiftright(whole, 32)).cast("decimal(20,0)")
    low = F.sum(whole.bitwiseAND(F.lit(_HALF - 1))).cast("decimal(20,0)")
    return high * F.lit(_HALF).cast("decimal(10,0)") + low


def _variance(whole: Column, *, population: bool) -> Column:
    """The variance from exact sums; in double precision only where those do not fit."""
    n = F.count(whole)
    small = whole.cast("decimal(19,0)")
    squares = F.sum(small * small)
    total = _exact_sum(whole)
    narrow = total.try_cast("decimal(19,0)")
    exact = (n.try_cast("decimal(9,0)") * squares.try_cast("decimal(28,0)") - narrow * narrow).cast(
        "double"
    )
    double = n * squares.cast("double") - total.cast("double") * total.cast("double")
    raw = F.coalesce(exact, double)
    # Rounding may go below zero; where the squares overflow the result is NULL, not zero.
    spread = F.when(raw.isNotNull(), F.greatest(raw, F.lit(0.0)))
    divisor = n * n if population else n * (n - F.lit(1))
    return F.when(divisor > 0, spread / divisor)
