"""What each kind of operator says of itself, and that nothing else keeps a list of kinds."""

from __future__ import annotations

import ast
import inspect
from dataclasses import MISSING
from pathlib import Path

import pytest

from australis.diagram.aggregates import AggregateCall
from australis.diagram.build import DiagramBuilder
from australis.diagram.model import (
    Aggregate,
    BSort,
    CountWindow,
    Filter,
    Join,
    Map,
    Operator,
    Spark,
    Split,
    TimeWindow,
    Union,
)
from australis.diagram.operators import OPERATORS, EventTime
from australis.reference.operators import _MAKERS

SECOND = 1_000_000
LOGGED, WINDOW, COMPUTED = EventTime.LOGGED, EventTime.WINDOW, EventTime.COMPUTED


def windows(window: TimeWindow | CountWindow, function: str = "sum") -> Aggregate:
    call = AggregateCall(function, ("a",))
    return Aggregate(name="x", inputs=("s",), window=window, compute=(("n", call),))


FILTER = Filter(name="x", inputs=("s",), where=(("", "a > 1"),))
MAP = Map(name="x", inputs=("s",), select=(("a", "a + 1"),))
UNION = Union(name="x", inputs=("s", "t"))
BSORT = BSort(name="x", inputs=("s",))
SPLIT = Split(name="x", inputs=("s",), by=("a",), into=2)
TIMED = windows(TimeWindow(60 * SECOND, 10 * SECOND))
COUNTED = windows(CountWindow(5, 5))
FIRST = windows(TimeWindow(SECOND, SECOND), "first")
JOIN = Join(name="x", inputs=("s", "t"), within_us=3 * SECOND, on="left.a = right.a")
OWN = Spark(name="x", inputs=("s", "t"), function="m:f")
STATELESS = [FILTER, MAP, UNION, BSORT, SPLIT]
ALL: list[Operator] = [*STATELESS, TIMED, COUNTED, FIRST, JOIN, OWN]


def those(flag: str) -> list[Operator]:
    return [o for o in ALL if getattr(o, flag)]


def test_every_kind_is_tested_here() -> None:
    assert {type(o) for o in ALL} == set(OPERATORS.values())


def test_the_engines_have_an_entry_for_each() -> None:
    from australis.spark.compile import _COMPILERS

    assert set(_COMPILERS) == set(OPERATORS.values())
    assert set(_MAKERS) == set(OPERATORS.values()) - {Spark}


def test_what_they_say_of_themselves() -> None:
    assert those("stateful") == [TIMED, COUNTED, FIRST, JOIN, OWN]
    assert those("emits_on_watermark") == [TIMED, FIRST, OWN]
    assert those("counts_tuples") == [COUNTED]
    assert those("reads_ids") == [COUNTED, FIRST]
    blocking = {o.kind: o.blocking_inputs for o in those("blocking_inputs")}
    assert blocking == {"join": ("s", "t"), "spark": OWN.inputs}


def test_how_far_their_state_reaches() -> None:
    assert {o.reach_us for o in STATELESS} == {0}
    assert (TIMED.reach_us, JOIN.reach_us) == (60 * SECOND, 3 * SECOND)
    assert COUNTED.reach_us is OWN.reach_us is None


def test_the_event_times_they_accept() -> None:
    assert all(o.accepts == set(EventTime) for o in STATELESS)
    assert TIMED.accepts == JOIN.accepts == {LOGGED, WINDOW}
    assert COUNTED.accepts == OWN.accepts == {LOGGED}


@pytest.mark.parametrize("time", EventTime)
def test_the_event_time_they_produce(time: EventTime) -> None:
    assert {o.event_time([time]) for o in STATELESS} == {time}
    assert UNION.event_time([time, LOGGED]) == (LOGGED if time is LOGGED else COMPUTED)
    assert TIMED.event_time([time]) is WINDOW
    assert {o.event_time([time]) for o in (COUNTED, OWN)} == {COMPUTED}
    assert JOIN.event_time([LOGGED, time]) is COMPUTED


@pytest.mark.parametrize("kind", OPERATORS)
def test_a_method_that_is_written_out_takes_what_its_operator_takes(kind: str) -> None:
    cls, method = OPERATORS[kind], inspect.signature(vars(DiagramBuilder)[kind])
    parameters = list(method.parameters.values())[2:]
    streams = len(cls.takes.names) or 1
    if not cls.takes.names:
        assert parameters[0].kind is parameters[0].VAR_POSITIONAL
    taken = {key: one for one in cls.known_settings() for key in one.keys}
    assert [p.name for p in parameters[streams:]] == list(taken)
    needed = {one.key for one in cls.known_settings() if one.default is MISSING}
    assert {p.name for p in parameters[streams:] if p.default is p.empty} == needed


def test_only_the_engines_know_the_kinds_apart() -> None:
    """`Spark` is the exception: where the user's own code lies is for those who load it."""
    package = Path(__file__).parents[2] / "australis"
    kinds = {cls.__name__ for cls in OPERATORS.values()} - {"Spark"}
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        if inside.parts[0] in ("spark", "reference") or "operators" in inside.parts:
            continue
        if inside == Path("diagram/model.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "australis.diagram"
            ):
                named = {alias.name for alias in node.names} & kinds
                assert not named, f"{path} imports {named}"
