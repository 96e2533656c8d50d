"""The operators of a plan as functions from rows to rows.

Each operator becomes a `Node`: it takes the rows of its inputs for some buckets
and gives the rows of its outputs up to the same boundary, with a new state if it
keeps one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from australis.diagram.model import (
    Aggregate,
    BSort,
    Filter,
    Join,
    Map,
    Operator,
    Split,
    Union,
)
from australis.kernel.errors import UserError
from australis.reference import functions  # noqa: F401 (it registers what expressions may use)
from australis.reference import types as t
from australis.reference.conditions import condition
from australis.reference.counts import CountWindows
from australis.reference.expressions import Column, Row, Run, Scope
from australis.reference.hashing import xxhash64
from australis.reference.joins import WindowJoin
from australis.reference.windows import TimeWindows
from australis.streams.schema import TIMESTAMP, Field, Schema, type_name

Rows = list[Row]
Step = Callable[[Sequence[Rows], Any, int, int], tuple[Sequence[Rows], Any]]
"""Computes outputs and state from the inputs' rows, the state, and the previous and new
boundary.
"""


@dataclass(frozen=True)
class Node:
    """One operator, ready to run."""

    step: Step
    schemas: tuple[Schema, ...]
    """The schemas of its outputs."""
    initial: Any = None
    due: Callable[[Any], int] | None = None
    """The boundary at which it has output even without new tuples; None: never."""


O = TypeVar("O", bound=Operator)  # noqa: E741
_MAKERS: dict[type[Operator], Callable[[Any, Sequence[Schema]], Node]] = {}


def runs(
    kind: type[O],
) -> Callable[[Callable[[O, Sequence[Schema]], Node]], Callable[[O, Sequence[Schema]], Node]]:
    """Register a function that makes the nodes of a kind of operator, over streams of these
    schemas.
    """

    def register(
        maker: Callable[[O, Sequence[Schema]], Node],
    ) -> Callable[[O, Sequence[Schema]], Node]:
        _MAKERS[kind] = maker
        return maker

    return register


def make_node(o: Operator, inputs: Sequence[Schema]) -> Node:
    """The node of an operator over streams of these schemas; a `UserError` if it is unsupported."""
    maker = _MAKERS.get(type(o))
    if maker is None:
        raise UserError(f"is a {o.kind} operator, which the reference engine cannot run")
    return maker(o, inputs)


def scope_of(schema: Schema) -> Scope:
    """The columns of a stream's rows."""
    fields = [Column(f.name, f.arrow, at) for at, f in enumerate(schema, 1)]
    last = len(fields) + 1
    return Scope([Column("_stime", TIMESTAMP, 0), *fields, Column("_id", t.BIGINT, last)])


def schema_of(fields: Sequence[tuple[str, pa.DataType]]) -> Schema:
    """The schema of computed columns."""
    for name, kind in fields:
        if kind == t.NULL:
            raise UserError(
                f"has the column '{name}' of type void,"
                " which a stream cannot carry (scalars and structs can)"
            )
    return Schema(tuple(Field(name, type_name(kind)) for name, kind in fields))


def stateless(function: Callable[[Rows], Sequence[Rows]], schemas: Sequence[Schema]) -> Node:
    """A node that treats each row of its only input by itself."""

    def step(inputs: Sequence[Rows], _state: Any, _b: int, _n: int) -> tuple[Sequence[Rows], Any]:
        return function(inputs[0]), None

    return Node(step, tuple(schemas))


@runs(Filter)
def _filter(o: Filter, inputs: Sequence[Schema]) -> Node:
    scope = scope_of(inputs[0])
    tests = [condition(predicate, scope) for _, predicate in o.where]
    if len(tests) == 1 and o.rest is None:
        (only,) = tests
        return stateless(lambda rows: [[row for row in rows if only(row)]], inputs)
    return stateless(_deal(_first_match(tests), len(o.outputs)), [inputs[0]] * len(o.outputs))


def _first_match(tests: list[Run]) -> Callable[[Row], int]:
    def branch(row: Row) -> int:
        for at, test in enumerate(tests):
            if test(row):
                return at
        return len(tests)

    return branch


def _deal(branch: Callable[[Row], int], branches: int) -> Callable[[Rows], Sequence[Rows]]:
    """Each row to its branch; a branch that is not there drops it."""

    def deal(rows: Rows) -> Sequence[Rows]:
        found: list[Rows] = [[] for _ in range(branches + 1)]
        for row in rows:
            found[branch(row)].append(row)
        return found[:branches]

    return deal


@runs(Map)
def _map(o: Map, inputs: Sequence[Schema]) -> Node:
    scope = scope_of(inputs[0])
    columns = [(name, scope.compile(text)) for name, text in o.select]
    runs = [compiled.run for _, compiled in columns]
    schema = schema_of([(name, compiled.kind) for name, compiled in columns])
    return stateless(
        lambda rows: [[(row[0], *[run(row) for run in runs], row[-1]) for row in rows]], [schema]
    )


@runs(Union)
def _union(o: Union, inputs: Sequence[Schema]) -> Node:
    o.check_schemas(inputs)
    first = inputs[0]
    orders = [_reordering(first, other) for other in inputs]

    def step(inputs: Sequence[Rows], _state: Any, _b: int, _n: int) -> tuple[Sequence[Rows], Any]:
        found: Rows = []
        for rows, order in zip(inputs, orders, strict=True):
            found += rows if order is None else [tuple([row[at] for at in order]) for row in rows]
        return [found], None

    return Node(step, (first,))


def _reordering(first: Schema, other: Schema) -> list[int] | None:
    """Where a row of the other schema has the first one's columns; None: in the same order."""
    if first.names == other.names:
        return None
    return [0, *(other.names.index(name) + 1 for name in first.names), len(other.names) + 1]


@runs(BSort)
def _bsort(_o: BSort, inputs: Sequence[Schema]) -> Node:
    return stateless(lambda rows: [rows], inputs)


@runs(Aggregate)
def _aggregate(o: Aggregate, inputs: Sequence[Schema]) -> Node:
    if o.counts_tuples:
        return _count_window(o, inputs[0])
    windows = TimeWindows(o, scope_of(inputs[0]))

    def step(inputs: Sequence[Rows], state: Any, before: int, now: int) -> Any:
        rows, state = windows.run(inputs[0], state, before, now)
        return [rows], state

    return Node(step, (schema_of(windows.fields),), windows.initial, lambda state: int(state[0]))


def _count_window(o: Aggregate, schema: Schema) -> Node:
    windows = CountWindows(o, scope_of(schema))

    def step(inputs: Sequence[Rows], state: Any, _before: int, _now: int) -> Any:
        rows, state = windows.run(inputs[0], state)
        return [rows], state

    return Node(step, (schema_of(windows.fields),), windows.initial)


@runs(Split)
def _split(o: Split, inputs: Sequence[Schema]) -> Node:
    scope = scope_of(inputs[0])
    run, into = xxhash64([scope.compile(text) for text in o.by]), o.into
    return stateless(_deal(lambda row: int(run(row) % into), into), [inputs[0]] * into)


@runs(Join)
def _join(o: Join, inputs: Sequence[Schema]) -> Node:
    join = WindowJoin(o, scope_of(inputs[0]), scope_of(inputs[1]))

    def step(inputs: Sequence[Rows], state: Any, _before: int, now: int) -> Any:
        rows, state = join.run(inputs[0], inputs[1], state, now)
        return [rows], state

    return Node(step, (schema_of(join.fields),), join.initial)
