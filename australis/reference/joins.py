"""The windowed inner join.

Each side keeps its tuples by the values that the condition sets equal; a new tuple is matched with
those kept on the other side. Tuples that no later tuple can match are dropped from time to time,
which changes no result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from sqlglot import exp

from australis.diagram.model import Join
from australis.kernel.errors import UserError
from australis.reference.conditions import sides, truth
from australis.reference.expressions import Column, Row, Run, Scope, parse
from australis.reference.order import distinct_key
from australis.reference.windows import Key, key_function

Side = dict[Key, tuple[Row, ...]]
JoinState = tuple[int, Side, Side]
"""The time up to which old tuples are dropped, and the tuples of the left and the right side."""


class WindowJoin:
    """Computes one join."""

    initial: JoinState = (0, {}, {})

    def __init__(self, o: Join, left: Scope, right: Scope) -> None:
        self._within = o.within_us
        width = len(left.columns)
        pair = Scope(
            [Column(c.name, c.kind, c.at, "left") for c in left.columns]
            + [Column(c.name, c.kind, c.at + width, "right") for c in right.columns]
        )
        equal, others = _conditions(parse(o.on), pair)
        keys = [_key_pair(node, pair, width) for node in equal]
        self._keys = tuple(key_function([key[side] for key in keys]) for side in (0, 1))
        self._match = _all_true([truth(node, pair).run for node in others])
        select = o.select or _all_columns(left, right)
        chosen = [(name, pair.compile(text)) for name, text in select]
        self._runs = [compiled.run for _, compiled in chosen]
        self.fields: list[tuple[str, pa.DataType]] = [(n, c.kind) for n, c in chosen]

    def run(
        self, left: list[Row], right: list[Row], state: JoinState, boundary: int
    ) -> tuple[list[Row], JoinState]:
        """The pairs whose later tuple is among these."""
        if not left and not right:
            return [], state
        pruned, old_left, old_right = state
        new_left, new_right = self._grouped(left, 0), self._grouped(right, 1)
        all_left = _joined(old_left, new_left)
        all_right = _joined(old_right, new_right)
        found: list[Row] = []
        for key, rows in new_left.items():
            if key in all_right:
                self._pairs(rows, all_right[key], found)
        for key, rows in new_right.items():
            if key in old_left:
                self._pairs(old_left[key], rows, found)
        if boundary - pruned > 2 * self._within:
            pruned = boundary
            horizon = boundary - self._within
            all_left, all_right = _after(all_left, horizon), _after(all_right, horizon)
        return found, (pruned, all_left, all_right)

    def _grouped(self, rows: list[Row], side: int) -> Side:
        key = self._keys[side]
        groups: dict[Key, list[Row]] = {}
        for row in rows:
            at = key(row)
            if None not in at:
                groups.setdefault(at, []).append(row)
        return {at: tuple(members) for at, members in groups.items()}

    def _pairs(self, left: tuple[Row, ...], right: tuple[Row, ...], found: list[Row]) -> None:
        within, match, runs = self._within, self._match, self._runs
        for a in left:
            for b in right:
                if abs(a[0] - b[0]) <= within:
                    pair = a + b
                    if match is None or match(pair):
                        later = a[0] if a[0] > b[0] else b[0]
                        found.append((later, *[run(pair) for run in runs], 0))


def _joined(old: Side, new: Side) -> Side:
    if not new:
        return old
    result = dict(old)
    for key, rows in new.items():
        held = result.get(key)
        result[key] = rows if held is None else held + rows
    return result


def _after(side: Side, horizon: int) -> Side:
    kept = {key: tuple([r for r in rows if r[0] > horizon]) for key, rows in side.items()}
    return {key: rows for key, rows in kept.items() if rows}


def _conditions(node: exp.Expr, pair: Scope) -> tuple[list[exp.EQ], list[exp.Expr]]:
    """The equalities between the two sides, and the other conditions."""
    if isinstance(node, exp.Paren):
        return _conditions(node.this, pair)
    if isinstance(node, exp.And):
        a, b = _conditions(node.this, pair), _conditions(node.expression, pair)
        return a[0] + b[0], a[1] + b[1]
    if isinstance(node, exp.EQ):
        found = _sides_of(node.this, pair), _sides_of(node.expression, pair)
        if found in (({"left"}, {"right"}), ({"right"}, {"left"})):
            return [node], []
    return [], [node]


def _sides_of(node: exp.Expr, pair: Scope) -> set[str]:
    return {column.side for named in node.find_all(exp.Column) for column in [_column(named, pair)]}


def _column(node: exp.Column, pair: Scope) -> Column:
    names = [part.name.lower() for part in node.parts]
    qualified = len(names) > 1 and names[0] in ("left", "right")
    name = names[1] if qualified else names[0]
    pair.column([part.name for part in node.parts])  # a `UserError` if it is unknown
    return next(
        c for c in pair.columns if c.name.lower() == name and (not qualified or c.side == names[0])
    )


def _key_pair(node: exp.EQ, pair: Scope, width: int) -> tuple[Run, Run]:
    """How each side computes its half of an equality, from its own row alone."""
    a, b = sides(pair.build(node.this), pair.build(node.expression))
    if _sides_of(node.this, pair) == {"right"}:
        a, b = b, a
    padding = (None,) * width
    right = distinct_key(b)
    return distinct_key(a), lambda row: right(padding + row)


def _all_true(runs: list[Run]) -> Callable[[Row], Any] | None:
    if not runs:
        return None
    if len(runs) == 1:
        return runs[0]
    return lambda row: all(run(row) for run in runs)


def _all_columns(left: Scope, right: Scope) -> list[tuple[str, str]]:
    select = [
        (column.name, f"{side}.`{column.name}`")
        for side, scope in (("left", left), ("right", right))
        for column in scope.columns
        if not column.name.startswith("_")
    ]
    names = [name for name, _ in select]
    for name in names:
        if names.count(name) > 1:
            raise UserError(
                f"would have two columns '{name}'; say with 'select' which ones it gives"
            )
    return select
