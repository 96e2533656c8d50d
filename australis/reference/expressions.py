"""Spark SQL expressions, compiled to functions of a row.

An expression is parsed once (sqlglot, Spark's dialect), gets the type that Spark
would give it, and becomes a chain of closures over plain Python values: for the
few rows of a bucket that is faster than any call into Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from australis.kernel.errors import UserError
from australis.reference import types as t
from australis.reference.casts import cast
from australis.reference.numbers import unscaled

Row = tuple[Any, ...]
"""`_stime`, the attributes, `_id`."""
Run = Callable[[Row], Any]


@dataclass(frozen=True)
class Column:
    """Where a row holds a column; `side` is left or right within a join."""

    name: str
    kind: pa.DataType
    at: int
    side: str = ""


@dataclass(frozen=True)
class Compiled:
    """An expression: its type, and how to compute it."""

    kind: pa.DataType
    run: Run
    literal: bool = False
    by_cast: bool = False
    """A literal with a cast, which Spark gives another type beside a decimal than a bare one."""

    def to(self, kind: pa.DataType) -> Compiled:
        """The same value with another type."""
        if kind == self.kind:
            return self
        change, run = cast(self.kind, kind), self.run
        if self.literal:
            return constant(kind, None if (v := run(())) is None else change(v))
        return Compiled(kind, lambda row: None if (v := run(row)) is None else change(v))


Builder = Callable[[Any, "Scope"], Compiled]
BUILDERS: dict[type[exp.Expr], tuple[Builder, frozenset[str]]] = {}
"""The compiler of each kind of node, and the node's settings that it supports."""
_USUAL = ("this", "expression")


def builds(
    *kinds: type[exp.Expr], settings: Sequence[str] = _USUAL
) -> Callable[[Builder], Builder]:
    """Registers the compiler of these kinds of node; a node with other settings is refused."""

    def register(builder: Builder) -> Builder:
        BUILDERS.update(dict.fromkeys(kinds, (builder, frozenset(settings))))
        return builder

    return register


class Scope:
    """The columns an expression may name."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = tuple(columns)

    def compile(self, text: str) -> Compiled:
        """The compiled expression of a text; a `UserError` if this engine does not support it."""
        try:
            return self.build(parse(text))
        except RecursionError:
            raise UserError(
                "has an expression that is nested too deeply for the reference engine"
            ) from None

    def build(self, node: exp.Expr) -> Compiled:
        """The expression of a parsed node."""
        builder, settings = BUILDERS.get(type(node), (None, frozenset[str]()))
        given = {name for name, value in node.args.items() if value not in (None, False, [])}
        if builder is None or not given <= settings:
            raise unknown(node)
        return builder(node, self)

    def column(self, parts: Sequence[str]) -> Compiled:
        """The compiled reference to a column, or to a field of a struct within it."""
        names = [part.lower() for part in parts]
        sides = {column.side for column in self.columns if column.side}
        qualified = len(names) > 1 and names[0] in sides
        name, fields = (names[1], names[2:]) if qualified else (names[0], names[1:])
        found = [
            column
            for column in self.columns
            if column.name.lower() == name and (not qualified or column.side == names[0])
        ]
        if len(found) != 1:
            known = ", ".join(column.name for column in self.columns)
            problem = "is ambiguous" if found else f"is unknown (known: {known})"
            raise UserError(f"names a column '{'.'.join(parts)}' that {problem}")
        at = found[0].at
        compiled = Compiled(found[0].kind, lambda row: row[at])
        for field in fields:
            compiled = _field(compiled, field)
        return compiled


def parse(text: str) -> exp.Expr:
    """The parsed node of an expression; a `UserError` if the text is not one."""
    if "\\" in text:
        # How a backslash in a string is read depends on what follows and on the function.
        raise UserError(f"uses a backslash in {text!r}, which the reference engine does not know")
    try:
        node = sqlglot.parse_one(text, dialect="spark")
    except SqlglotError as error:
        reason = str(error).split(". Line")[0].split("\n")[0]
        raise UserError(f"has an expression that cannot be read: {text!r} ({reason})") from None
    return node


def unknown(node: exp.Expr) -> UserError:
    """The refusal of an expression that this engine cannot compute."""
    written = node.sql(dialect="spark")
    return UserError(f"uses {written!r}, which the reference engine does not know")


def constant(kind: pa.DataType, value: Any) -> Compiled:
    """An expression that is the same for every row."""
    return Compiled(kind, lambda _row: value, literal=True)


def _field(parent: Compiled, name: str) -> Compiled:
    if not pa.types.is_struct(parent.kind):
        raise UserError(f"takes the field '{name}' of {t.name_of(parent.kind)}, which has none")
    names = [field.name.lower() for field in parent.kind]
    if names.count(name) != 1:
        raise UserError(f"takes the unknown field '{name}' of {t.name_of(parent.kind)}")
    at, run = names.index(name), parent.run
    kind = parent.kind.field(at).type
    return Compiled(kind, lambda row: None if (v := run(row)) is None else v[at])


@builds(exp.Column, settings=("this", "table", "db", "catalog"))
def _column(node: exp.Column, scope: Scope) -> Compiled:
    return scope.column([part.name for part in node.parts])


@builds(exp.Dot)
def _dot(node: exp.Dot, scope: Scope) -> Compiled:
    return _field(scope.build(node.this), node.expression.name.lower())


@builds(exp.Paren)
def _paren(node: exp.Paren, scope: Scope) -> Compiled:
    return scope.build(node.this)


@builds(exp.Null)
def _null(_node: exp.Null, _scope: Scope) -> Compiled:
    return constant(t.NULL, None)


@builds(exp.Boolean)
def _boolean(node: exp.Boolean, _scope: Scope) -> Compiled:
    return constant(t.BOOLEAN, bool(node.this))


@builds(exp.Literal, settings=("this", "is_string"))
def _literal(node: exp.Literal, _scope: Scope) -> Compiled:
    text = str(node.this)
    if node.is_string:
        return constant(t.STRING, text)
    if "e" in text.lower():
        return constant(t.DOUBLE, float(text))
    if "." not in text:
        value = int(text)
        kind = t.INT if value < 2**31 else t.BIGINT if value < 2**63 else None
        return constant(kind or t.decimal(len(text), 0), value)
    number = Decimal(text)
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    places = -exponent
    return constant(t.decimal(max(len(digits), places), places), unscaled(number, places))
