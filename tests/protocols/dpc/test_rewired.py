"""Machines in a deployment that changes: they read, serve and share with others from then on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from protocols.dpc.hand import Node, of, sent, status, want

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect
from australis.protocols.dpc.effects import Rewired, Started, Truncate
from australis.protocols.dpc.messages import (
    Heartbeat,
    HeartbeatReply,
    Snapshot,
    SnapshotRequest,
    StreamStatus,
)
from australis.protocols.dpc.options import Lease, LogBounds
from australis.protocols.dpc.states import Phase, State
from australis.protocols.dpc.subscribers import Subscribers

pytestmark = pytest.mark.unit

STABLE, UP_FAILURE, STABILIZATION, FAILURE = State


def rewire(
    node: Node, version: int = 2, leaving: tuple[str, ...] = (), **changes: Any
) -> list[Effect]:
    """A newer deployment, with these producers of x, consumers of out, or peers."""
    config = node.machine.config
    consumers = changes.pop("consumers", config.outputs[0].consumers)
    if "x" in changes:
        changes["producers"] = config.producers | {"x": changes.pop("x")}
    config = replace(config, outputs=(replace(config.outputs[0], consumers=consumers),), **changes)
    joining = frozenset(name for name in consumers if name.startswith("new"))
    return node.event(Rewired(version, config, joining, frozenset(leaving)))


def choice(node: Node, stream: str = "x") -> tuple[str, str | None]:
    found = node.machine.inputs[stream].choice
    return found.curr, found.bck


def beat(node: Node, sender: str, number: int, **wants: Any) -> list[Effect]:
    return node.message(sender, Heartbeat(1, number, (want(**wants),)))


def told(effects: list[Effect]) -> StreamStatus:
    ((_, reply),) = sent(HeartbeatReply, effects)
    return reply.streams[0]


# --- reading ------------------------------------------------------------------------------------


def test_a_choice_that_names_a_removed_replica_is_repaired_at_once() -> None:
    node = Node("x1", "x2").stable()
    assert choice(node) == ("x1", None)
    effects = rewire(node, x=("x2", "x3"))
    assert choice(node)[0] == "x2"
    asked = dict(sent(Heartbeat, effects))
    assert asked["x2"].wants[0].log, "it goes on there without waiting for a heartbeat"
    assert "x3" in asked
    assert "x1" not in asked


def test_a_replica_that_leaves_is_read_only_while_no_other_one_is_stable() -> None:
    node = Node("x1", "x2").stable()
    rewire(node, x=("x2", "x1"), leaving=("x1",))
    assert choice(node) == ("x2", None)
    node.answer("x2", status("x", FAILURE))
    assert choice(node) == ("x1", None)
    assert node.machine.inputs["x"].healthy
    node.answer("x2", status("x", STABLE))
    assert choice(node) == ("x2", None)


def test_an_older_deployment_changes_nothing() -> None:
    node = Node("x1", "x2").stable()
    rewire(node, version=3, x=("x2",))
    assert rewire(node, version=2, x=("x1", "x2")) == []
    assert rewire(node, version=3, x=("x1", "x2")) == []
    assert node.machine.version == 3
    assert list(node.machine.monitors) == ["x2"]


def test_what_a_removed_replica_still_sends_is_dropped() -> None:
    node = Node("x1", "x2").stable()
    rewire(node, x=("x2",))
    assert node.give("x1", 1, after=0) == []
    assert node.hint("x1", 1) == []


# --- serving ------------------------------------------------------------------------------------


def test_the_log_is_kept_for_a_new_consumer_and_no_longer_for_an_old_one() -> None:
    node = Node("x1", consumers=("c", "d")).stable(5)
    beat(node, "c", 1, have=5, acknowledged=5)
    assert beat(node, "d", 1, have=2, acknowledged=2)
    assert node.out.trimmed_upto == 2
    effects = rewire(node, consumers=("c", "newcomer"))
    assert of(Truncate, effects) == [], "the new one has acknowledged nothing"
    effects = beat(node, "newcomer", 1, have=5, acknowledged=4)
    assert of(Truncate, effects) == [Truncate("out", 4)]


def test_a_producer_that_does_not_know_a_reader_says_so() -> None:
    node = Node("x1").stable(3)
    assert told(beat(node, "c", 1)).holds
    assert not told(beat(node, "stranger", 1)).holds
    rewire(node, consumers=("c", "stranger"))
    assert told(beat(node, "stranger", 2)).holds


def test_a_full_log_does_not_wait_for_who_joins() -> None:
    log = Subscribers("s", ("old",), 16, LogBounds(max_buckets=4))
    log.rewire(("old", "new"), frozenset({"new"}), {}, now=0)
    log.heard("old", want("s", have=9, acknowledged=9), 1, 1)
    log.heard("new", want("s"), 1, 1)
    assert of(Truncate, log.truncation(-1, 2)) == [], "there is room yet"
    assert of(Truncate, log.truncation(-1, 9)) == [Truncate("s", 9)]
    assert not log.holds("new", "")
    log.heard("new", want("s", have=9), 1, 2)
    assert log.holds("new", ""), "it has begun anew"


def test_leases_follow_the_deployment() -> None:
    log = Subscribers("s", ("a", "b"), 16, leases={"b": Lease(SECOND)})
    log.heard("a", want("s", have=5, acknowledged=5), 1, 1, 0)
    assert log.watches
    log.rewire(("a", "b"), frozenset(), {}, now=0)
    assert not log.watches
    assert of(Truncate, log.truncation(-1, 5, now=9 * SECOND)) == []


# --- joining ------------------------------------------------------------------------------------


def joiner() -> Node:
    node = Node("x1", "y1", peers=("n2",))
    node.machine.config = replace(node.machine.config, joining=True)
    node.event(Started(1, (), ("out",)))
    return node


def test_a_state_is_taken_only_once_every_input_is_kept() -> None:
    node = joiner()
    unknown = StreamStatus("y", STABLE, -1, -1, overlay=True, holds=False)
    effects = node.answer("x1", status("x")) + node.answer("y1", unknown)
    effects += node.timer()
    assert sent(SnapshotRequest, effects) == []
    node.answer("y1", status("y"))
    assert sent(SnapshotRequest, node.timer()) == [("n2", SnapshotRequest("out"))]


def test_a_full_member_that_lost_its_state_asks_at_once() -> None:
    node = Node("x1", peers=("n2",))
    effects = node.event(Started(1, (), ("out",)))
    assert sent(SnapshotRequest, effects) == [("n2", SnapshotRequest("out"))]


def test_peers_of_a_newer_deployment_are_asked() -> None:
    node = joiner()
    rewire(node, peers=("n3",), joining=True)
    node.answer("x1", status("x"))
    node.answer("y1", status("y"))
    assert [to for to, _ in sent(SnapshotRequest, node.timer())] == ["n3"]
    assert node.out.phase is Phase.RECOVERING
    assert node.message("n3", Snapshot("out", 4, 0, None))
