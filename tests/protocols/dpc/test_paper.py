"""What the thesis says DPC does, sentence by sentence; each name ends with its section.

Sentences about one node are checked on one machine, those about the system in small
simulated runs, in which every checker of the simulator watches too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from protocols.dpc.hand import (
    FAILURE,
    STABILIZATION,
    STABLE,
    UP_FAILURE,
    Node,
    of,
    options,
    sent,
    status,
    want,
)
from protocols.dpc.story import Play, chain, crash, cut, fault, isolate, joined, rows, scenario

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.errors import UserError
from australis.kernel.machine import Send
from australis.protocols.dpc.effects import (
    RestoredLog,
    RunStable,
    RunTentative,
    SendLog,
    SkipAhead,
    Started,
    Truncate,
)
from australis.protocols.dpc.messages import (
    Heartbeat,
    HeartbeatReply,
    ReconcileAnswer,
    ReconcileRequest,
    TentativeData,
)
from australis.protocols.dpc.options import LogBounds, Policy
from australis.protocols.dpc.states import Phase
from australis.sim.dpc.hosts import Costs
from australis.sim.dpc.run import Run
from australis.sim.faults import Kind

SLOW = Costs(batch_us=100_000)
"""So slow that corrections take about a second."""


def play(*faults: Any, **changes: Any) -> Play:
    return Play(scenario(*faults, **changes)).end()


def heard(number: int, **said: Any) -> Heartbeat:
    return Heartbeat(1, number, (want(**said),))


def failing(*producers: str, **changes: Any) -> Node:
    """A node that released bucket 1 tentatively because input y is missing."""
    node = Node(*(producers or ("x1", "y1")), **changes).stable(0)
    node.answer("y1", status("y", FAILURE))
    node.now = 2 * SECOND
    node.give("x1", 1, 0)
    node.now = 6 * SECOND
    node.timer("release out", 0)
    assert node.out.forked
    return node


# --- 4.1, 4.2: goals and overview --------------------------------------------------------------


def test_without_failures_all_results_are_stable_4_1_1() -> None:
    assert play().told() == [f"S{n}" for n in range(29)]


def test_new_results_arrive_within_x_though_a_source_is_missing_4_1_1() -> None:
    """Property 2: Delay_new < X while a path of non-blocking operators is available."""
    one = play(isolate("s1", 8.3, 12))
    assert one.run.delay.checked > 0
    assert one.run.delay.worst < 4 * SECOND + 200 * MILLISECOND


def test_all_replicas_produce_the_same_tuples_in_the_same_order_4_1_1() -> None:
    """Definition 7, eventual consistency."""
    logs = {}

    def look(run: Run) -> None:
        for name in ("merge/1", "merge/2"):
            log = run.replica(name).log("merged")
            last = log.read(log.trimmed_upto, log.end)[-8:]
            logs[name] = [(bucket.number, bucket.batch) for bucket in last]

    # Nobody acknowledges while the client is away, so that the logs are long.
    faults = [isolate("client of merged", 6, 23), isolate("s1", 8.3, 8), crash("merge/2", 10.3, 3)]
    Play(scenario(*faults)).at(28.5, look).end()
    assert logs["merge/1"] == logs["merge/2"]
    assert len(logs["merge/1"]) == 8


def test_a_node_goes_from_stable_to_up_failure_to_stabilization_to_stable_4_2() -> None:
    assert play(isolate("s1", 8.3, 8)).phases("merge/1")[1:] == [
        "stable -> up-failure",
        "up-failure -> stabilization",
        "stabilization -> stable",
    ]


def test_a_node_that_processed_nothing_tentative_has_nothing_to_reconcile_4_2() -> None:
    assert play(isolate("s1", 8.3, 2.5)).phases("merge/1")[1:] == [
        "stable -> up-failure",
        "up-failure -> stable",
    ]


# --- 4.4: the data model --------------------------------------------------------------------------


def test_an_undo_names_the_last_tuple_that_is_not_undone_4_4() -> None:
    told = play(isolate("s1", 8.3, 8)).told()
    undo = told.index("U7")
    assert told[undo - 9 : undo + 2] == ["S7", *(f"T{n}" for n in range(8, 16)), "U7", "S8"]


def test_an_application_may_simply_drop_tentative_and_undo_tuples_4_4() -> None:
    told = play(isolate("s1", 8.3, 8)).told()
    assert [w for w in told if w.startswith("S")] == play().told()


# --- 4.5: the stable state ------------------------------------------------------------------------


def test_a_bucket_is_stable_only_when_all_boundaries_have_passed_it_4_5_1() -> None:
    node = Node("x1", "y1", "z1").stable(0)
    assert of(RunStable, node.give("x1", 3, 0)) == []
    assert of(RunStable, node.give("y1", 2, 0)) == []
    assert of(RunStable, node.give("z1", 1, 0)) == [RunStable("out", 0, 1, 0)]
    assert of(RunStable, node.give("z1", 5, 1)) == [RunStable("out", 1, 2, 1)], "y's is the least"


def test_boundaries_ensure_progress_without_data_4_5_1() -> None:
    silent = replace(scenario(), rows=lambda source, number: None)
    assert Play(silent).end().told() == [f"S{n}" for n in range(29)]


def test_every_replica_of_every_upstream_neighbour_is_monitored_4_5_3() -> None:
    node = Node("x1", "x2", "y1", "y2")
    node.start()
    for _ in range(3):
        assert [to for to, _ in sent(Heartbeat, node.timer())] == ["x1", "x2", "y1", "y2"]


def test_a_heartbeat_response_says_the_states_of_the_output_streams_4_5_3() -> None:
    node = failing()
    ((_, reply),) = sent(HeartbeatReply, node.message("c", heard(1)))
    assert [(s.stream, s.state) for s in reply.streams] == [("out", UP_FAILURE)]


def test_more_than_p1_unanswered_requests_are_a_failure_4_5_3() -> None:
    node = Node("x1", "x2", "y1").stable(0)
    node.silence(0.75, x2=status("x"), y1=status("y"))
    assert node.machine.inputs["x"].choice.curr == "x1"
    node.silence(0.25, x2=status("x"), y1=status("y"))
    assert node.machine.inputs["x"].choice.curr == "x2"


# --- 4.6: upstream failure -------------------------------------------------------------------------


def test_a_switch_to_a_stable_replica_masks_the_failure_4_6_1() -> None:
    one = play(isolate("merge/1", 8.3, 8))
    assert one.reads() == ["reads merge/2"]
    assert one.told() == play().told()


def test_a_subscription_says_the_last_stable_tuple_and_whether_tentative_ones_followed_4_6_1() -> (
    None
):
    node = Node("x1", "x2", "y1").stable(3)
    node.answer("x2", status("x", UP_FAILURE, 3))
    node.answer("x1", status("x", UP_FAILURE, 3))
    node.hint("x1", 4)
    effects = node.answer("x2", status("x", STABLE, 3))
    *_, subscription = [h.wants[0] for to, h in sent(Heartbeat, effects) if to == "x2"]
    assert subscription.log
    assert (subscription.have, subscription.tentative) == (3, 4)


def test_the_new_neighbour_replays_what_is_missing_4_6_1() -> None:
    node = Node("x1", "y1").stable(5)
    assert of(SendLog, node.message("c", heard(1, have=2))) == [
        SendLog("c", "out", 2, 5, False, False)
    ]


def test_the_new_neighbour_corrects_what_was_tentative_4_6_1() -> None:
    node = Node("x1", "y1").stable(5)
    assert of(SendLog, node.message("c", heard(1, have=2, tentative=4))) == [
        SendLog("c", "out", 2, 5, undo=True, rec_done=True)
    ]


def test_stable_is_preferred_over_up_failure_and_that_over_all_others_4_6_1() -> None:
    node = Node("x1", "x2", "x3", "x4", "y1").stable(0)
    choice = node.machine.inputs["x"]
    for name, state in (("x1", FAILURE), ("x2", STABILIZATION), ("x3", UP_FAILURE)):
        node.answer(name, status("x", state))
    assert choice.choice.curr == "x4"
    node.answer("x4", status("x", FAILURE))
    assert choice.choice.curr == "x3"
    node.answer("x3", status("x", FAILURE))
    assert choice.choice.curr == "x2"


def test_a_bucket_that_is_not_stable_in_time_is_released_as_tentative_4_6_2() -> None:
    one = play(isolate("s1", 8.3, 8))
    # Bucket 8 was over and logged at 9 s; X is 4 s, less the allowance for the hop.
    assert one.when("T8") == pytest.approx(12.9, abs=0.1)


def test_a_failure_shorter_than_x_leaves_nothing_tentative_4_6_2() -> None:
    one = play(isolate("s1", 8.3, 3.3))
    assert not [w for w in one.told() if w.startswith("T")]


def test_suspending_never_shows_anything_tentative_however_long_it_takes_4_6_2() -> None:
    node = Node("x1", "y1", up_failure=Policy.SUSPEND).stable(0)
    node.answer("y1", status("y", FAILURE))
    node.give("x1", 9, 0)
    node.silence(20, x1=status("x", STABLE, 9))
    assert of(RunTentative, node.effects) == []
    node.answer("y1", status("y", STABLE, 9))
    assert of(RunStable, node.give("y1", 9, 0)) == [RunStable("out", 0, 9, 0)]


def test_delaying_produces_fewer_tentative_tuples_than_processing_4_6_2() -> None:
    said = {
        policy: len([w for w in play(isolate("s1", 8.3, 9), up_failure=policy).told() if "T" in w])
        for policy in (Policy.PROCESS, Policy.DELAY)
    }
    assert 0 < said[Policy.DELAY] < said[Policy.PROCESS]


def test_tentative_boundaries_let_a_consumer_go_on_without_waiting_4_6_2() -> None:
    """A bucket without tuples is sent too, and releases its consumer's bucket."""
    node = Node("x1", "y1").stable(0)
    node.answer("y1", status("y", UP_FAILURE))
    node.now = 2 * SECOND
    node.give("x1", 1, 0)
    node.now = 6 * SECOND
    node.timer("release out", 0)
    node.give("x1", 3, 1)
    assert [e.bucket for e in of(RunTentative, node.hint("y1", 3))] == [3]


def test_failures_must_be_noticed_well_before_the_delay_is_over_4_6_2() -> None:
    """P1 times P2 is much less than D."""
    with pytest.raises(UserError, match="too short for the heartbeats"):
        options(max_delay_us=SECOND)


# --- 4.7: stabilization -----------------------------------------------------------------------------


def test_a_node_waits_for_all_failed_inputs_before_it_stabilizes_4_7() -> None:
    node = Node("x1", "y1", "z1").stable(0)
    for name in ("y1", "z1"):
        node.answer(name, status(name[0], FAILURE))
    node.now = 2 * SECOND
    node.give("x1", 1, 0)
    node.now = 6 * SECOND
    node.timer("release out", 0)
    node.answer("y1", status("y", STABLE, 1))
    node.give("y1", 1, 0)
    assert node.out.phase is Phase.UP_FAILURE
    node.answer("z1", status("z", STABLE, 1))
    node.slow = True
    node.give("z1", 1, 0)
    assert node.out.phase is Phase.STABILIZATION


def test_the_state_from_before_the_failure_is_taken_up_again_4_7_1() -> None:
    """All inputs since then are processed, whatever the tentative lane did with them."""
    node = failing()
    for number in (2, 3):
        node.give("x1", number, number - 1)
    assert [e.bucket for e in of(RunTentative, node.effects)] == [1, 2, 3]
    node.answer("y1", status("y", STABLE, 3))
    assert of(RunStable, node.give("y1", 3, 0)) == [RunStable("out", 0, 3, 0)]


def test_inputs_are_kept_from_the_last_stable_bucket_on_4_7_1() -> None:
    node = failing()
    node.give("x1", 7, 1)
    assert sorted(node.machine.inputs["x"].stable) == list(range(1, 8))
    node.answer("y1", status("y", STABLE, 7))
    node.give("y1", 7, 0)
    assert len(node.machine.inputs["x"].stable) == 0


def test_an_output_is_stabilized_by_one_undo_then_corrections_then_rec_done_4_7_2() -> None:
    told = play(isolate("s1", 8.3, 8)).told()
    corrections = told[told.index("U7") : told.index("REC_DONE") + 1]
    assert corrections == ["U7", *(f"S{n}" for n in range(8, 16)), "REC_DONE"]
    assert told.count("U7") == told.count("REC_DONE") == 1


def test_every_downstream_neighbour_is_undone_to_its_own_last_stable_tuple_4_7_2() -> None:
    node = failing(consumers=("c", "d"))
    node.message("c", heard(1, have=0, overlay=True))
    node.message("d", heard(1, have=-1, tentative=1, overlay=True, log=False))
    node.answer("y1", status("y", STABLE, 1))
    effects = node.give("y1", 1, 0)
    effects += node.message("d", heard(2, have=-1, tentative=1))
    undone = {(e.to, e.after) for e in of(SendLog, effects) if e.undo}
    assert undone == {("c", 0), ("d", -1)}


def test_after_a_restart_duplicates_are_dropped_4_7_2() -> None:
    node = Node("x1", "y1")
    node.start(upto=1, end=3)
    node.all_answer(STABLE, 5)
    node.give("x1", 5, 1)
    assert of(RunStable, node.give("y1", 5, 1)) == [RunStable("out", 1, 5, keep_after=3)]


def test_after_a_restart_a_batch_that_was_begun_is_done_as_it_was_planned_4_8() -> None:
    node = Node("x1", "y1")
    node.event(Started(1, (RestoredLog("out", 1, -1, 1, begun=4),)))
    node.all_answer(STABLE, 9)
    node.give("x1", 3, 1)
    assert of(RunStable, node.give("y1", 9, 1)) == [], "not before all of it is here"
    done = of(RunStable, node.give("x1", 9, 3))
    assert [(e.after, e.upto) for e in done] == [(1, 4), (4, 9)]


def test_a_node_asks_a_replica_before_it_reconciles_4_7_3() -> None:
    node = failing(peers=("n2",), staggered=True)
    node.answer("y1", status("y", STABLE, 1))
    effects = node.give("y1", 1, 0)
    ((to, request),) = sent(ReconcileRequest, effects)
    assert to == "n2"
    assert of(RunStable, effects) == []
    assert node.out.phase is Phase.UP_FAILURE
    node.slow = True
    effects = node.message("n2", ReconcileAnswer(request.number, True))
    assert node.out.phase is Phase.STABILIZATION
    assert len(of(RunStable, effects)) == 1


def test_a_node_that_is_refused_stays_available_4_7_3() -> None:
    node = failing(peers=("n2",), staggered=True)
    node.answer("y1", status("y", STABLE, 1))
    ((_, request),) = sent(ReconcileRequest, node.give("y1", 1, 0))
    node.message("n2", ReconcileAnswer(request.number, False))
    assert node.out.phase is Phase.UP_FAILURE
    node.give("x1", 3, 1)
    assert [e.bucket for e in of(RunTentative, node.give("y1", 3, 1))] == [3]
    again = sent(ReconcileRequest, node.silence(1, x1=status("x", STABLE, 2)))
    assert again, "it asks again after a while"


def test_a_node_that_stabilizes_is_available_until_its_consumers_have_left_4_7_3() -> None:
    def tells(node: Node, number: int, *, overlay: bool) -> list[int]:
        node.message("c", Heartbeat(1, number, (want(overlay=overlay, have=0),)))
        effects = [e for n in ("x1", "y1") for e in node.give(n, number + 1, number)]
        return [e.bucket for e in of(RunTentative, effects)]

    node = failing(peers=("n2",), staggered=True)
    node.give("x1", 4, 1)
    node.slow = True
    node.answer("y1", status("y", STABLE, 4))
    node.message("c", Heartbeat(1, 0, (want(overlay=True, have=0),)))
    ((_, request),) = sent(ReconcileRequest, node.give("y1", 4, 0))
    node.message("n2", ReconcileAnswer(request.number, True))
    assert node.out.phase is Phase.STABILIZATION
    assert tells(node, 4, overlay=True) == [5]
    assert tells(node, 5, overlay=False) == []
    assert not node.out.status().overlay, "so that a consumer without another one can tell"
    assert tells(node, 6, overlay=True) == [6, 7], "one has come back"


def test_a_request_is_accepted_unless_one_reconciles_or_goes_first_4_7_3() -> None:
    def answer(node: Node, peer: str) -> bool:
        ((_, said),) = sent(ReconcileAnswer, node.message(peer, ReconcileRequest(1)))
        return bool(said.granted)

    idle = Node("x1", "y1", peers=("n0", "n2"), staggered=True).stable(0)
    assert answer(idle, "n2")

    def needy() -> Node:
        node = failing(peers=("n0", "n2"), staggered=True)
        node.answer("y1", status("y", STABLE, 1))
        node.give("y1", 1, 0)
        return node

    assert answer(needy(), "n0"), "n0 has the lower name"
    assert not answer(needy(), "n2"), "n1 has the lower name"


def test_replicas_stabilize_one_after_the_other_4_7_3() -> None:
    one = play(isolate("s1", 6.3, 9), staggered=True)
    lines = [line for line in one.lines if "stabilization" in line.text]
    assert [(line.who, line.text.split(":")[0]) for line in lines] == [
        ("merge/1", "up-failure -> stabilization"),
        ("merge/1", "stabilization -> stable"),
        ("merge/2", "up-failure -> stabilization"),
        ("merge/2", "stabilization -> stable"),
    ]


def test_background_corrections_come_from_a_second_replica_4_7_4() -> None:
    node = Node("x1", "x2", "y1").stable(3)
    node.answer("x2", status("x", UP_FAILURE, 3))
    node.answer("x1", status("x", UP_FAILURE, 3))
    effects = node.answer("x2", status("x", STABILIZATION, 3))
    wants = {to: h.wants[0] for to, h in sent(Heartbeat, effects)}
    assert (wants["x1"].log, wants["x1"].overlay) == (False, True), "Curr"
    assert wants["x2"].log, "Bck"


def test_tentative_and_stable_tuples_arrive_in_parallel_4_7_4() -> None:
    node = failing()
    node.hint("x1", 3)
    node.answer("y1", status("y", UP_FAILURE, 0))
    node.hint("y1", 2)
    node.give("y1", 1, 0)
    y = node.machine.inputs["y"]
    assert (y.have, sorted(y.overlay)) == (1, [2])


def test_after_p3_in_failure_a_stable_neighbour_counts_as_stabilizing_4_7_4() -> None:
    node = Node("x1", "y1", long_failure_us=5 * SECOND).stable(0)
    node.answer("y1", status("y", FAILURE))
    node.silence(6, x1=status("x", STABLE, 0))
    node.answer("y1", status("y", STABLE, 20))
    y = node.machine.inputs["y"]
    assert y.states()["y1"] is STABILIZATION
    node.give("y1", 20, 0, rec_done=True)
    assert y.states()["y1"] is STABLE, "REC_DONE ends that"


def test_the_most_recent_tuples_come_while_a_long_failure_is_replayed_4_7_4() -> None:
    """The head of the log is read as tentative, so that new tuples need not wait."""
    slow = {"send_window": 1, "batch_buckets": 1}
    one = play(isolate("s1", 6.3, 14), safety_s=40, **slow)
    after = [w for now, _, w in one.watch.told if now > 20.3 * SECOND]
    assert any(type(w).__name__ == "Tentatives" for w in after)


# --- 4.8: recovery of a failed node ---------------------------------------------------------------


def test_a_recovering_node_does_not_count_as_available_4_8() -> None:
    node = Node("x1", "y1")
    node.start(upto=3, end=3)
    node.all_answer(STABLE, 40)
    ((_, reply),) = sent(HeartbeatReply, node.message("c", heard(1, have=3)))
    assert reply.streams[0].state is FAILURE
    assert not reply.streams[0].overlay
    node.all_give(39, after=3)
    assert node.out.state is STABLE


def test_a_crashed_node_is_masked_and_comes_back_4_8() -> None:
    one = play(crash("merge/1", 8.3, 5))
    assert one.told() == play().told()
    assert one.phases("merge/1")[1:] == ["down", "recovering -> stable"]


def test_a_node_that_lost_everything_gets_a_copy_of_the_state_from_a_replica_4_8() -> None:
    def look(run: Run) -> None:
        logs = [run.replica(name).log("merged") for name in ("merge/1", "merge/2")]
        assert logs[0].trimmed_upto >= 0, "it did not begin at the beginning"
        assert logs[0].end == logs[1].end

    one = Play(scenario(fault(Kind.WIPE, 12.3, 2, "merge/1"))).at(29.5, look).end()
    assert one.told() == play().told()


# --- 4.9: buffers -----------------------------------------------------------------------------------


def test_output_is_kept_until_all_replicas_of_all_neighbours_have_it_4_9_1() -> None:
    def look(run: Run) -> None:
        for name in ("merge/1", "merge/2"):
            assert run.replica(name).log("merged").trimmed_upto <= 8, (
                f"{name} forgot what step2/2 needs"
            )

    away = isolate("step2/2", 8.3, 12)
    one = Play(scenario(away, diagram=chain(2))).at(19.0, look).end()
    assert one.told() == play(diagram=chain(2)).told()


def test_inputs_are_buffered_for_reprocessing_4_9_1() -> None:
    node = failing()
    node.give("x1", 5, 1)
    assert len(node.machine.inputs["x"].stable) == 5


def test_tentative_tuples_are_never_buffered_for_long_4_9_2() -> None:
    node = failing(input_window=16, batch_buckets=16)
    for number in range(2, 60):
        node.hint("x1", number)
        node.hint("y1", number)
    assert len(node.out.overlay.buckets) <= 16
    assert node.out.end == 0, "the log holds stable tuples only"


def test_buffers_are_truncated_when_all_have_acknowledged_4_9_3() -> None:
    node = Node("x1", "y1", consumers=("c", "d", "e")).stable(9)
    node.message("c", heard(1, acknowledged=9))
    node.message("d", heard(1, acknowledged=4))
    assert of(Truncate, node.effects) == []
    assert of(Truncate, node.message("e", heard(1, acknowledged=6))) == [Truncate("out", 4)]


def test_acknowledgements_go_to_all_replicas_of_a_neighbour_4_9_3() -> None:
    node = Node("x1", "x2", "y1").stable(3)
    said = {to: h.wants[0].acknowledged for to, h in sent(Heartbeat, node.timer())}
    assert said == {"x1": 3, "x2": 3, "y1": 3}


def test_without_failures_buffers_stay_short_4_9_3() -> None:
    lengths = []

    def look(run: Run) -> None:
        lengths.extend(len(run.replica(name).log("merged")) for name in ("merge/1", "merge/2"))
        lengths.extend(len(run.source(name).log(name)) for name in ("s1", "s2", "s3"))

    Play(scenario()).at(25.5, look).end()
    assert max(lengths) <= 2


def test_a_full_buffer_blocks_all_the_way_up_to_the_sources_4_9_4() -> None:
    lengths = []

    def look(run: Run) -> None:
        lengths.append(len(run.replica("merge/1").log("merged")))
        lengths.append(len(run.source("s1").log("s1")))

    away = isolate("client of merged", 5.3, 30)
    one = (
        Play(scenario(away, safety_s=40, log=LogBounds(max_buckets=6), batch_buckets=1))
        .at(34.0, look)
        .end()
    )
    assert max(lengths) <= 7
    stable = [w for w in one.told() if w.startswith("S")]
    assert stable == [f"S{n}" for n in range(len(stable))], "and nothing is lost"


def test_convergent_fragments_go_on_behind_what_bounded_buffers_have_dropped_4_9_4() -> None:
    """The lane begins anew with an empty state; its log begins where that is right again."""
    node = Node("x1", "y1", span=3, keep_log=20).stable(5)
    effects = node.answer("x1", status("x", STABLE, 60, trimmed_upto=40))
    effects += node.give("y1", 6, 5)
    assert of(SkipAhead, effects) == [SkipAhead("out", 40, 43)]
    assert node.out.state is FAILURE, "until it has caught up"
    node.give("x1", 60, 40)
    node.answer("y1", status("y", STABLE, 60))
    assert of(RunStable, node.give("y1", 60, 40))[0] == RunStable("out", 40, 56, keep_after=43)
    assert node.out.state is STABLE


def test_bounded_buffers_are_truncated_during_failures_too_4_9_4() -> None:
    node = Node("x1", "y1", consumers=("c", "d"), span=0, keep_log=4).stable(9)
    assert of(Truncate, node.message("c", heard(1, acknowledged=2))) == [Truncate("out", 5)]


# --- 4.10: clients and sources ------------------------------------------------------------------------


def test_after_rec_done_a_tentative_tuple_means_a_new_failure_4_10_1() -> None:
    one = play(isolate("s1", 6.3, 7), isolate("s2", 17.3, 7))
    told = one.told()
    first = told.index("REC_DONE")
    second = next(i for i in range(first, len(told)) if told[i].startswith("T"))
    assert one.watch.told[second][0] > 17.3 * SECOND
    assert all(w.startswith("S") for w in told[first + 1 : second])


def test_a_client_follows_all_replicas_and_switches_between_them_4_10_1() -> None:
    one = play(isolate("merge/1", 8.3, 4), isolate("merge/2", 16.3, 4))
    assert one.reads() == ["reads merge/2", "reads merge/1"]
    assert one.told() == play().told()


def test_a_source_sends_to_all_replicas_and_keeps_what_one_lacks_4_10_2() -> None:
    def look(run: Run) -> None:
        assert run.source("s1").log("s1").trimmed_upto <= 8

    one = Play(scenario(cut("s1", "merge/1", 8.3, 8))).at(15.5, look).end()
    assert one.told() == play().told()


def test_a_source_logs_before_it_sends_4_10_2() -> None:
    """What a source had shown before it crashed is the same afterwards."""
    one = play(crash("s1", 8.998, 1), crash("s1", 14.001, 1), crash("s2", 12.0015, 2))
    assert [w for w in one.told() if w.startswith("S")] == play().told()


def test_a_source_sets_boundaries_though_there_is_no_data_4_10_2() -> None:
    silent = replace(scenario(), rows=lambda s, n: None if s == "s2" else rows(s, n))
    assert Play(silent).end().told() == play().told()


# --- 4.11: properties -----------------------------------------------------------------------------------


def test_where_a_stable_tree_exists_the_client_gets_stable_tuples_4_11_1() -> None:
    """Property 1: one good replica at each level is enough, whichever it is."""
    faults = [isolate("merge/1", 8.3, 12), isolate("step2/2", 8.3, 12)]
    assert play(*faults, diagram=chain(2)).told() == play(diagram=chain(2)).told()


def test_where_only_a_tentative_tree_exists_the_client_gets_tentative_tuples_4_11_1() -> None:
    one = play(isolate("s1", 8.3, 12), isolate("step2/2", 8.3, 12), diagram=chain(2))
    assert [w for w in one.told() if w.startswith("T")] == [f"T{n}" for n in range(8, 20)]


def test_where_no_tree_exists_the_client_is_blocked_4_11_1() -> None:
    faults = [isolate(s, 8.3, 8) for s in ("s1", "s2", "s3")]
    one = play(*faults)
    assert one.told() == play().told()
    assert one.when("S8") > 16.3


def test_the_bound_holds_at_any_depth_4_11_1() -> None:
    one = play(isolate("s1", 8.3, 12), diagram=chain(4))
    assert one.run.delay.worst < 4 * SECOND + 300 * MILLISECOND


def test_switching_among_failing_replicas_sends_no_corrections_4_11_2() -> None:
    """Property 5, case 3: the most recent tentative data at once."""
    node = failing(consumers=("c",))
    for number in range(2, 6):
        node.give("x1", number, number - 1)
    effects = node.message("c", heard(1, log=False, overlay=True, have=-1, tentative=4))
    assert of(SendLog, effects) == []
    assert [m.bucket.number for _, m in sent(TentativeData, effects)] == [5]


def test_only_one_neighbour_sends_stable_tuples_4_11_2() -> None:
    node = Node("x1", "x2", "y1").stable(3)
    node.answer("x2", status("x", STABILIZATION, 3))
    node.answer("x1", status("x", UP_FAILURE, 3))
    asked = [to for to, h in sent(Heartbeat, node.timer()) if h.wants[0].stream == "x"]
    logs = [
        to for to, h in sent(Heartbeat, node.timer()) if h.wants[0].stream == "x" and h.wants[0].log
    ]
    assert asked == ["x1", "x2"]
    assert logs == ["x2"]


def during_recovery() -> Play:
    """s1 is away for long; s3 goes as the first corrections are made."""
    slow = {"batch_buckets": 1, "fields": {"costs": SLOW}}
    return play(isolate("s1", 6.3, 9), isolate("s3", 15.35, 7), safety_s=40, **slow)


def test_a_failure_during_recovery_forces_rec_done_4_11_2() -> None:
    """Property 6: between the last stable and the first new tentative tuple."""
    told = during_recovery().told()
    again = next(i for i in range(told.index("U5"), len(told)) if told[i].startswith("T"))
    before = told[:again]
    assert before[-1] == "REC_DONE"
    assert before[-2].startswith(("S", "U"))


def test_after_the_second_failure_only_its_own_tuples_are_corrected_4_11_2() -> None:
    told = during_recovery().told()
    stable = [w for w in told if w.startswith("S")]
    assert stable == [f"S{n}" for n in range(39)], "no stable tuple twice, none missing"
    undos = [w for w in told if w.startswith("U")]
    assert len(undos) > 1
    assert undos[0] == "U5"
    assert int(undos[-1][1:]) > 5
    assert told.count("REC_DONE") == len(undos)


def test_a_node_makes_progress_though_some_input_is_always_down_4_11_2() -> None:
    """Property 7: three sources fail in turn, and never are all of them there."""
    faults = [isolate(f"s{1 + i % 3}", 6.3 + 5 * i, 5.2) for i in range(5)]
    one = play(*faults, safety_s=40)
    during = [w for now, _, w in one.watch.told if 12 * SECOND < now < 31 * SECOND]
    assert len([w for w in during if type(w).__name__ == "Insertions"]) > 10


# --- 5.1: the prototype -----------------------------------------------------------------------------------


def test_each_new_neighbour_gets_what_its_subscription_lacks_5_1_2() -> None:
    """Figure 5-2: one has all, one misses stable tuples, one has tentative ones."""
    node = Node("x1", "y1", consumers=("c", "d", "e")).stable(5)
    assert of(SendLog, node.message("c", heard(1, have=5))) == []
    assert of(SendLog, node.message("d", heard(1, have=2))) == [
        SendLog("d", "out", 2, 5, False, False)
    ]
    assert of(SendLog, node.message("e", heard(1, have=2, tentative=9))) == [
        SendLog("e", "out", 2, 5, True, True)
    ]


def test_a_failing_node_sends_new_neighbours_the_most_recent_tentative_data_5_1_2() -> None:
    """Figure 5-3 (a)."""
    node = failing()
    effects = node.message("c", heard(1, have=0, overlay=True, log=False))
    assert of(SendLog, effects) == []
    assert [m.bucket.number for _, m in sent(TentativeData, effects)] == [1]


def test_without_tentative_tuples_duplicates_are_dropped_without_undo_5_1_3() -> None:
    """A replica that crashes before its checkpoint logs nothing twice; no consumer is undone."""
    one = play(crash("merge/1", 8.3, 2), crash("merge/2", 12.3, 2), checkpoint_batches=4)
    assert one.told() == play().told()


def test_a_second_recovery_expects_the_same_last_stable_tuple_5_1_3() -> None:
    """It crashes again while it drops duplicates."""
    faults = [crash("merge/1", 8.3, 1), crash("merge/1", 9.32, 1), crash("merge/1", 10.34, 1)]
    one = play(*faults, checkpoint_batches=5)
    assert one.told() == play().told()
    node = Node("x1", "y1")
    for _ in range(2):
        node.start(upto=1, end=6)
        assert node.out.end == 6


def test_a_failure_during_recovery_forces_rec_done_before_new_tentative_tuples_5_1_3() -> None:
    node = failing(batch_buckets=1)
    node.message("c", heard(1, have=0, overlay=True))
    node.give("x1", 3, 1)
    node.answer("y1", status("y", STABLE, 2))
    node.slow = True
    node.give("y1", 2, 0)
    assert node.out.phase is Phase.STABILIZATION
    effects = node.work()
    effects += node.answer("y1", status("y", FAILURE, 2))
    effects += node.work()
    node.slow = False
    node.now = 20 * SECOND
    effects += node.timer("release out", 0)
    signals = [
        f"T{e.message.bucket.number}" if isinstance(e, Send) else f"{e.undo} {e.rec_done}"
        for e in effects
        if isinstance(e, SendLog) or (isinstance(e, Send) and isinstance(e.message, TentativeData))
    ]
    assert signals[0] == "True False", "the corrections begin"
    assert signals[-1] == "T3", "a new overlay begins"
    assert "False True" in signals, "and the corrections were closed in between"


# --- 5.3: several failures --------------------------------------------------------------------------------


def test_overlapping_failures_are_one_failure_to_the_client_5_3() -> None:
    """Figure 5-6 (a); other than there, what is stable on all inputs is corrected at once."""
    one = play(isolate("s1", 6.3, 8), isolate("s3", 10.3, 8))
    told = one.told()
    assert [w for w in told if w.startswith(("U", "R"))] == ["U5", "REC_DONE"]
    assert [w for w in told if w.startswith("T")] == [f"T{n}" for n in range(6, 18)]
    assert one.when("S9") < 18.3 < one.when("S10")
    assert one.when("REC_DONE") > 18.3


# --- appendix A --------------------------------------------------------------------------------------------


def test_an_output_behind_a_join_with_a_missing_input_has_failed_appendix_a() -> None:
    states = {}

    def look(run: Run) -> None:
        outputs = run.replica("join/1").machine.outputs
        states.update({stream: output.state for stream, output in outputs.items()})

    one = Play(scenario(isolate("s2", 8.3, 8), diagram=joined())).at(12.0, look).end()
    assert states == {"both": FAILURE, "past": STABLE}
    assert one.told("client of past") == play(diagram=joined()).told("client of past")
