"""States that no replica has any more: who begins anew, where, and who says that he cannot."""

from __future__ import annotations

from typing import Any

import pytest
from protocols.dpc.hand import FAILURE, STABLE, Node, of, sent, status, want

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect
from australis.protocols.dpc.effects import (
    AnnounceLoss,
    RunStable,
    ShipSnapshot,
    SkipAhead,
    Started,
)
from australis.protocols.dpc.messages import Heartbeat, NoSnapshot, SnapshotRequest
from australis.protocols.dpc.options import Lease

LOST = NoSnapshot("out", lost=True)


def lost(name: str = "n1", peers: tuple[str, ...] = ("n2",), **more: Any) -> Node:
    """A node without its disk; of x logs hold what follows bucket 40, of y what follows 38."""
    node = Node("x1", "y1", name=name, peers=peers, **more)
    node.event(Started(2, (), ("out",)))
    logs(node)
    return node


def logs(node: Node) -> list[Effect]:
    effects = node.answer("x1", status("x", STABLE, 60, trimmed_upto=40))
    return effects + node.answer("y1", status("y", STABLE, 60, trimmed_upto=38))


def ticks(node: Node, number: int, *peers: str, told: NoSnapshot = LOST) -> list[Effect]:
    """Heartbeats, to which peers answer that they have no state."""
    effects: list[Effect] = []
    for _ in range(number):
        effects += node.timer() + logs(node)
        for peer in peers:
            effects += node.message(peer, told)
    return effects


def test_the_first_replica_begins_anew_when_all_others_have_lost_it_too() -> None:
    node = lost(span=3)
    assert of(SkipAhead, ticks(node, 4)) == [], "the other one may have it"
    node.message("n2", LOST)
    assert of(SkipAhead, ticks(node, 1)) == [SkipAhead("out", 40, 43)]
    node.give("x1", 60, 40)
    assert of(RunStable, node.give("y1", 60, 40))[0] == RunStable("out", 40, 56, keep_after=43)
    ticks(node, 1, "n2")
    assert node.out.state is STABLE


def test_all_must_have_answered() -> None:
    node = lost(peers=("n2", "n3"), span=3)
    assert of(SkipAhead, ticks(node, 6, "n3")) == []
    assert node.out.loss.silent(node.now) == ["n2"]


def test_an_answer_does_not_count_for_long() -> None:
    node = lost(peers=("n2",), span=3)
    node.out.busy = True
    ticks(node, 1, "n2")
    ticks(node, 9)
    node.out.busy = False
    assert of(SkipAhead, ticks(node, 1)) == []


def test_the_others_begin_where_the_first_has_begun() -> None:
    node = lost(name="n2", peers=("n1",), span=3)
    assert of(SkipAhead, ticks(node, 4, "n1")) == [], "that is for n1 to decide"
    begun = NoSnapshot("out", lost=False, right_from=45)
    assert of(SkipAhead, ticks(node, 2, "n1", told=begun)) == [SkipAhead("out", 42, 45)]


@pytest.mark.parametrize("right_from", [42, 64, 1 << 40])
def test_nobody_begins_where_logs_hold_nothing(right_from: int) -> None:
    node = lost(name="n2", peers=("n1",), span=3)
    begun = NoSnapshot("out", lost=False, right_from=right_from)
    assert of(SkipAhead, ticks(node, 4, "n1", told=begun)) == []


def test_one_that_has_begun_anew_says_where_and_helps_once_its_state_is_right() -> None:
    node = lost(span=3)
    ticks(node, 2, "n2")
    ((_, told),) = sent(NoSnapshot, node.message("n2", SnapshotRequest("out")))
    assert told == NoSnapshot("out", lost=False, right_from=43)
    node.give("x1", 60, 40)
    node.give("y1", 60, 40)
    assert of(ShipSnapshot, node.message("n2", SnapshotRequest("out")))


def test_one_that_is_lost_says_so() -> None:
    node = lost(span=3)
    ((_, told),) = sent(NoSnapshot, node.message("n2", SnapshotRequest("out")))
    assert told == LOST


def test_without_replicas_it_begins_anew_at_once() -> None:
    node = Node("x1", "y1", span=3)
    node.start()
    logs(node)
    assert of(SkipAhead, ticks(node, 1)) == [SkipAhead("out", 40, 43)]


def test_nothing_is_skipped_where_logs_are_whole() -> None:
    node = Node("x1", "y1", peers=("n2",), span=3)
    node.event(Started(2, (), ("out",)))
    node.all_answer(STABLE, 5)
    node.message("n2", LOST)
    effects = node.timer()
    assert (of(SkipAhead, effects), node.out.state_lost) == ([], False)
    assert of(RunStable, node.all_give(5)) == [RunStable("out", -1, 5, -1)]


def test_the_log_is_kept_while_a_consumer_reads_it() -> None:
    node = Node("x1", "y1", peers=("n2",), span=0).stable(4)
    node.message("c", Heartbeat(1, 1, (want(have=2),)))
    logs(node)
    assert of(SkipAhead, ticks(node, 2, "n2")) == []
    node.message("c", Heartbeat(1, 2, (want(have=4),)))
    assert of(SkipAhead, ticks(node, 1, "n2")) == [SkipAhead("out", 40, 40)]


def test_a_consumer_that_is_away_is_not_waited_for() -> None:
    node = Node("x1", "y1", peers=("n2",), span=0).stable(4)
    node.message("c", Heartbeat(1, 1, (want(have=2),)))
    logs(node)
    assert of(SkipAhead, ticks(node, 8, "n2")) == [SkipAhead("out", 40, 40)]


def test_what_may_rest_on_all_earlier_tuples_cannot_go_on_and_says_so() -> None:
    node = lost()
    effects = ticks(node, 30, "n2")
    assert of(SkipAhead, effects) == []
    assert of(AnnounceLoss, effects) == [AnnounceLoss("out", (("x", 40), ("y", 38)))], "once"
    assert node.out.loss.for_good
    assert node.out.state is FAILURE


def test_that_a_silent_replica_is_waited_for_is_announced_once() -> None:
    node = lost(span=3)
    effects = ticks(node, 60)
    assert of(SkipAhead, effects) == []
    assert of(AnnounceLoss, effects) == [AnnounceLoss("out", (("x", 40), ("y", 38)), ("n2",))]
    assert not node.out.loss.for_good


def test_a_replica_whose_lease_is_over_is_not_waited_for() -> None:
    leases = {name: Lease(12 * SECOND, (other,)) for name, other in (("n1", "n2"), ("n2", "n1"))}
    second = lost(name="n2", peers=("n1",), span=3, leases=leases)
    assert of(SkipAhead, ticks(second, 40)) == [], "n1 may have it, and decides"
    assert of(SkipAhead, ticks(second, 20)) == [SkipAhead("out", 40, 43)]
    again = lost(name="n2", peers=("n1",), span=3, leases=leases)
    effects = ticks(again, 40) + ticks(again, 20, "n1")
    assert of(SkipAhead, effects) == [], "it answers, and has lost it too"
