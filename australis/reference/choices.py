"""Casts and choices between values: CASE, if, coalesce, the greatest and the least."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from australis.reference import types as t
from australis.reference.conditions import comparison, truth
from australis.reference.expressions import Compiled, Run, Scope, builds, constant
from australis.reference.order import rank
from australis.streams.schema import parse_type


@builds(exp.Cast, exp.TryCast, settings=("this", "to", "safe"))
def _cast(node: exp.Cast, scope: Scope) -> Compiled:
    return cast_to(scope.build(node.this), written_type(node.to))


def cast_to(source: Compiled, kind: pa.DataType) -> Compiled:
    """A value with the type that the user asks for."""
    return replace(source.to(kind), by_cast=True)


def written_type(node: exp.DataType) -> pa.DataType:
    """The type that a cast names."""
    text = node.sql(dialect="spark").lower()
    return parse_type({"integer": "int"}.get(text, text))


@builds(exp.If, settings=("this", "true", "false"))
def _if(node: exp.If, scope: Scope) -> Compiled:
    otherwise = node.args.get("false")
    return _choose([(node.this, node.args["true"])], otherwise, scope)


@builds(exp.Case, settings=("this", "ifs", "default"))
def _case(node: exp.Case, scope: Scope) -> Compiled:
    branches = []
    for branch in node.args["ifs"]:
        condition = branch.this
        if node.this is not None:
            condition = exp.EQ(this=node.this.copy(), expression=condition.copy())
        branches.append((condition, branch.args["true"]))
    return _choose(branches, node.args.get("default"), scope)


def _choose(
    branches: list[tuple[exp.Expr, exp.Expr]], otherwise: exp.Expr | None, scope: Scope
) -> Compiled:
    conditions = [truth(condition, scope).run for condition, _ in branches]
    values = [scope.build(value) for _, value in branches]
    values.append(constant(t.NULL, None) if otherwise is None else scope.build(otherwise))
    kind = t.wider([value.kind for value in values])
    *chosen, last = [value.to(kind).run for value in values]
    pairs: list[tuple[Run, Run]] = list(zip(conditions, chosen, strict=True))

    def run(row: Any) -> Any:
        for condition, value in pairs:
            if condition(row):
                return value(row)
        return last(row)

    return Compiled(kind, run)


@builds(exp.Coalesce, settings=("this", "expressions"))
def _coalesce(node: exp.Coalesce, scope: Scope) -> Compiled:
    parts = [scope.build(part) for part in (node.this, *node.expressions)]
    kind = t.wider([part.kind for part in parts])
    runs = [part.to(kind).run for part in parts]

    def run(row: Any) -> Any:
        for part in runs:
            value = part(row)
            if value is not None:
                return value
        return None

    return Compiled(kind, run)


@builds(exp.Nullif)
def _nullif(node: exp.Nullif, scope: Scope) -> Compiled:
    value = scope.build(node.this)
    same = comparison(value, scope.build(node.expression), operator.eq).run
    run = value.run
    return Compiled(value.kind, lambda r: None if same(r) else run(r))


@builds(exp.Nvl2, settings=("this", "true", "false"))
def _nvl2(node: exp.Nvl2, scope: Scope) -> Compiled:
    present = exp.Not(this=exp.Is(this=node.this.copy(), expression=exp.Null()))
    return _choose([(present, node.args["true"])], node.args.get("false"), scope)


@builds(exp.Greatest, exp.Least, settings=("this", "expressions", "ignore_nulls"))
def _extreme(node: exp.Greatest | exp.Least, scope: Scope) -> Compiled:
    parts = [scope.build(part) for part in (node.this, *node.expressions)]
    kind = t.wider([part.kind for part in parts], strings=False)
    runs = [part.to(kind).run for part in parts]
    pick, key = (max if isinstance(node, exp.Greatest) else min), rank(kind)

    def run(row: Any) -> Any:
        found = [v for part in runs if (v := part(row)) is not None]
        return pick(found, key=key) if found else None

    return Compiled(kind, run)
