"""Operators of Spark SQL: arithmetic, comparison, three-valued logic, choices."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from sqlglot import exp

from australis.kernel.errors import UserError
from australis.reference import types as t
from australis.reference.casts import cast
from australis.reference.expressions import (
    Compiled,
    Run,
    Scope,
    builds,
    constant,
    parse,
    unknown,
)
from australis.reference.numbers import (
    divide_half_up,
    fitting,
    float32,
    remainder,
    rescale,
    truncate,
    wrap,
)
from australis.streams.schema import parse_type

Operation = Callable[[Any, Any], Any]
_EXACT = 39
"""The digits of a product that Spark keeps before it rounds to the result's type."""


def both(a: Compiled, b: Compiled, kind: pa.DataType, operation: Operation) -> Compiled:
    """An operation that is NULL if one of its operands is."""
    left, right = a.run, b.run
    if b.literal:
        fixed = right(())
        if fixed is None:
            return constant(kind, None)
        return Compiled(kind, lambda r: None if (x := left(r)) is None else operation(x, fixed))

    def run(row: Any) -> Any:
        x = left(row)
        if x is None:
            return None
        y = right(row)
        return None if y is None else operation(x, y)

    return Compiled(kind, run)


def _operands(node: exp.Binary, scope: Scope) -> tuple[Compiled, Compiled]:
    """The operands of an arithmetic operator; strings count as doubles."""
    a, b = scope.build(node.this), scope.build(node.expression)
    a, b = (x.to(t.DOUBLE) if x.kind == t.STRING else x for x in (a, b))
    for x in (a, b):
        if not t.is_number(x.kind) and x.kind != t.NULL:
            raise UserError(
                f"computes with {t.name_of(x.kind)} in {node.sql(dialect='spark')!r},"
                " which the reference engine does not know"
            )
    return a, b


def _decimal_operands(a: Compiled, b: Compiled) -> tuple[Compiled, Compiled] | None:
    """Both as decimals, if that is how Spark computes; a literal keeps its own digits."""
    if not (t.is_decimal(a.kind) or t.is_decimal(b.kind)):
        return None
    if any(t.is_float(x.kind) or x.kind == t.NULL for x in (a, b)):
        return None
    return _as_decimal(a), _as_decimal(b)


def _as_decimal(x: Compiled) -> Compiled:
    if x.literal and t.is_integral(x.kind) and (value := x.run(())) is not None:
        return constant(t.decimal(len(str(abs(value))), 0), value)
    return x.to(t.as_decimal(x.kind))


def _common(a: Compiled, b: Compiled) -> tuple[Compiled, Compiled, pa.DataType]:
    kind = t.tightest(a.kind, b.kind)
    assert kind is not None, "numbers have a common type"
    if kind == t.NULL:
        kind = t.DOUBLE
    return a.to(kind), b.to(kind), kind


def _sum_type(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    scale = max(a.scale, b.scale)
    return t.adjusted(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)


def _additive(plain: Operation) -> Callable[[exp.Binary, Scope], Compiled]:
    def build(node: exp.Binary, scope: Scope) -> Compiled:
        a, b = _operands(node, scope)
        decimals = _decimal_operands(a, b)
        if decimals is None:
            return _plain_arithmetic(a, b, plain)
        a, b = decimals
        kind = _sum_type(a.kind, b.kind)
        fine = max(a.kind.scale, b.kind.scale)
        up_a, up_b = 10 ** (fine - a.kind.scale), 10 ** (fine - b.kind.scale)
        return both(a, b, kind, lambda x, y: _fit(plain(x * up_a, y * up_b), fine, kind))

    return build


def _fit(value: int, scale: int, kind: pa.DataType) -> int | None:
    return fitting(rescale(value, scale, kind.scale), kind.precision)


def _plain_arithmetic(a: Compiled, b: Compiled, plain: Operation) -> Compiled:
    a, b, kind = _common(a, b)
    if t.is_integral(kind):
        bits = t.BITS[kind]
        return both(a, b, kind, lambda x, y: wrap(plain(x, y), bits))
    if kind == t.FLOAT:
        return both(a, b, kind, lambda x, y: float32(plain(x, y)))
    return both(a, b, kind, plain)


builds(exp.Add)(_additive(operator.add))
builds(exp.Sub)(_additive(operator.sub))


@builds(exp.Mul)
def _multiply(node: exp.Mul, scope: Scope) -> Compiled:
    a, b = _operands(node, scope)
    decimals = _decimal_operands(a, b)
    if decimals is None:
        return _plain_arithmetic(a, b, operator.mul)
    a, b = decimals
    scale = a.kind.scale + b.kind.scale
    kind = t.adjusted(a.kind.precision + b.kind.precision + 1, scale)

    def multiply(x: int, y: int) -> int | None:
        product = x * y
        excess = len(str(abs(product))) - _EXACT
        if excess > 0:
            product = divide_half_up(product, 10**excess) * 10**excess
        return _fit(product, scale, kind)

    return both(a, b, kind, multiply)


@builds(exp.Div)
def _divide(node: exp.Div, scope: Scope) -> Compiled:
    a, b = _operands(node, scope)
    decimals = _decimal_operands(a, b)
    if decimals is None:
        a, b = a.to(t.DOUBLE), b.to(t.DOUBLE)
        return both(a, b, t.DOUBLE, lambda x, y: None if y == 0 else x / y)
    a, b = decimals
    p1, s1, p2, s2 = a.kind.precision, a.kind.scale, b.kind.precision, b.kind.scale
    scale = max(6, s1 + p2 + 1)
    kind = t.adjusted(p1 - s1 + s2 + scale, scale)
    up = 10 ** (_EXACT + s2 - s1 if s1 <= _EXACT + s2 else 0)

    def divide(x: int, y: int) -> int | None:
        return None if y == 0 else _fit(divide_half_up(x * up, y), _EXACT, kind)

    return both(a, b, kind, divide)


@builds(exp.Mod)
def _modulo(node: exp.Mod, scope: Scope) -> Compiled:
    return modulo(*_operands(node, scope))


def modulo(a: Compiled, b: Compiled, *, positive: bool = False) -> Compiled:
    """The remainder with the dividend's sign, or (`pmod`) the divisor's side of zero."""
    decimals = _decimal_operands(a, b)
    if decimals is not None:
        a, b = decimals
        scale = max(a.kind.scale, b.kind.scale)
        digits = min(a.kind.precision - a.kind.scale, b.kind.precision - b.kind.scale) + scale
        kind = t.adjusted(digits, scale)
        up_a, up_b = 10 ** (scale - a.kind.scale), 10 ** (scale - b.kind.scale)
        rest = _positive(remainder) if positive else remainder
        return both(
            a,
            b,
            kind,
            lambda x, y: None if y == 0 else _fit(rest(x * up_a, y * up_b), scale, kind),
        )
    a, b, kind = _common(a, b)
    plain = remainder if t.is_integral(kind) else _fmod
    chosen = _positive(plain) if positive else plain
    return both(a, b, kind, lambda x, y: None if y == 0 else chosen(x, y))


def _fmod(x: float, y: float) -> float:
    return math.nan if math.isinf(x) else math.fmod(x, y)


def _positive(plain: Operation) -> Operation:
    def rest(x: Any, y: Any) -> Any:
        r = plain(x, y)
        return plain(r + y, y) if r < 0 else r

    return rest


@builds(exp.IntDiv)
def _whole_quotient(node: exp.IntDiv, scope: Scope) -> Compiled:
    a, b = _operands(node, scope)
    decimals = _decimal_operands(a, b)
    if decimals is not None:
        a, b = decimals
        up_a, up_b = 10**b.kind.scale, 10**a.kind.scale
        return both(
            a,
            b,
            t.BIGINT,
            lambda x, y: None if y == 0 else wrap(truncate(x * up_a, y * up_b), 64),
        )
    a, b = a.to(t.BIGINT), b.to(t.BIGINT)
    return both(a, b, t.BIGINT, lambda x, y: None if y == 0 else wrap(truncate(x, y), 64))


@builds(exp.Neg)
def _negative(node: exp.Neg, scope: Scope) -> Compiled:
    literal = node.this
    if isinstance(literal, exp.Literal) and str(literal.this) in (str(2**31), str(2**63)):
        # The least integer is written as the negative of one that is too large.
        value = -int(literal.this)
        return constant(t.INT if value == -(2**31) else t.BIGINT, value)
    a = scope.build(node.this)
    if a.kind == t.STRING:
        a = a.to(t.DOUBLE)
    if not t.is_number(a.kind):
        raise unknown(node)
    bits = t.BITS.get(a.kind, 256)
    run = a.run
    if a.literal:
        return constant(a.kind, -run(()))
    if t.is_float(a.kind):
        return Compiled(a.kind, lambda r: None if (x := run(r)) is None else -x)
    return Compiled(a.kind, lambda r: None if (x := run(r)) is None else wrap(-x, bits))


def _bits(operation: Operation) -> Callable[[exp.Binary, Scope], Compiled]:
    def build(node: exp.Binary, scope: Scope) -> Compiled:
        a, b = scope.build(node.this), scope.build(node.expression)
        if not (t.is_integral(a.kind) and t.is_integral(b.kind)):
            raise unknown(node)
        a, b, kind = _common(a, b)
        return both(a, b, kind, operation)

    return build


builds(exp.BitwiseAnd)(_bits(operator.and_))
builds(exp.BitwiseOr)(_bits(operator.or_))
builds(exp.BitwiseXor)(_bits(operator.xor))


def sides(a: Compiled, b: Compiled) -> tuple[Compiled, Compiled]:
    """Two operands of a comparison in the type they are compared in."""
    if t.is_decimal(a.kind) != t.is_decimal(b.kind):
        decimals = _decimal_operands(a, b) if t.is_number(a.kind) and t.is_number(b.kind) else None
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
        return comparison(scope.build(node.this), scope.build(node.expression), operation)


@builds(exp.NullSafeEQ)
def _null_safe(node: exp.NullSafeEQ, scope: Scope) -> Compiled:
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


@builds(exp.Between)
def _between(node: exp.Between, scope: Scope) -> Compiled:
    if node.args.get("symmetric"):
        raise unknown(node)
    low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
    high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    return scope.build(exp.And(this=low, expression=high))


@builds(exp.In)
def _in(node: exp.In, scope: Scope) -> Compiled:
    if not node.expressions or node.args.get("query"):
        raise unknown(node)
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


def pattern(like: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """The regular expression of a LIKE pattern; a backslash quotes what follows."""
    parts, at = [], 0
    while at < len(like):
        mark = like[at]
        if mark == "\\" and at + 1 < len(like):
            at += 1
            parts.append(re.escape(like[at]))
        else:
            parts.append({"%": ".*", "_": "."}.get(mark) or re.escape(mark))
        at += 1
    return re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


@builds(exp.Like, exp.ILike)
def _like(node: exp.Like | exp.ILike, scope: Scope) -> Compiled:
    value, like = scope.build(node.this).to(t.STRING), scope.build(node.expression)
    if not like.literal or like.kind != t.STRING:
        raise UserError(
            f"uses a pattern that is not written out in {node.sql(dialect='spark')!r},"
            " which the reference engine does not know"
        )
    match = pattern(like.run(()), ignore_case=isinstance(node, exp.ILike)).fullmatch
    run = value.run
    return Compiled(t.BOOLEAN, lambda r: None if (x := run(r)) is None else match(x) is not None)


@builds(exp.Cast, exp.TryCast)
def _cast(node: exp.Cast, scope: Scope) -> Compiled:
    source = scope.build(node.this)
    return source.to(written_type(node.to))


def written_type(node: exp.DataType) -> pa.DataType:
    """The type that a cast names."""
    text = node.sql(dialect="spark").lower()
    return parse_type({"integer": "int"}.get(text, text))


@builds(exp.If)
def _if(node: exp.If, scope: Scope) -> Compiled:
    otherwise = node.args.get("false")
    return _choose([(node.this, node.args["true"])], otherwise, scope)


@builds(exp.Case)
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


@builds(exp.Coalesce)
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


def condition(text: str, scope: Scope) -> Run:
    """A predicate: true, false or None."""
    compiled = scope.compile(text)
    if compiled.kind not in (t.BOOLEAN, t.NULL):
        kind = t.name_of(compiled.kind)
        raise UserError(f"has a predicate that is {kind}, not boolean: {text!r}")
    return compiled.run


__all__ = ["cast", "comparison", "condition", "modulo", "parse", "sides", "truth"]
