"""What was really up and when, from schedules made by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from protocols.dpc.hand import options
from protocols.dpc.story import chain, crash, cut, fault, isolate, joined

from australis.diagram.model import Diagram
from australis.kernel.durations import SECOND
from australis.protocols.dpc.topology import ClientConfig, replicate
from australis.sim.dpc.truth import Span, Truth, gaps, merge
from australis.sim.faults import Fault, Kind

END = 60 * SECOND
SPANS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 5)).map(lambda t: (t[0], t[0] + t[1]))
)


def covered(spans: list[Span]) -> set[int]:
    return {n for begin, end in spans for n in range(begin, end)}


@given(SPANS)
def test_merge_covers_the_same_in_order_and_apart(spans: list[Span]) -> None:
    merged = merge(spans)
    assert covered(merged) == covered(spans)
    ends = [moment for span in merged for moment in span]
    assert ends == sorted(set(ends))


@given(SPANS)
def test_gaps_are_what_spans_leave(spans: list[Span]) -> None:
    free = list(gaps(merge(spans), 20))
    assert covered(free) == set(range(20)) - covered(spans)
    assert merge(free) == free


def seconds(spans: list[Span]) -> list[tuple[float, float]]:
    return [(begin / SECOND, end / SECOND) for begin, end in spans]


def truth(*faults: Fault, diagram: Diagram | None = None, **changes: object) -> Truth:
    topology = replicate(diagram or chain(), {})
    return Truth(topology, faults, options(**changes), END)


def client(stream: str = "merged", diagram: Diagram | None = None) -> ClientConfig:
    clients = replicate(diagram or chain(), {}).clients
    return next(c for c in clients if c.stream == stream)


def outages(*faults: Fault) -> list[tuple[float, float]]:
    return seconds(truth(*faults).outages(client()))


# --- trees -----------------------------------------------------------------------------------


def test_without_faults_there_is_no_outage() -> None:
    assert outages() == []


def test_a_missing_source_is_an_outage() -> None:
    assert outages(isolate("s1", 10, 8)) == [(10, 18)]


def test_one_replica_less_is_none() -> None:
    assert outages(isolate("merge/1", 10, 8)) == []


def test_both_replicas_less_is_one_while_both_are_away() -> None:
    assert outages(isolate("merge/1", 10, 8), isolate("merge/2", 10, 5)) == [(10, 15)]


def test_whoever_followed_the_replica_that_failed_first_needs_time_to_switch() -> None:
    switch = truth().switch_us / SECOND
    assert outages(isolate("merge/1", 10, 8), isolate("merge/2", 11, 8)) == [(10, 18)]
    assert outages(isolate("merge/1", 10, 8), isolate("merge/2", 15, 8)) == [(15 - switch, 18)]
    assert outages(isolate("merge/1", 10, 2), isolate("s1", 12 + switch, 8)) == [
        (12 + switch, 20 + switch)
    ]


def test_a_replica_must_have_worked_long_enough_to_be_of_use() -> None:
    """Between the two faults of the source nothing stable could have come through."""
    short = truth(isolate("s1", 10, 4), isolate("s1", 15, 4))
    assert seconds(short.outages(client())) == [(10, 19)]
    assert short.switch_us > SECOND
    assert outages(isolate("s1", 10, 4), isolate("s1", 20, 4)) == [(10, 14), (20, 24)]


def test_a_crash_lasts_until_the_node_has_caught_up() -> None:
    ((begin, end),) = outages(crash("merge/1", 10, 6), isolate("merge/2", 10, 30))
    assert begin == 10
    assert end == 10 + 6 + 6 / 3 + 3


def test_a_cut_link_between_two_nodes_spoils_the_trees_that_need_it() -> None:
    assert outages(cut("s1", "merge/1", 10, 8)) == []
    assert outages(cut("s1", "merge/1", 10, 8), cut("merge/2", "client of merged", 12, 8)) == [
        (10, 18)
    ]


def test_a_cut_between_two_replicas_spoils_nothing() -> None:
    assert outages(cut("merge/1", "merge/2", 10, 8), isolate("merge/1", 30, 5)) == []


def test_different_replicas_at_different_levels_make_a_tree() -> None:
    deep = chain(2)
    crossed = truth(isolate("merge/1", 10, 8), isolate("step2/2", 10, 8), diagram=deep)
    assert crossed.outages(client("step2_out", deep)) == []


def test_a_node_without_its_disk_is_down_until_a_replica_can_help() -> None:
    wiped = fault(Kind.WIPE, 10, 2, "merge/1")
    alone = truth(wiped, isolate("merge/2", 5, 20))
    ((_, end),) = seconds(alone.outages(client()))
    assert end == 25, "then the other replica is back itself"
    helped = seconds(truth(wiped, isolate("merge/2", 20, 20)).outages(client()))
    assert helped == [], "it was helped before that"


def test_where_replicas_take_turns_a_slow_one_holds_up_the_others() -> None:
    slow = fault(Kind.SLOW, 10, 6, "merge/1")
    assert outages(slow) == []
    ((begin, end),) = seconds(truth(slow, staggered=True).outages(client()))
    assert (begin, end) == (10, 10 + 6 + 6 / 3 + 3)


# --- paths ----------------------------------------------------------------------------------------


def test_every_source_has_a_path_through_either_replica() -> None:
    good = truth().good_paths(client())
    assert good == {s: [(0, END)] for s in ("s1", "s2", "s3")}


def test_the_path_of_a_missing_source_is_interrupted_and_no_other() -> None:
    good = truth(isolate("s1", 10, 8)).good_paths(client())
    assert good["s2"] == [(0, END)]
    (before, after) = good["s1"]
    assert before == (0, 10 * SECOND)
    assert after[0] > 18 * SECOND, "its neighbours must find it again"


def test_paths_through_different_replicas_overlap() -> None:
    """A stretch counts only if one path worked throughout."""
    good = truth(isolate("merge/1", 10, 8), isolate("merge/2", 30, 8)).good_paths(client())
    through_2 = (0, 30 * SECOND)
    assert through_2 in good["s1"]
    assert any(begin > 18 * SECOND and end == END for begin, end in good["s1"])
    assert (0, END) not in good["s1"]


def test_a_path_through_a_join_needs_its_other_input_too() -> None:
    both, past = client("both", joined()), client("past", joined())
    assert truth(diagram=joined()).good_paths(both) == {"s1": [(0, END)], "s2": [(0, END)]}
    assert truth(diagram=joined()).good_paths(past) == {"s1": [(0, END)]}
    away = truth(isolate("s2", 10, 8), diagram=joined())
    assert (0, END) not in away.good_paths(both)["s1"], "s1 alone gives no matches"
    assert away.good_paths(past) == {"s1": [(0, END)]}


def test_where_replicas_take_turns_a_path_needs_the_other_replicas_too() -> None:
    away = isolate("merge/1", 10, 8)
    assert truth(away).good_paths(client())["s1"] == [(0, END)]
    assert truth(away, staggered=True).good_paths(client())["s1"] != [(0, END)]
