"""A node as a whole: heartbeats both ways, acknowledgements, restarts and snapshots."""

from __future__ import annotations

from typing import Any

from protocols.dpc.hand import FAILURE, STABLE, UP_FAILURE, Node, of, sent, status, want

from australis.kernel.durations import MILLISECOND
from australis.kernel.machine import Send, SetTimer
from australis.protocols.dpc.effects import (
    Checkpoint,
    InstallSnapshot,
    RunStable,
    SendLog,
    ShipSnapshot,
    SnapshotFailed,
    SnapshotInstalled,
    Started,
    Truncate,
)
from australis.protocols.dpc.messages import (
    Heartbeat,
    HeartbeatReply,
    NoSnapshot,
    Snapshot,
    SnapshotRequest,
    StableData,
)
from australis.protocols.dpc.states import Phase, Trigger


def heartbeat(number: int, **said: Any) -> Heartbeat:
    return Heartbeat(1, number, (want(**said),))


def test_every_replica_of_every_input_is_asked_every_p2() -> None:
    node = Node("x1", "x2", "y1")
    effects = node.start()
    assert [to for to, _ in sent(Heartbeat, effects)] == ["x1", "x2", "y1"]
    assert of(SetTimer, effects)[-1] == SetTimer("heartbeat", 250 * MILLISECOND)
    assert [to for to, _ in sent(Heartbeat, node.timer())] == ["x1", "x2", "y1"]


def test_a_switch_is_told_to_all_replicas_at_once() -> None:
    node = Node("x1", "x2", "y1").stable()
    effects = node.answer("x1", status("x", FAILURE))
    asked = {to: h.wants[0].log for to, h in sent(Heartbeat, effects)}
    assert asked["x1"] is False
    assert asked["x2"] is True


def test_a_heartbeat_is_answered_with_the_state_of_the_streams_it_names() -> None:
    node = Node("x1", "y1").stable(3)
    ((to, reply),) = sent(HeartbeatReply, node.message("c", heartbeat(7)))
    assert to == "c"
    assert reply.number == 7
    assert [(s.stream, s.state, s.end) for s in reply.streams] == [("out", STABLE, 3)]


def test_a_heartbeat_about_other_streams_gets_an_empty_answer() -> None:
    node = Node("x1", "y1").stable(3)
    ((_, reply),) = sent(HeartbeatReply, node.message("c", heartbeat(7, stream="else")))
    assert reply.streams == ()


def test_the_answer_comes_with_what_the_consumer_misses() -> None:
    node = Node("x1", "y1").stable(3)
    effects = node.message("c", heartbeat(1, have=1))
    assert of(SendLog, effects) == [SendLog("c", "out", 1, 3, False, False)]


def test_new_buckets_are_pushed_without_being_asked_for() -> None:
    node = Node("x1", "y1").stable(0)
    node.message("c", heartbeat(1, have=0))
    effects = node.all_give(2, after=0)
    assert of(SendLog, effects) == [SendLog("c", "out", 0, 2, False, False)]


def test_what_all_consumers_acknowledged_is_truncated() -> None:
    node = Node("x1", "y1", consumers=("c", "d")).stable(5)
    assert of(Truncate, node.message("c", heartbeat(1, have=5, acknowledged=4))) == []
    assert of(Truncate, node.message("d", heartbeat(1, have=5, acknowledged=2))) == [
        Truncate("out", 2)
    ]
    assert node.out.trimmed_upto == 2


def acknowledged(node: Node) -> set[int]:
    return {h.wants[0].acknowledged for _, h in sent(Heartbeat, node.timer())}


def test_a_node_acknowledges_what_its_checkpoint_covers_not_what_it_received() -> None:
    node = Node("x1", "y1", checkpoint_batches=2).stable(0)
    assert acknowledged(node) == {-1}
    effects = node.all_give(3, after=0)
    assert len(of(Checkpoint, effects)) == 1
    assert acknowledged(node) == {3}
    node.give("x1", 9, 3)
    assert acknowledged(node) == {3}


def test_a_restarted_node_asks_for_what_its_checkpoint_lacks() -> None:
    node = Node("x1", "y1")
    effects = node.start(upto=6, end=8)
    assert {h.wants[0].have for _, h in sent(Heartbeat, effects)} == {6}


def test_data_of_an_unknown_stream_is_ignored() -> None:
    node = Node("x1", "y1").stable()
    assert node.message("x1", StableData("else", -1, 0, ())) == []


def test_a_tick_tries_another_replica_when_one_is_silent() -> None:
    node = Node("x1", "x2", "y1").stable()
    node.silence(1.25, x2=status("x", STABLE), y1=status("y", STABLE))
    assert node.machine.inputs["x"].choice.curr == "x2"
    assert node.out.phase is Phase.STABLE


def test_inputs_are_asked_for_their_overlay_before_they_fail() -> None:
    node = Node("x1", "y1").stable()
    node.answer("y1", status("y", UP_FAILURE))
    wants = {to: h.wants[0] for to, h in sent(Heartbeat, node.timer())}
    assert (wants["y1"].overlay, wants["x1"].overlay) == (True, True)


# --- snapshots ------------------------------------------------------------------------------


def test_a_node_whose_state_is_gone_asks_its_replicas_in_turn() -> None:
    node = Node("x1", "y1", peers=("n2", "n3"))
    effects = node.event(Started(2, (), ("out",)))
    effects += node.timer()
    assert sent(SnapshotRequest, effects) == [
        ("n2", SnapshotRequest("out")),
        ("n3", SnapshotRequest("out")),
    ]


def test_a_node_without_state_processes_nothing() -> None:
    node = Node("x1", "y1", peers=("n2",))
    node.event(Started(2, (), ("out",)))
    node.all_answer(STABLE, 5)
    assert of(RunStable, node.all_give(5)) == []
    assert node.out.state is FAILURE


def test_a_replica_ships_its_checkpoint() -> None:
    node = Node("x1", "y1", peers=("n2",)).stable(4)
    assert node.message("n2", SnapshotRequest("out")) == [ShipSnapshot("n2", "out", 4, node.now)]


def test_a_replica_that_has_no_checkpoint_cannot_help() -> None:
    node = Node("x1", "y1", peers=("n2",))
    node.start()
    effects = node.message("n2", SnapshotRequest("out"))
    assert effects == [Send("n2", NoSnapshot("out", lost=False))]


def test_a_snapshot_is_installed_once_and_only_where_it_is_needed() -> None:
    node = Node("x1", "y1", peers=("n2",))
    node.event(Started(2, (), ("out",)))
    snapshot = Snapshot("out", 7, 0, "state")
    assert node.message("n2", snapshot) == [InstallSnapshot("out", 7, 0, "state")]
    node.event(SnapshotInstalled("out", 7, 7))
    assert node.message("n2", snapshot) == []


def test_a_second_snapshot_does_not_come_between() -> None:
    node = Node("x1", "y1", peers=("n2", "n3"))
    node.event(Started(2, (), ("out",)))
    assert node.message("n2", Snapshot("out", 7, 0, "one"))
    assert node.message("n3", Snapshot("out", 8, 0, "two")) == [], "the first is being installed"
    node.event(SnapshotFailed("out"))
    assert node.message("n3", Snapshot("out", 8, 0, "two")) != []


def test_a_state_that_has_not_converged_is_not_handed_on() -> None:
    node = Node("x1", "y1", peers=("n2",), span=5, keep_log=20).stable(4)
    assert node.message("n2", SnapshotRequest("out")) == [ShipSnapshot("n2", "out", 4, node.now)]
    node.out.converges_at = node.out.checkpointed + 1
    effects = node.message("n2", SnapshotRequest("out"))
    assert effects == [Send("n2", NoSnapshot("out", lost=False, right_from=5))]


def left_behind() -> Node:
    """A node that reads on behind bucket 4 where the log begins behind bucket 9."""
    node = Node("x1", "y1", peers=("n2",)).stable(4)
    node.answer("x1", status("x", STABLE, 20, trimmed_upto=9))
    return node


def test_a_node_that_no_log_can_help_any_more_asks_for_a_newer_state() -> None:
    node = left_behind()
    assert sent(SnapshotRequest, node.timer()) == [("n2", SnapshotRequest("out"))]
    assert node.out.state is FAILURE
    assert node.message("n2", Snapshot("out", 3, 0, "older")) == []
    installs = InstallSnapshot("out", 9, 7, "new")
    assert node.message("n2", Snapshot("out", 9, node.now - 7, "new")) == [installs]


def test_a_node_that_stabilizes_first_gives_up() -> None:
    node = left_behind()
    node.out.phase = Phase.STABILIZATION
    node.timer()
    node.timer()
    assert node.turns()[-2:] == [Trigger.FAILED_AGAIN, Trigger.SKIPPED]


def test_after_a_snapshot_the_node_reads_on_behind_it() -> None:
    node = Node("x1", "y1", peers=("n2",))
    node.event(Started(2, (), ("out",)))
    node.message("n2", Snapshot("out", 7, 0, "state"))
    effects = node.event(SnapshotInstalled("out", 7, 3))
    assert {h.wants[0].have for _, h in sent(Heartbeat, effects)} == {7}
    assert (node.out.upto, node.out.end) == (7, 7)
    assert node.out.trimmed_upto == 3, "the log came with it"
    node.all_answer(STABLE, 8)
    assert node.out.state is STABLE
    assert of(RunStable, node.all_give(9, after=7)) == [RunStable("out", 7, 9, 7)]
