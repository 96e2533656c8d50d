"""Which missing inputs block an output: nested operators, and what really comes out of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocols.dpc.story import joined

from australis.diagram.build import DiagramBuilder, Stream
from australis.diagram.fragments import cut
from australis.diagram.model import Diagram
from australis.kernel.ids import pack_id
from australis.protocols.dpc.outputs import OutputConfig
from australis.protocols.dpc.topology import replicate
from australis.reference import ReferenceEngine
from australis.streams.schema import TIMESTAMP, TupleType

SOURCES = ("s1", "s2", "s3", "s4")


class Drawing:
    """A diagram of sources with one column, as one fragment."""

    def __init__(self) -> None:
        self.builder = DiagramBuilder("drawn")
        self._count = 0

    def source(self, name: str) -> Stream:
        return self.builder.source(name, push=True, schema="v int")

    def _next(self) -> str:
        self._count += 1
        return f"o{self._count}"

    def union(self, *streams: Stream) -> Stream:
        return self.builder.union(self._next(), *streams)

    def kept(self, stream: Stream) -> Stream:
        return self.builder.filter(self._next(), stream, "v > 0")

    def join(self, left: Stream, right: Stream) -> Stream:
        return self.builder.join(
            self._next(), left, right, within="1 s", on="left.v = right.v", select={"v": "left.v"}
        )

    def own(self, *streams: Stream, needs: Any = None) -> Stream:
        return self.builder.spark(self._next(), *streams, function="mine:work", needs=needs)

    def done(self, result: Stream) -> Diagram:
        self.builder.output(result)
        return self.builder.done()


def configs(diagram: Diagram) -> Iterator[OutputConfig]:
    """The outputs of all fragments, in order."""
    named = {o.stream: o for r in replicate(diagram, {}, default=1).replicas for o in r.outputs}
    for fragment in cut(diagram):
        yield from (named[plan.output] for plan in fragment.plans)


def says(diagram: Diagram, missing: Collection[str]) -> bool:
    """Whether the result is blocked while these sources are missing, across all fragments."""
    gone = set(missing)
    for output in configs(diagram):
        if output.blocked(gone & {*output.inputs}):
            gone.add(output.stream)
    (result,) = diagram.results
    return result in gone


def blocking(diagram: Diagram) -> set[frozenset[str]]:
    """The smallest sets of sources that block the result."""
    sources = [source.name for source in diagram.sources]
    found: set[frozenset[str]] = set()
    for size in range(1, len(sources) + 1):
        for those in map(frozenset, combinations(sources, size)):
            if not any(less <= those for less in found) and says(diagram, those):
                found.add(those)
    return found


def sets(*words: str) -> set[frozenset[str]]:
    return {frozenset(word.split()) for word in words}


# --- by example -------------------------------------------------------------------------------------


def nested(shape: str) -> Diagram:
    d = Drawing()
    s1, s2, s3, s4 = map(d.source, SOURCES)
    join, union, own = d.join, d.union, d.own
    made = {
        "join(union(1, 2), 3)": lambda: join(union(s1, s2), union(s3, s4)),
        "union(join(1, 2), 3)": lambda: union(join(s1, s2), s3, s4),
        "join of one union's parts": lambda: union(
            join(d.kept(union(s1, s2)), d.kept(union(s1, s2))), union(s3, s4)
        ),
        "own, as a join": lambda: own(s1, s2, union(s3, s4)),
        "own, as a union": lambda: own(s1, s2, s3, s4, needs="any"),
        "own, one needed": lambda: own(s1, s2, s3, s4, needs=s1),
        "own, two needed": lambda: own(s1, s2, s3, s4, needs=[s1, s2]),
    }
    return d.done(made[shape]())


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("join(union(1, 2), 3)", sets("s1 s2", "s3 s4")),
        ("union(join(1, 2), 3)", sets("s1 s3 s4", "s2 s3 s4")),
        ("join of one union's parts", sets("s1 s2 s3 s4")),
        ("own, as a join", sets("s1", "s2", "s3 s4")),
        ("own, as a union", sets("s1 s2 s3 s4")),
        ("own, one needed", sets("s1")),
        ("own, two needed", sets("s1", "s2")),
    ],
)
def test_nested_operators(shape: str, expected: set[frozenset[str]]) -> None:
    assert blocking(nested(shape)) - sets("s1 s2 s3 s4") == expected - sets("s1 s2 s3 s4")
    assert says(nested(shape), SOURCES)


def test_one_output_of_a_node_is_blocked_and_another_is_not() -> None:
    both, past = (o for o in configs(joined()) if o.stream in ("both", "past"))
    assert both.blocked({"s2"})
    assert not past.blocked({"s2"})


# --- what comes out -----------------------------------------------------------------------------------

BUCKET = 3


def rows(engine_schema: Any, buckets: Any) -> pa.RecordBatch:
    """One tuple that every filter and every join lets pass."""
    columns = [
        pa.array([int(TupleType.INSERTION)], pa.int8()),
        pa.array([pack_id(BUCKET, 0)]),
        pa.array([buckets.end(BUCKET) - 1], TIMESTAMP),
        pa.array([1], pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=engine_schema.arrow)


def comes_out(diagram: Diagram, missing: Collection[str]) -> bool:
    """Whether the result has any tuple if every source that is there has one."""
    schemas = {s.name: s.schema for s in diagram.sources}
    there = {
        s.name: [rows(s.schema, diagram.buckets)] if s.name not in missing else []
        for s in diagram.sources
    }
    for fragment in cut(diagram):
        for plan in fragment.plans:
            engine = ReferenceEngine(plan, schemas, diagram.buckets)
            schemas[plan.output] = engine.schema
            _, made = engine.step(engine.initial, [there[s] for s in plan.inputs], BUCKET)
            there[plan.output] = [batch for _, batch in made if batch.num_rows]
    (result,) = diagram.results
    return bool(there[result])


Tree = Any
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.sampled_from(SOURCES),
    lambda below: (
        st.tuples(st.sampled_from(("union", "join")), below, below)
        | st.tuples(st.just("kept"), below)
    ),
    max_leaves=6,
)


def drawn(tree: Tree) -> Diagram:
    d = Drawing()
    known: dict[str, Stream] = {}

    def stream(part: Tree) -> Stream:
        if isinstance(part, str):
            if part not in known:
                known[part] = d.source(part)
            return known[part]
        kind, *below = part
        made: Stream = getattr(d, kind)(*map(stream, below))
        return made

    return d.done(d.kept(stream(tree)))


@given(TREES, st.sets(st.sampled_from(SOURCES)))
def test_blocked_is_what_has_no_tuples(tree: Tree, missing: set[str]) -> None:
    diagram = drawn(tree)
    missing &= {source.name for source in diagram.sources}
    assert says(diagram, missing) == (not comes_out(diagram, missing))
