"""Arithmetic as Spark computes it: integers wrap, decimals round, a division by zero is NULL."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from sqlglot import exp

from australis.kernel.errors import UserError
from australis.reference import types as t
from australis.reference.expressions import Compiled, Scope, builds, constant, unknown
from australis.reference.numbers import fitting, float32, remainder, rescale, truncate, wrap

Operation = Callable[[Any, Any], Any]
_EXACT = 39
"""The digits of a product, and the decimal places of a quotient, that Spark keeps (it cuts
the others off) before it rounds to the result's type."""


def needs_parentheses(node: exp.Binary, kinds: tuple[type[exp.Expr], ...]) -> None:
    """Refuses operators side by side that the parser and Spark bind in different orders."""
    if isinstance(node.this, kinds) or isinstance(node.expression, kinds):
        written = node.sql(dialect="spark")
        raise UserError(f"needs parentheses in {written!r} for the reference engine")


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


def decimal_operands(a: Compiled, b: Compiled) -> tuple[Compiled, Compiled] | None:
    """Both as decimals, if that is how Spark computes; a literal keeps its own digits."""
    if not (t.is_decimal(a.kind) or t.is_decimal(b.kind)):
        return None
    if any(t.is_float(x.kind) or x.kind == t.NULL for x in (a, b)):
        return None
    return _as_decimal(a), _as_decimal(b)


def _as_decimal(x: Compiled) -> Compiled:
    if x.literal and t.is_integral(x.kind) and (value := x.run(())) is not None:
        if x.by_cast:
            raise UserError(
                "computes with a decimal and a whole number that has a type of its own, which"
                " the reference engine does not know (write the number alone)"
            )
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
        decimals = decimal_operands(a, b)
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
    decimals = decimal_operands(a, b)
    if decimals is None:
        return _plain_arithmetic(a, b, operator.mul)
    a, b = decimals
    scale = a.kind.scale + b.kind.scale
    kind = t.adjusted(a.kind.precision + b.kind.precision + 1, scale)

    def multiply(x: int, y: int) -> int | None:
        product = x * y
        excess = len(str(abs(product))) - _EXACT
        if excess > 0:
            product = truncate(product, 10**excess) * 10**excess
        return _fit(product, scale, kind)

    return both(a, b, kind, multiply)


@builds(exp.Div, settings=("this", "expression", "typed", "safe"))
def _divide(node: exp.Div, scope: Scope) -> Compiled:
    a, b = _operands(node, scope)
    decimals = decimal_operands(a, b)
    if decimals is None:
        a, b = a.to(t.DOUBLE), b.to(t.DOUBLE)
        return both(a, b, t.DOUBLE, lambda x, y: None if y == 0 else x / y)
    a, b = decimals
    p1, s1, p2, s2 = a.kind.precision, a.kind.scale, b.kind.precision, b.kind.scale
    scale = max(6, s1 + p2 + 1)
    kind = t.adjusted(p1 - s1 + s2 + scale, scale)
    up = 10 ** (_EXACT + s2 - s1)

    def divide(x: int, y: int) -> int | None:
        return None if y == 0 else _fit(truncate(x * up, y), _EXACT, kind)

    return both(a, b, kind, divide)


@builds(exp.Mod)
def _modulo(node: exp.Mod, scope: Scope) -> Compiled:
    return modulo(*_operands(node, scope))


def modulo(a: Compiled, b: Compiled, *, positive: bool = False) -> Compiled:
    """The remainder with the dividend's sign, or (`pmod`) the divisor's side of zero."""
    decimals = decimal_operands(a, b)
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
    decimals = decimal_operands(a, b)
    if decimals is not None:
        a, b = decimals
        up_a, up_b = 10**b.kind.scale, 10**a.kind.scale
        return both(
            a,
            b,
            t.BIGINT,
            lambda x, y: None if y == 0 else wrap(truncate(x * up_a, y * up_b), 64),
        )
    if t.is_float(a.kind) or t.is_float(b.kind):
        raise unknown(node)
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


_BITWISE = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)


def _bits(operation: Operation) -> Callable[[exp.Binary, Scope], Compiled]:
    def build(node: exp.Binary, scope: Scope) -> Compiled:
        needs_parentheses(node, _BITWISE)
        a, b = scope.build(node.this), scope.build(node.expression)
        if not (t.is_integral(a.kind) and t.is_integral(b.kind)):
            raise unknown(node)
        a, b, kind = _common(a, b)
        return both(a, b, kind, operation)

    return build


builds(exp.BitwiseAnd)(_bits(operator.and_))
builds(exp.BitwiseOr)(_bits(operator.or_))
builds(exp.BitwiseXor)(_bits(operator.xor))
