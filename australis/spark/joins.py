"""The windowed inner join."""

from __future__ import annotations

import re

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from australis.diagram.model import Join
from australis.kernel.errors import UserError
from australis.streams.schema import HEADER_NAMES

_EQUALITY = re.compile(r"(?<![<>!=])(?:=|==|<=>)(?![=>])")


def join(o: Join, left: DataFrame, right: DataFrame) -> DataFrame:
    """The pairs within the window; the later of the two times is the pair's `_stime`."""
    if not any(_links_sides(part) for part in re.split(r"\band\b", o.on, flags=re.IGNORECASE)):
        raise UserError(
            "joins without an equality between left and right, which Spark cannot stream"
            f" ({o.on!r})"
        )
    width = f"interval {o.within_us} microseconds"
    near = (
        "left._stime = right._stime"
        if o.within_us == 0
        else f"left._stime >= right._stime - {width} and left._stime <= right._stime + {width}"
    )
    pairs = left.alias("left").join(right.alias("right"), F.expr(f"({o.on}) and {near}"), "inner")
    select = o.select or _all_columns(left, right)
    return pairs.select(
        F.lit(0).cast("bigint").alias("_id"),
        F.expr("greatest(left._stime, right._stime)").alias("_stime"),
        *(F.expr(expression).alias(name) for name, expression in select),
    )


def _links_sides(condition: str) -> bool:
    sides = _EQUALITY.split(condition)
    if len(sides) != 2:
        return False
    a, b = (set(re.findall(r"\b(left|right)\s*\.", side)) for side in sides)
    return len(a) == len(b) == 1 and a != b


def _all_columns(left: DataFrame, right: DataFrame) -> list[tuple[str, str]]:
    select = [
        (name, f"{side}.`{name}`")
        for side, frame in (("left", left), ("right", right))
        for name in frame.columns
        if name not in HEADER_NAMES
    ]
    names = [name for name, _ in select]
    for name in names:
        if names.count(name) > 1:
            raise UserError(
                f"would have two columns '{name}'; say with 'select' which ones it gives"
            )
    return select
