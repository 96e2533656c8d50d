"""One output: the turns of its state machine, what it advertises, and when it releases a bucket."""

from __future__ import annotations

from itertools import product

import pytest
from protocols.dpc.hand import (
    FAILURE,
    STABILIZATION,
    STABLE,
    UP_FAILURE,
    Node,
    of,
    sent,
    status,
    want,
)

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.machine import Effect, SetTimer
from australis.protocols.dpc.effects import DropLane, ForkLane, RunStable, RunTentative, SkipAhead
from australis.protocols.dpc.messages import Heartbeat, TentativeData
from australis.protocols.dpc.options import Deadline, LogBounds, Policy
from australis.protocols.dpc.states import TRANSITIONS, Phase, State, Trigger

DUE = 4 * SECOND - 100 * MILLISECOND
"""How long a bucket may wait one hop before the client: X less an allowance for the hop."""
NOTICE = SECOND
"""How long consumers need to notice a failure: so much earlier buckets go once one had to."""


def failing(upto: int = 0, **changes: object) -> Node:
    """A node that was stable up to a bucket when y failed; x goes on and is one bucket ahead."""
    node = Node("x1", "y1", **changes).stable(upto)  # type: ignore[arg-type]
    node.answer("y1", status("y", FAILURE, upto))
    node.now = (upto + 2) * SECOND
    node.give("x1", upto + 1, upto)
    return node


def forked(upto: int = 0, **changes: object) -> Node:
    """The same after the bucket had to be released tentatively."""
    node = failing(upto, **changes)
    node.now = (upto + 2) * SECOND + DUE
    node.timer("release out", 0)
    assert node.out.forked
    return node


def heal(node: Node, end: int) -> list[Effect]:
    """y is stable again; that is known, but nothing was sent yet."""
    return node.answer("y1", status("y", STABLE, end))


# --- every turn of the table ----------------------------------------------------------------


def test_recovering_caught_up() -> None:
    node = Node("x1", "y1")
    node.start()
    assert node.out.phase is Phase.RECOVERING
    node.answer("x1", status("x", STABLE))
    assert node.out.phase is Phase.RECOVERING, "y was not heard yet"
    node.answer("y1", status("y", STABLE))
    assert node.turns() == [Trigger.CAUGHT_UP]
    assert node.out.phase is Phase.STABLE


def test_recovering_caught_up_while_an_input_is_missing() -> None:
    node = Node("x1", "y1")
    node.start()
    node.answer("x1", status("x", STABLE))
    node.answer("y1", status("y", FAILURE))
    assert node.turns() == [Trigger.CAUGHT_UP_FAILING]
    assert node.out.phase is Phase.UP_FAILURE


def test_recovering_lasts_until_the_inputs_are_caught_up_with() -> None:
    node = Node("x1", "y1")
    node.start(upto=2, end=2)
    node.all_answer(STABLE, 9)
    assert node.out.phase is Phase.RECOVERING
    node.give("x1", 9, 2)
    node.give("y1", 5, 2)
    assert node.out.phase is Phase.RECOVERING
    node.give("y1", 9, 5)
    assert node.out.phase is Phase.STABLE


def test_stable_an_input_fails() -> None:
    node = Node("x1", "y1").stable()
    node.answer("y1", status("y", UP_FAILURE))
    assert node.turns()[-1] is Trigger.INPUT_FAILED
    assert node.out.phase is Phase.UP_FAILURE


def test_stable_though_one_of_two_replicas_fails() -> None:
    node = Node("x1", "x2", "y1").stable()
    node.answer("x1", status("x", FAILURE))
    assert node.out.phase is Phase.STABLE


def test_stable_a_bucket_is_released_early() -> None:
    node = Node("x1", "y1").stable()
    node.now = 2 * SECOND
    node.give("x1", 1, 0)
    node.now += DUE
    node.timer("release out", 0)
    assert node.turns()[-1] is Trigger.RELEASED_EARLY
    assert node.out.phase is Phase.UP_FAILURE


def test_up_failure_masked() -> None:
    node = failing()
    heal(node, 1)
    assert node.turns()[-1] is Trigger.MASKED
    assert node.out.phase is Phase.STABLE
    assert of(ForkLane, node.effects) == []


def test_up_failure_reconciling_then_corrected() -> None:
    node = forked()
    heal(node, 1)
    node.slow = True
    node.give("y1", 1, 0)
    assert node.turns()[-1] is Trigger.RECONCILING
    assert node.out.phase is Phase.STABILIZATION
    effects = node.work()
    assert node.turns()[-1] is Trigger.CORRECTED
    assert node.out.phase is Phase.STABLE
    assert len(of(DropLane, effects)) == 1
    assert not node.out.forked


def test_stabilization_fails_again() -> None:
    node = forked()
    heal(node, 1)
    node.slow = True
    node.give("y1", 1, 0)
    assert node.out.phase is Phase.STABILIZATION
    effects = node.answer("x1", status("x", FAILURE, 1))
    effects += node.silence(2, y1=status("y", STABLE, 1))
    assert node.turns()[-1] is Trigger.FAILED_AGAIN
    assert node.out.phase is Phase.UP_FAILURE
    assert len(of(DropLane, effects)) == 1, "the next overlay begins behind a longer log"


def convergent(node: Node) -> list[Effect]:
    """The only replica of x has forgotten everything up to bucket 40; y is there and goes on."""
    effects = node.answer("x1", status("x", STABLE, 60, trimmed_upto=40))
    assert of(SkipAhead, effects) == [], "not before all inputs are there"
    effects = node.answer("y1", status("y", STABLE, 60))
    have = node.machine.inputs["y"].have
    return effects + node.give("y1", have + 1, have)


BOUNDED = {"span": 2, "keep_log": 20}


def test_skipped_from_recovering() -> None:
    node = Node("x1", "y1", **BOUNDED)  # type: ignore[arg-type]
    node.start()
    effects = convergent(node)
    assert of(SkipAhead, effects) == [SkipAhead("out", 40, 42)]
    assert node.turns() == [Trigger.SKIPPED]
    assert node.out.phase is Phase.RECOVERING


def test_skipped_from_stable() -> None:
    node = Node("x1", "y1", **BOUNDED).stable()  # type: ignore[arg-type]
    assert of(SkipAhead, convergent(node)) == [SkipAhead("out", 40, 42)]
    assert node.turns()[-2:] == [Trigger.INPUT_FAILED, Trigger.SKIPPED]
    assert node.out.phase is Phase.RECOVERING
    assert {i.have for i in node.out.inputs} == {40}, "all inputs are read on from there"


def test_skipped_from_up_failure() -> None:
    node = failing(**BOUNDED)
    assert of(SkipAhead, convergent(node)) == [SkipAhead("out", 40, 42)]
    assert node.turns()[-1] is Trigger.SKIPPED


def test_a_tentative_lane_goes_on_while_the_stable_one_begins_anew() -> None:
    node = forked(**BOUNDED)
    node.give("x1", 45, 1)
    assert node.out.tentative_upto == 45
    effects = node.answer("y1", status("y", STABLE, 60, trimmed_upto=40))
    assert of(SkipAhead, effects) == [SkipAhead("out", 40, 42)]
    assert of(DropLane, effects) == []
    assert Trigger.SKIPPED not in node.turns()


def test_a_lane_that_is_not_convergent_waits_instead() -> None:
    node = Node("x1", "y1", keep_log=20).stable()
    assert of(SkipAhead, convergent(node)) == []
    assert node.out.upto == 0


def test_the_turns_above_are_all_there_are() -> None:
    tested = {
        (Phase.RECOVERING, Trigger.CAUGHT_UP),
        (Phase.RECOVERING, Trigger.CAUGHT_UP_FAILING),
        (Phase.STABLE, Trigger.INPUT_FAILED),
        (Phase.STABLE, Trigger.RELEASED_EARLY),
        (Phase.UP_FAILURE, Trigger.MASKED),
        (Phase.UP_FAILURE, Trigger.RECONCILING),
        (Phase.STABILIZATION, Trigger.CORRECTED),
        (Phase.STABILIZATION, Trigger.FAILED_AGAIN),
    }
    skipped = {Phase.RECOVERING, Phase.UP_FAILURE}
    assert set(TRANSITIONS) == tested | {(phase, Trigger.SKIPPED) for phase in skipped}


ILLEGAL = [pair for pair in product(Phase, Trigger) if pair not in TRANSITIONS]


@pytest.mark.parametrize(("phase", "trigger"), ILLEGAL, ids=lambda one: one.name)
def test_any_other_turn_is_an_error(phase: Phase, trigger: Trigger) -> None:
    out = Node().out
    out.phase = phase
    with pytest.raises((KeyError, AssertionError)):
        out._go(trigger)


# --- what is advertised (appendix A) -----------------------------------------------------------


def advertised(node: Node, **states: State) -> State:
    """The state of the output once the inputs' replicas are in these states."""
    for name, state in states.items():
        node.answer(name, status(name[0], state))
    return node.out.state


def test_an_output_with_all_inputs_stable_is_stable() -> None:
    assert Node("x1", "y1").stable().out.state is STABLE


@pytest.mark.parametrize("state", [UP_FAILURE, FAILURE])
def test_a_partial_failure_leaves_tentative_tuples(state: State) -> None:
    assert advertised(Node("x1", "y1").stable(), y1=state) is UP_FAILURE


def test_one_stable_replica_of_an_input_is_enough() -> None:
    node = Node("x1", "x2", "y1").stable()
    assert advertised(node, x1=FAILURE) is STABLE
    assert advertised(node, x2=UP_FAILURE) is UP_FAILURE


def test_a_missing_input_of_a_blocking_operator_is_a_total_failure() -> None:
    node = Node("x1", "y1", blocking="xy").stable()
    assert advertised(node, y1=UP_FAILURE) is UP_FAILURE, "tentative tuples still come"
    assert advertised(node, y1=FAILURE) is FAILURE


def test_a_missing_input_beside_a_blocking_operator_is_a_partial_failure() -> None:
    assert advertised(Node("x1", "y1", blocking="x").stable(), y1=FAILURE) is UP_FAILURE


def test_all_inputs_missing_is_a_total_failure() -> None:
    node = Node("x1", "y1").stable()
    assert advertised(node, x1=FAILURE) is UP_FAILURE
    assert advertised(node, y1=FAILURE) is FAILURE


def test_a_recovering_output_advertises_failure() -> None:
    node = Node("x1", "y1")
    node.start()
    assert node.out.state is FAILURE
    assert not node.out.status().overlay


def test_a_stabilizing_output_says_so() -> None:
    node = forked()
    heal(node, 1)
    node.slow = True
    node.give("y1", 1, 0)
    assert node.out.state is STABILIZATION


# --- the stable lane --------------------------------------------------------------------------------


def test_the_stable_lane_goes_as_far_as_every_input_is_stable() -> None:
    node = Node("x1", "y1").stable(0)
    assert of(RunStable, node.give("x1", 4, 0)) == []
    assert of(RunStable, node.give("y1", 2, 0)) == [RunStable("out", 0, 2, 0)]


def test_one_micro_batch_at_a_time_and_none_too_large() -> None:
    node = Node("x1", "y1", batch_buckets=2).stable(0)
    node.slow = True
    node.give("x1", 5, 0)
    assert of(RunStable, node.give("y1", 5, 0)) == [RunStable("out", 0, 2, 0)]
    assert of(RunStable, node.work()) == [RunStable("out", 2, 4, 2)]


def test_what_the_log_holds_already_is_not_logged_again() -> None:
    node = Node("x1", "y1")
    node.start(upto=2, end=4)
    node.all_answer(STABLE, 5)
    node.give("x1", 5, 2)
    assert of(RunStable, node.give("y1", 5, 2)) == [RunStable("out", 2, 5, 4)]


def test_a_full_log_makes_the_lane_wait() -> None:
    node = Node("x1", "y1", log=LogBounds(max_buckets=3)).stable(2)
    node.give("x1", 5, 2)
    assert of(RunStable, node.give("y1", 5, 2)) == []


# --- when a bucket is released ------------------------------------------------------------------------


def release_timer(effects: list[Effect]) -> list[int]:
    return [e.at for e in of(SetTimer, effects) if e.name == "release out"]


def test_a_bucket_waits_for_its_deadline() -> None:
    node = Node("x1", "y1").stable()
    node.answer("y1", status("y", FAILURE))
    node.now = 2 * SECOND
    assert release_timer(node.give("x1", 1, 0)) == [2 * SECOND + DUE]
    node.now = 2 * SECOND + DUE - 1
    assert of(RunTentative, node.timer("release out", 0)) == []
    node.now += 1
    effects = node.timer("release out", 0)
    assert [e.bucket for e in of(RunTentative, effects)] == [1]
    assert [type(e) for e in effects if isinstance(e, ForkLane | RunTentative)] == [
        ForkLane,
        RunTentative,
    ]


def test_end_to_end_the_deadline_counts_from_the_source_whenever_the_bucket_arrives() -> None:
    node = Node("x1", "y1", hops_ahead=3).stable()
    node.answer("y1", status("y", FAILURE))
    node.now = 3 * SECOND
    due = 2 * SECOND + 4 * SECOND - 3 * 100 * MILLISECOND
    assert release_timer(node.give("x1", 1, 0)) == [due]


def test_per_node_the_deadline_counts_from_the_arrival() -> None:
    node = Node("x1", "y1", hops_ahead=3, deadline=Deadline.PER_NODE).stable()
    node.answer("y1", status("y", FAILURE))
    node.now = 3 * SECOND
    assert release_timer(node.give("x1", 1, 0)) == [7 * SECOND]


def test_process_after_the_first_wait_buckets_are_released_as_they_come() -> None:
    node = forked(up_failure=Policy.PROCESS)
    effects = node.give("x1", 2, 1)
    assert [e.bucket for e in of(RunTentative, effects)] == [2]


def test_process_waits_for_an_input_that_may_still_bring_tentative_tuples() -> None:
    node = Node("x1", "y1").stable()
    node.answer("y1", status("y", UP_FAILURE))
    node.now = 2 * SECOND
    node.give("x1", 1, 0)
    node.now += DUE
    node.timer("release out", 0)
    node.give("x1", 2, 1)
    assert of(RunTentative, node.give("x1", 3, 2)) == []
    assert [e.bucket for e in of(RunTentative, node.hint("y1", 3))] == [3]


def test_delay_every_bucket_waits_for_its_own_deadline() -> None:
    """Less what its consumers need to notice it, should the node fail just then."""
    node = forked(up_failure=Policy.DELAY)
    node.give("x1", 2, 1)
    effects = node.give("x1", 3, 2)
    assert of(RunTentative, effects) == []
    assert release_timer(effects) == [4 * SECOND + DUE - NOTICE]


def test_suspend_nothing_is_released_however_long_it_takes() -> None:
    node = failing(up_failure=Policy.SUSPEND)
    assert of(RunTentative, node.silence(20, x1=status("x", STABLE, 1))) == []
    assert release_timer(node.effects) == []


def correcting(batch_buckets: int = 1, stable_upto: int = 7, **changes: object) -> Node:
    """A node in STABILIZATION that has more buckets to correct than it can at once."""
    node = forked(batch_buckets=batch_buckets, **changes)
    for number in range(2, 8):
        node.now = (number + 1) * SECOND + DUE - NOTICE
        node.give("x1", number, number - 1)
        node.timer("release out", 0)
    heal(node, 7)
    node.slow = True
    node.give("y1", stable_upto, 0)
    assert node.out.phase is Phase.STABILIZATION
    return node


def test_new_buckets_are_processed_while_old_ones_are_corrected() -> None:
    node = correcting(stabilization=Policy.PROCESS)
    node.give("x1", 8, 7)
    effects = node.give("y1", 8, 7)
    assert [e.bucket for e in of(RunTentative, effects)] == [8]


def test_new_buckets_are_delayed_while_old_ones_are_corrected() -> None:
    node = correcting(stabilization=Policy.DELAY)
    node.now = 9 * SECOND
    node.give("x1", 8, 7)
    effects = node.give("y1", 8, 7)
    assert of(RunTentative, effects) == []
    assert release_timer(effects) == [9 * SECOND + DUE - NOTICE]


@pytest.mark.parametrize(
    ("took_ms", "then"),
    [
        pytest.param(100, 3, id="never more than a micro-batch takes"),
        pytest.param(600, 2, id="as many as fit into the time for corrections"),
        pytest.param(900, 1, id="one, if time passes far slower than that"),
        pytest.param(1000, 2, id="more, if they take nearly as long as time does"),
        pytest.param(9000, 3, id="even then not more than a micro-batch takes"),
    ],
)
def test_how_many_buckets_are_corrected_at_once(took_ms: int, then: int) -> None:
    node = correcting(batch_buckets=3, correction_us=400 * MILLISECOND, stabilization=Policy.DELAY)
    assert of(RunStable, node.jobs) == [RunStable("out", 0, 3, 0)]
    node.now += took_ms * MILLISECOND
    assert of(RunStable, node.work()) == [RunStable("out", 3, 3 + then, 3)]


@pytest.mark.parametrize(
    ("took_ms", "growth", "then"),
    [
        pytest.param(390, 1, 1, id="as many as fit into the time for corrections"),
        pytest.param(390, 4, 4, id="more, where most of the time is spent whatever comes in"),
        pytest.param(410, 4, 1, id="not after one that took too long"),
    ],
)
def test_micro_batches_of_corrections_grow(took_ms: int, growth: int, then: int) -> None:
    node = correcting(
        7, 1, correction_us=400 * MILLISECOND, correction_growth=growth, stabilization=Policy.DELAY
    )
    assert of(RunStable, node.jobs) == [RunStable("out", 0, 1, 0)]
    node.give("y1", 7, 1)
    node.now += took_ms * MILLISECOND
    assert of(RunStable, node.work()) == [RunStable("out", 1, 1 + then, 1)]


def test_new_buckets_are_suspended_while_old_ones_are_corrected() -> None:
    node = correcting(stabilization=Policy.SUSPEND)
    node.give("x1", 8, 7)
    effects = node.give("y1", 8, 7)
    node.now += 20 * SECOND
    effects += node.timer("release out", 0)
    assert of(RunTentative, effects) == []


def test_a_recovering_node_releases_nothing() -> None:
    node = Node("x1", "y1")
    node.start()
    node.answer("x1", status("x", STABLE, 9))
    node.give("x1", 9)
    node.now = 60 * SECOND
    assert of(RunTentative, node.timer("release out", 0)) == []


def test_what_was_released_is_sent_to_those_who_asked() -> None:
    node = forked()
    assert sent(TentativeData, node.effects) == []
    effects = node.message("c", Heartbeat(1, 1, (want(overlay=True, have=0),)))
    assert [(to, m.bucket.number) for to, m in sent(TentativeData, effects)] == [("c", 1)]
