"""A new kind of operator is one class and an entry in an engine: everything else follows."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from reference.runs import results

import australis as au
from australis.diagram.diagram_file import dump, load
from australis.diagram.draw import draw_text
from australis.diagram.fragments import cut
from australis.diagram.model import Diagram
from australis.diagram.operators import OPERATORS, Operator, operator
from australis.diagram.python import to_python
from australis.diagram.settings import COLUMNS, CONDITION, INTEGER, Pairs, Wrong, setting
from australis.kernel.errors import UserError
from australis.protocols.dpc.topology import span_buckets
from australis.reference.operators import _MAKERS, Node, Rows, runs
from australis.streams.schema import Schema


@pytest.fixture(autouse=True)
def every() -> Iterator[type[Operator]]:
    """An operator that keeps each third tuple, say, as long as this test runs."""

    @operator
    class Every(Operator):
        """Keeps each `nth` tuple."""

        kind: ClassVar[str] = "every"
        stateful: ClassVar[bool] = True
        nth: int = setting(INTEGER)
        where: str = setting(CONDITION, default="true")
        mark: Pairs = setting(COLUMNS, default=())

        @property
        def counts_tuples(self) -> bool:
            return True

        def verify(self, wrong: Wrong) -> None:
            if self.nth < 1:
                raise wrong("nth", "keeps each first tuple at least")

    @runs(Every)
    def node(o: Every, inputs: Sequence[Schema]) -> Node:
        def step(inputs: Sequence[Rows], seen: int, _before: int, _now: int) -> Any:
            rows = [row for at, row in enumerate(inputs[0], seen + 1) if at % o.nth == 0]
            return [rows], seen + len(inputs[0])

        return Node(step, tuple(inputs), 0)

    yield Every
    del OPERATORS["every"], _MAKERS[Every]


HEAD = """\
diagram: d
sources:
  s: {push: true, schema: 't timestamp, a int', time: t}
operators:
"""
TEXT = HEAD + "  some: {every: s, nth: 3}\n"


def made(**settings: Any) -> Diagram:
    d = au.diagram("d")
    s = d.source("s", push=True, schema="t timestamp, a int", time="t")
    d.every("some", s, **settings)  # type: ignore[attr-defined]
    return d.done()


def test_it_is_read_and_written(every: type[Operator]) -> None:
    diagram = load(TEXT, "d.yaml")
    assert diagram.operators == (every(name="some", inputs=("s",), nth=3),)
    assert "  some:\n    every: s\n    nth: 3\n" in dump(diagram)
    assert load(dump(diagram), "d.yaml") == diagram
    full = load(HEAD + "  some: {every: s, nth: 3, where: a > 1, mark: [a]}\n", "d.yaml")
    assert load(dump(full), "d.yaml") == full


def test_it_is_built_in_python() -> None:
    assert made(nth=3) == load(TEXT, "d.yaml")
    assert made(nth=3, mark="a").operators[0].settings()["mark"] == {"a": "a"}
    d = au.diagram("d")
    s = d.source("s", push=True, schema="t timestamp, a int", time="t")
    assert d.every("some", s, 3).name == "some"  # type: ignore[attr-defined]
    assert d.done() == made(nth=3)


def test_it_is_converted() -> None:
    source = to_python(load(TEXT, "d.yaml"))
    assert "some = d.every('some', s, nth=3)\n" in source
    names: dict[str, Any] = {}
    exec(source, names)
    assert names["diagram"] == load(TEXT, "d.yaml")


def test_it_is_described() -> None:
    drawn = draw_text(load(TEXT, "d.yaml"))
    assert "every" in drawn
    assert "nth 3" in drawn
    assert made(nth=3, mark={"a": "a + 1"}).operators[0].details() == ["nth 3, mark a = a + 1"]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ("every: s", "'some' needs 'nth'"),
        ("every: s, nth: three", "'some' has a setting 'nth' that should be a whole number"),
        ("every: s, nth: 0", "'some' keeps each first tuple at least"),
        ("every: s, nthh: 3", "(known: every, nth, where, mark; did you mean 'nth'?)"),
        ("evry: s, nth: 3", "did you mean 'every'?"),
        ("every: t, nth: 3", "'some' reads the unknown stream 't'"),
        ("every: s, nth: 3, where: rand() > a", "'some' uses rand: it is random"),
    ],
)
def test_it_is_checked(settings: str, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        load(f"{HEAD}  some: {{{settings}}}\n", "d.yaml")
    assert str(caught.value).startswith("d.yaml:5: ")
    assert sentence in str(caught.value)


@pytest.mark.parametrize("given", [(), (3, "true", (), 4), (3, {"nth": 3}), (3, {"every": "t"})])
def test_a_call_that_does_not_fit_is_told(given: tuple[Any, ...]) -> None:
    d = au.diagram("d")
    s = d.source("s", push=True, schema="a int")
    streams = (s,) if given else ()
    named = given[-1] if given and isinstance(given[-1], dict) else {}
    rest = tuple(g for g in given if g is not named)
    with pytest.raises(UserError, match=r"should be given as every\(name, stream, nth, where, "):
        d.every("some", *streams, *rest, **named)  # type: ignore[attr-defined]


def test_it_is_cut_as_it_says() -> None:
    d = au.diagram("d")
    s = d.source("s", push=True, schema="t timestamp, a int", time="t")
    both = d.union("both", d.map("copied", s, ["a"]), s)
    d.every("again", d.every("some", both, 3), 2)  # type: ignore[attr-defined]
    plans = {p.output: p for f in cut(d.done()) for p in f.plans}
    assert list(plans) == ["some", "again"], "one count in a query"
    assert plans["some"].reads_ids
    assert not plans["some"].may_emit_on_watermark
    assert span_buckets(plans["some"], 500_000) is None


def test_it_runs_on_the_reference_engine() -> None:
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    times = [start + datetime.timedelta(milliseconds=400 * i) for i in range(10)]
    table = pa.table(
        {
            "t": pa.array(times, pa.timestamp("us", "UTC")),
            "a": pa.array(range(10), pa.int32()),
        }
    )
    found = results(load(TEXT, "d.yaml"), {"s": table})
    assert found["some"].column("a").to_pylist() == [2, 5, 8]
