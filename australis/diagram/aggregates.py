"""The aggregate functions a diagram may use, and why others are refused.

Replicas group the same tuples differently, so a function is allowed only if its
result does not depend on grouping or order. Sums, averages and deviations of
floating-point values run in fixed point for that reason.

>>> parse_aggregate("count(distinct port)")
AggregateCall(function='count', arguments=('port',), distinct=True)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from australis.diagram.sql import tokens
from australis.kernel.errors import UserError
from australis.kernel.names import listed

FUNCTIONS = {
    "count": (0, 1),
    "approx_count_distinct": (1, 2),
    "sum": (1, 1),
    "avg": (1, 1),
    "min": (1, 1),
    "max": (1, 1),
    "stddev": (1, 1),
    "stddev_pop": (1, 1),
    "variance": (1, 1),
    "var_pop": (1, 1),
    "first": (1, 1),
    "last": (1, 1),
    "median": (1, 1),
    "percentile": (2, 2),
    "bool_and": (1, 1),
    "bool_or": (1, 1),
    "bit_and": (1, 1),
    "bit_or": (1, 1),
    "bit_xor": (1, 1),
    "window_start": (0, 0),
    "window_end": (0, 0),
}
"""Each function with its smallest and largest number of arguments."""

_ALIASES = {
    "mean": "avg",
    "stddev_samp": "stddev",
    "std": "stddev",
    "var_samp": "variance",
    "every": "bool_and",
    "some": "bool_or",
    "any": "bool_or",
    "first_value": "first",
    "last_value": "last",
}
_ORDERED = "its result depends on the order in which tuples are grouped, so replicas would differ"
_REFUSED = {
    "any_value": _ORDERED + "; use first or last",
    "max_by": _ORDERED + " when keys tie; use last, or max with a join",
    "min_by": _ORDERED + " when keys tie; use first, or min with a join",
    "approx_percentile": _ORDERED + "; use percentile",
    "percentile_approx": _ORDERED + "; use percentile",
    "kll_sketch_agg_double": _ORDERED,
    "histogram_numeric": _ORDERED,
    "collect_list": "a stream carries scalars and structs, not lists",
    "collect_set": "a stream carries scalars and structs, not lists",
    "array_agg": "a stream carries scalars and structs, not lists",
}
_CALL = re.compile(r"\s*(\w+)\s*\((.*)\)\s*", re.DOTALL)


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate: function, arguments as Spark SQL, and whether over distinct values."""

    function: str
    arguments: tuple[str, ...] = ()
    distinct: bool = False

    def __str__(self) -> str:
        inner = ", ".join(self.arguments) or ("*" if self.function == "count" else "")
        return f"{self.function}({'distinct ' if self.distinct else ''}{inner})"


def parse_aggregate(text: str) -> AggregateCall:
    """Read `function(arguments)`; a `UserError` says what is allowed."""
    match = _CALL.fullmatch(str(text))
    if not match or not _balanced(match[2]):
        raise UserError(
            f"is not one aggregate call: {str(text)!r}"
            " (write for example 'sum(bytes)'; compute with results in a map behind it)"
        )
    name = _ALIASES.get(match[1].lower(), match[1].lower())
    if name in _REFUSED:
        raise UserError(f"uses {name}: {_REFUSED[name]}")
    if name not in FUNCTIONS:
        raise UserError(f"uses an unknown aggregate '{name}' (known: {listed(FUNCTIONS, name)})")
    inner = match[2].strip()
    distinct = bool(re.match(r"distinct\b", inner, re.IGNORECASE))
    if distinct:
        inner = inner[len("distinct") :].strip()
        if name != "count":
            raise UserError(f"uses distinct in {name}: only count takes it")
    arguments = () if inner in ("", "*") else tuple(_arguments(inner))
    if inner == "*" and (name != "count" or distinct):
        raise UserError(f"uses * in {name}: only count(*) takes it")
    if "" in arguments:
        raise UserError(f"gives {name} an empty argument: {str(text)!r}")
    least, most = FUNCTIONS[name]
    if distinct and name == "count":
        least, most = 1, 99
    if not least <= len(arguments) <= most:
        raise UserError(f"gives {name} {len(arguments)} arguments; it takes {_span(least, most)}")
    return AggregateCall(name, arguments, distinct)


def _span(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"


def _balanced(text: str) -> bool:
    depth = 0
    for token in tokens(text):
        if token.kind == "mark":
            depth += (token.text in "([") - (token.text in ")]")
        if depth < 0:
            return False
    return depth == 0


def _arguments(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for token in tokens(text):
        if token.kind != "mark":
            continue
        depth += (token.text in "([") - (token.text in ")]")
        if token.text == "," and not depth:
            parts.append(text[start : token.start].strip())
            start = token.start + 1
    return [*parts, text[start:].strip()]
