"""Where a diagram is cut, by wish and by need, and what each plan reads and computes."""

from __future__ import annotations

from diagram.random_diagrams import diagrams
from hypothesis import HealthCheck, given, settings

from australis.diagram.diagram_file import load
from australis.diagram.fragments import Fragment, Plan, cut, logged_streams
from australis.diagram.model import Diagram, Operator

HEAD = """\
diagram: d
sources:
  s: {push: true, schema: a int}
  t: {push: true, schema: a int}
operators:
"""
TIMED = "{{aggregate: {}, window: 1 s, compute: {{a: sum(a)}}}}"
COUNTED = "{{aggregate: {}, window: 5 tuples, compute: {{a: sum(a)}}}}"
JOINED = "{{join: [{}, t], within: 1 s, on: left.a = right.a, select: {{a: left.a}}}}"
OWN = "{{spark: {}, function: 'm:f'}}"
KEPT = "{{filter: {}, where: a > 1}}"


def diagram(operators: dict[str, str], rest: str = "") -> Diagram:
    lines = "".join(f"  {name}: {text}\n" for name, text in operators.items())
    return load(HEAD + lines + rest, "d.yaml")


def chain(*texts: str) -> Diagram:
    """Operators x0, x1, ... each of which reads the one before."""
    streams = ["s", *(f"x{i}" for i in range(len(texts)))]
    return diagram({f"x{i}": text.format(streams[i]) for i, text in enumerate(texts)})


def plans(diagram: Diagram) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Each plan's output with its inputs and operators."""
    return {
        plan.output: (plan.inputs, tuple(o.name for o in plan.operators))
        for fragment in cut(diagram)
        for plan in fragment.plans
    }


def fragments(diagram: Diagram) -> dict[str, tuple[str, ...]]:
    return {fragment.name: fragment.operators for fragment in cut(diagram)}


def only_plan(diagram: Diagram) -> Plan:
    ((plan,),) = [fragment.plans for fragment in cut(diagram)]
    return plan


# --- cuts by wish ------------------------------------------------------------

FAN_OUT = {
    "all": "{union: [s, t]}",
    "left": KEPT.format("all"),
    "right": TIMED.format("all"),
    "both": "{join: [left, right], within: 1 s, on: left.a = right.a, select: {a: left.a}}",
}


def test_uncut_it_is_one_query() -> None:
    assert plans(diagram(FAN_OUT)) == {"both": (("s", "t"), ("all", "left", "right", "both"))}
    assert fragments(diagram(FAN_OUT)) == {"both": ("all", "left", "right", "both")}


def test_cut_at_every_fan_out() -> None:
    made = diagram(FAN_OUT, "fragments: fan-out")
    assert plans(made) == {
        "all": (("s", "t"), ("all",)),
        "both": (("all",), ("left", "right", "both")),
    }
    assert fragments(made) == {"all": ("all",), "both": ("left", "right", "both")}


def test_a_source_that_many_read_is_no_further_cut() -> None:
    made = diagram({"x": "{union: [s, t]}", "y": "{bsort: s}"}, "fragments: fan-out")
    assert plans(made) == {"x": (("s", "t"), ("x",)), "y": (("s",), ("y",))}


def test_cut_by_hand() -> None:
    made = diagram(FAN_OUT, "fragments: {up: [all, right], down: [left, both]}")
    assert plans(made) == {
        "all": (("s", "t"), ("all",)),
        "right": (("all",), ("right",)),
        "both": (("all", "right"), ("left", "both")),
    }
    assert fragments(made) == {"up": ("all", "right"), "down": ("left", "both")}


def test_fragments_by_hand_come_upstream_first_whatever_begins() -> None:
    operators = {"x": KEPT.format("s"), "y": KEPT.format("s"), "z": KEPT.format("y")}
    made = diagram(operators, "fragments: {first: [x, z], second: [y]}")
    assert [fragment.name for fragment in cut(made)] == ["second", "first"]


def test_fragments_by_hand_may_feed_each_other() -> None:
    made = diagram(
        {"x": KEPT.format("s"), "y": KEPT.format("x"), "z": KEPT.format("y")},
        "fragments: {outer: [x, z], inner: [y]}",
    )
    assert plans(made) == {"x": (("s",), ("x",)), "y": (("x",), ("y",)), "z": (("y",), ("z",))}
    assert {f.name for f in cut(made)} == {"outer", "inner"}


def test_a_fragment_upstream_of_fragments_that_feed_each_other_is_first() -> None:
    made = diagram(
        {
            "x": KEPT.format("s"),
            "y": KEPT.format("x"),
            "c": KEPT.format("t"),
            "z": "{union: [y, c]}",
            "w": KEPT.format("z"),
        },
        "fragments: {a: [x, z], b: [y, w], c: [c]}",
    )
    assert [fragment.name for fragment in cut(made)] == ["c", "a", "b"]


def test_branches_are_streams_of_their_own() -> None:
    made = diagram(
        {
            "p": "{filter: s, where: {low: a < 3}, rest: high}",
            "low": "{bsort: p.low}",
            "high": "{bsort: p.high}",
        }
    )
    assert plans(made) == {"low": (("s",), ("p", "low")), "high": (("s",), ("p", "high"))}
    assert fragments(made) == {"high": ("p", "low", "high")}


# --- results -----------------------------------------------------------------


def test_a_result_that_is_read_inside_is_read_from_its_log() -> None:
    operators = {"x": KEPT.format("s"), "y": KEPT.format("x"), "z": KEPT.format("y")}
    made = diagram(operators, "outputs: [x, z]")
    assert plans(made) == {"x": (("s",), ("x",)), "z": (("x",), ("y", "z"))}


def test_a_sink_makes_a_result() -> None:
    operators = {"x": KEPT.format("s"), "y": KEPT.format("x")}
    made = diagram(operators, "outputs: [y]\nsinks: {out: {from: x, console: true}}")
    assert plans(made) == {"x": (("s",), ("x",)), "y": (("x",), ("y",))}


def test_what_no_result_needs_is_not_computed() -> None:
    made = diagram({"x": KEPT.format("s"), "y": KEPT.format("s")}, "outputs: [x]")
    assert plans(made) == {"x": (("s",), ("x",))}


def test_a_source_may_be_a_result() -> None:
    made = diagram({"x": KEPT.format("s")}, "outputs: [s, x]")
    assert plans(made) == {"x": (("s",), ("x",))}


# --- cuts by need ------------------------------------------------------------


def test_an_aggregate_behind_a_join() -> None:
    assert plans(chain(JOINED, TIMED)) == {
        "x0": (("s", "t"), ("x0",)),
        "x1": (("x0",), ("x1",)),
    }


def test_the_cut_is_where_the_stateful_operator_reads() -> None:
    assert plans(chain(JOINED, KEPT, TIMED)) == {
        "x1": (("s", "t"), ("x0", "x1")),
        "x2": (("x1",), ("x2",)),
    }


def test_an_aggregate_behind_a_union_of_raw_and_windowed_tuples() -> None:
    made = diagram({"x": TIMED.format("s"), "u": "{union: [x, t]}", "y": TIMED.format("u")})
    assert plans(made) == {"u": (("s", "t"), ("x", "u")), "y": (("u",), ("y",))}


def test_an_aggregate_behind_a_union_of_raw_tuples_is_not_cut() -> None:
    made = diagram({"u": "{union: [s, t]}", "y": TIMED.format("u")})
    assert plans(made) == {"y": (("s", "t"), ("u", "y"))}


def test_aggregates_and_joins_behind_an_aggregate_are_not_cut() -> None:
    assert set(plans(chain(TIMED, KEPT, TIMED))) == {"x2"}
    made = diagram(
        {
            "x": TIMED.format("s"),
            "y": TIMED.format("t"),
            "j": JOINED.format("x").replace("t]", "y]"),
        }
    )
    assert plans(made) == {"j": (("s", "t"), ("x", "y", "j"))}


def test_two_count_windows() -> None:
    assert plans(chain(COUNTED, KEPT, COUNTED)) == {
        "x1": (("s",), ("x0", "x1")),
        "x2": (("x1",), ("x2",)),
    }


def test_two_count_windows_that_meet() -> None:
    made = diagram({"x": COUNTED.format("s"), "y": COUNTED.format("t"), "u": "{union: [x, y]}"})
    assert plans(made) == {
        "x": (("s",), ("x",)),
        "y": (("t",), ("y",)),
        "u": (("x", "y"), ("u",)),
    }


def test_stateful_operators_behind_a_count_window() -> None:
    for text in (TIMED, JOINED, OWN):
        assert set(plans(chain(COUNTED, text))) == {"x0", "x1"}


def test_a_spark_function_reads_only_logs() -> None:
    for text in (TIMED, COUNTED, JOINED, OWN):
        assert set(plans(chain(text, OWN))) == {"x0", "x1"}
    assert set(plans(chain(KEPT, OWN, KEPT))) == {"x2"}


def test_a_count_window_reads_only_logs() -> None:
    assert set(plans(chain(TIMED, COUNTED))) == {"x0", "x1"}
    assert set(plans(chain(KEPT, COUNTED))) == {"x1"}


def test_a_cut_that_is_there_already_is_enough() -> None:
    operators = {"x": JOINED.format("s"), "y": KEPT.format("x"), "z": TIMED.format("y")}
    assert set(plans(diagram(operators, "outputs: [y, z]"))) == {"y", "z"}
    assert set(plans(diagram(operators, "outputs: [x, z]"))) == {"x", "z"}


# --- what a plan says of itself ----------------------------------------------


def test_what_comes_out_with_the_watermark() -> None:
    assert only_plan(chain(TIMED)).may_emit_on_watermark
    assert only_plan(chain(TIMED, KEPT)).may_emit_on_watermark
    assert only_plan(chain(OWN)).may_emit_on_watermark
    assert not only_plan(chain(KEPT)).may_emit_on_watermark
    assert not only_plan(chain(JOINED)).may_emit_on_watermark
    assert not only_plan(chain(COUNTED)).may_emit_on_watermark


def test_what_goes_by_the_order_of_tuples() -> None:
    first = TIMED.replace("sum(a)", "first(a)")
    last = TIMED.replace("sum(a)", "last_value(a)")
    assert only_plan(chain(COUNTED)).reads_ids
    assert only_plan(chain(first)).reads_ids
    assert only_plan(chain(KEPT, last)).reads_ids
    assert not only_plan(chain(TIMED)).reads_ids
    assert not only_plan(chain(JOINED)).reads_ids
    assert not only_plan(chain(OWN)).reads_ids


# --- whatever the diagram ----------------------------------------------------

MANY = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def upstream_of(diagram: Diagram, stream: str) -> set[str]:
    """The names of the operators that a stream comes from."""
    producer = diagram.producers[stream]
    if not isinstance(producer, Operator):
        return set()
    return {producer.name}.union(*(upstream_of(diagram, s) for s in producer.inputs))


@MANY
@given(diagrams())
def test_every_diagram_is_cut_into_plans_that_can_run(diagram: Diagram) -> None:
    found = cut(diagram)
    all_plans = [plan for fragment in found for plan in fragment.plans]
    logged, sources = logged_streams(diagram), {s.name for s in diagram.sources}
    outputs = [plan.output for plan in all_plans]
    assert len(outputs) == len(set(outputs))
    assert set(outputs) == logged - sources
    assert set(diagram.results) <= logged
    for plan in all_plans:
        assert plan.output not in plan.inputs
        assert set(plan.inputs) <= logged
        computed = {stream for o in plan.operators for stream in o.outputs}
        read = {stream for o in plan.operators for stream in o.inputs}
        assert plan.output in computed
        assert read <= computed | set(plan.inputs)
        # What is logged is read from its log, and never waits on what the plan computes.
        assert read & logged == set(plan.inputs)
        own = diagram.producers[plan.output].name
        assert all(
            own not in upstream_of(diagram, s) or s.startswith(f"{own}.") for s in plan.inputs
        )


@MANY
@given(diagrams())
def test_plans_and_fragments_come_upstream_first(diagram: Diagram) -> None:
    found = cut(diagram)
    for fragment in found:
        within = [plan.output for plan in fragment.plans]
        for at, plan in enumerate(fragment.plans):
            assert not set(plan.inputs) & set(within[at:])
    for at, fragment in enumerate(found):
        for later in found[at + 1 :]:
            feeds = _feeds(found, later, fragment)
            assert not feeds or _feeds(found, fragment, later), (later.name, fragment.name)


def _feeds(found: tuple[Fragment, ...], a: Fragment, b: Fragment) -> bool:
    """Whether something of `a` reaches `b`, perhaps through others."""
    reached, open_ones = {a.name}, [a]
    while open_ones:
        outputs = {plan.output for plan in open_ones.pop().plans}
        for other in found:
            reads = any(outputs & set(plan.inputs) for plan in other.plans)
            if reads and other.name not in reached:
                reached.add(other.name)
                open_ones.append(other)
    return b.name in reached


@MANY
@given(diagrams())
def test_every_operator_has_one_home(diagram: Diagram) -> None:
    homes = [name for fragment in cut(diagram) for name in fragment.operators]
    assert len(homes) == len(set(homes))
    needed = {name for stream in logged_streams(diagram) for name in upstream_of(diagram, stream)}
    assert needed <= set(homes)
    for fragment in cut(diagram):
        for plan in fragment.plans:
            assert diagram.producers[plan.output].name in fragment.operators
