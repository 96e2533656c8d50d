"""Conditions: comparisons and three-valued logic."""

from __future__ import annotations

import operator
import re
from typing import Any

import pyarrow as pa
from sqlglot import exp

from australis.kernel.errors import UserError
from australis.reference import types as t
from australis.reference.arithmetic import Operation, both, decimal_operands, needs_parentheses
from australis.reference.expressions import Compiled, Run, Scope, builds, unknown


def sides(a: Compiled, b: Compiled) -> tuple[Compiled, Compiled]:
    """Two operands of a comparison in the type they are compared in."""
    if t.is_decimal(a.kind) != t.is_decimal(b.kind):
        decimals = decimal_operands(a, b) if t.is_number(a.kind) and t.is_number(b.kind) else None
        a, b = decimals or (a, b)
    if t.is_decimal(a.kind) and t.is_decimal(b.kind):
        # Unscaled integers of one scale compare as they are, whatever their digits.
        scale = max(a.kind.scale, b.kind.scale)
        return _at_scale(a, scale), _at_scale(b, scale)
    kind = t.compared(a.kind, b.kind)
    if pa.types.is_struct(kind):
        raise UserError("compares structs, which the reference engine does not know")
    return a.to(kind), b.to(kind)


def _at_scale(x: Compiled, scale: int) -> Compiled:
    up, run = 10 ** (scale - x.kind.scale), x.run
    kind = pa.decimal128(t.MAX_DIGITS, scale)
    if up == 1:
        return Compiled(kind, run, x.literal)
    return Compiled(kind, lambda r: None if (v := run(r)) is None else v * up, x.literal)


def _less(x: Any, y: Any) -> bool:
    """Whether one double lies below another; NaN lies above all."""
    return bool(x < y) if y == y else bool(x == x)


_NAN_AWARE: dict[Operation, Operation] = {
    operator.eq: lambda x, y: x == y or (x != x and y != y),
    operator.ne: lambda x, y: not (x == y or (x != x and y != y)),
    operator.lt: _less,
    operator.gt: lambda x, y: _less(y, x),
    operator.le: lambda x, y: not _less(y, x),
    operator.ge: lambda x, y: not _less(x, y),
}


def comparison(a: Compiled, b: Compiled, operation: Operation) -> Compiled:
    """A comparison of two operands."""
    a, b = sides(a, b)
    chosen = _NAN_AWARE[operation] if t.is_float(a.kind) else operation
    return both(a, b, t.BOOLEAN, chosen)


_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.GT, exp.LTE, exp.GTE, exp.NullSafeEQ)

for _kind, _operation in {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.GT: operator.gt,
    exp.LTE: operator.le,
    exp.GTE: operator.ge,
}.items():

    @builds(_kind)
    def _compare(node: exp.Binary, scope: Scope, operation: Operation = _operation) -> Compiled:
        needs_parentheses(node, _COMPARISONS)
        return comparison(scope.build(node.this), scope.build(node.expression), operation)


@builds(exp.NullSafeEQ)
def _null_safe(node: exp.NullSafeEQ, scope: Scope) -> Compiled:
    needs_parentheses(node, _COMPARISONS)
    a, b = sides(scope.build(node.this), scope.build(node.expression))
    left, right = a.run, b.run
    equal = _NAN_AWARE[operator.eq] if t.is_float(a.kind) else operator.eq

    def run(row: Any) -> bool:
        x, y = left(row), right(row)
        return x is y if x is None or y is None else bool(equal(x, y))

    return Compiled(t.BOOLEAN, run)


def truth(node: exp.Expr, scope: Scope) -> Compiled:
    """An expression that is true, false or NULL."""
    compiled = scope.build(node)
    if compiled.kind == t.NULL:
        return compiled.to(t.BOOLEAN)
    if compiled.kind != t.BOOLEAN:
        raise UserError(
            f"uses {node.sql(dialect='spark')!r} as a condition, but it is"
            f" {t.name_of(compiled.kind)}"
        )
    return compiled


@builds(exp.And)
def _and(node: exp.And, scope: Scope) -> Compiled:
    left, right = truth(node.this, scope).run, truth(node.expression, scope).run

    def run(row: Any) -> bool | None:
        x = left(row)
        if x is False:
            return False
        y = right(row)
        return y if x or y is False else None

    return Compiled(t.BOOLEAN, run)


@builds(exp.Or)
def _or(node: exp.Or, scope: Scope) -> Compiled:
    left, right = truth(node.this, scope).run, truth(node.expression, scope).run

    def run(row: Any) -> bool | None:
        x = left(row)
        if x:
            return True
        y = right(row)
        return y if y or x is False else None

    return Compiled(t.BOOLEAN, run)


@builds(exp.Not)
def _not(node: exp.Not, scope: Scope) -> Compiled:
    run = truth(node.this, scope).run
    return Compiled(t.BOOLEAN, lambda r: None if (x := run(r)) is None else not x)


@builds(exp.Is)
def _is(node: exp.Is, scope: Scope) -> Compiled:
    run = scope.build(node.this).run
    if isinstance(node.expression, exp.Null):
        return Compiled(t.BOOLEAN, lambda r: run(r) is None)
    if isinstance(node.expression, exp.Boolean):
        wanted = bool(node.expression.this)
        truth(node.this, scope)
        return Compiled(t.BOOLEAN, lambda r: run(r) is wanted)
    raise unknown(node)


@builds(exp.Between, settings=("this", "low", "high"))
def _between(node: exp.Between, scope: Scope) -> Compiled:
    low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
    high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    return scope.build(exp.And(this=low, expression=high))


@builds(exp.In, settings=("this", "expressions"))
def _in(node: exp.In, scope: Scope) -> Compiled:
    parts = [scope.build(part) for part in (node.this, *node.expressions)]
    kind = t.wider([part.kind for part in parts])
    value, *choices = [part.to(kind).run for part in parts]
    equal = _NAN_AWARE[operator.eq] if t.is_float(kind) else operator.eq

    def run(row: Any) -> bool | None:
        x = value(row)
        if x is None:
            return None
        found = [choice(row) for choice in choices]
        if any(y is not None and equal(x, y) for y in found):
            return True
        return None if None in found else False

    return Compiled(t.BOOLEAN, run)


def pattern(like: str) -> re.Pattern[str]:
    """The regular expression of a LIKE pattern."""
    marks = {"%": ".*", "_": "."}
    return re.compile("".join(marks.get(c) or re.escape(c) for c in like), re.DOTALL)


@builds(exp.Like, exp.ILike, settings=("this", "expression", "negate"))
def _like(node: exp.Like | exp.ILike, scope: Scope) -> Compiled:
    value, like = scope.build(node.this).to(t.STRING), scope.build(node.expression)
    if not like.literal or like.kind != t.STRING:
        raise UserError(
            f"uses a pattern that is not written out in {node.sql(dialect='spark')!r},"
            " which the reference engine does not know"
        )
    text, run, wanted = like.run(()), value.run, not node.args.get("negate")
    if isinstance(node, exp.ILike):
        lower = pattern(text.lower()).fullmatch
        return Compiled(
            t.BOOLEAN,
            lambda r: None if (x := run(r)) is None else (lower(x.lower()) is not None) is wanted,
        )
    match = pattern(text).fullmatch
    return Compiled(
        t.BOOLEAN, lambda r: None if (x := run(r)) is None else (match(x) is not None) is wanted
    )


def condition(text: str, scope: Scope) -> Run:
    """A predicate: true, false or None."""
    compiled = scope.compile(text)
    if compiled.kind not in (t.BOOLEAN, t.NULL):
        kind = t.name_of(compiled.kind)
        raise UserError(f"has a predicate that is {kind}, not boolean: {text!r}")
    return compiled.run
