"""A mover by itself: what it does when somebody is lost, late or full."""

from __future__ import annotations

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect, Event, MessageReceived, Send, TimerFired
from australis.protocols.movement.events import (
    Advanced,
    DropReplica,
    Gone,
    InstallFailed,
    MoveDecided,
    NodeLost,
    Owned,
    ReadersChanged,
    Redirected,
    ReplicaInstalled,
    Resubscribe,
    SnapshotTaken,
    Started,
    TellMoved,
    Write,
)
from australis.protocols.movement.messages import (
    Answered,
    Cancel,
    Cancelled,
    Handover,
    Ready,
    Request,
    Switch,
    Switched,
)
from australis.protocols.movement.mover import RESEND, MoverMachine


class Node:
    """A machine, and what it has written."""

    def __init__(self, name: str, *owned: str) -> None:
        self.name = name
        self.owned = owned
        self.journal: list[object] = []
        self.incarnation = 0
        self.restart()

    def restart(self, *running: str) -> list[Effect]:
        self.incarnation += 1
        self.machine = MoverMachine(self.name)
        journal = tuple(self.journal)
        return self.do(Started(self.incarnation, self.owned, running, (), journal))  # type: ignore[arg-type]

    def do(self, event: Event, now: int = 0) -> list[Effect]:
        effects = self.machine.handle(event, now)
        self.journal += [effect.entry for effect in effects if isinstance(effect, Write)]
        return effects

    def hear(self, sender: str, message: object) -> list[Effect]:
        return self.do(MessageReceived(sender, message))  # type: ignore[arg-type]


def said(effects: list[Effect], kind: type) -> list[object]:
    return [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, kind)]


def handing() -> tuple[Node, Node]:
    """A source that has handed over, and a target that has not heard of it."""
    source, target = Node("s", "c"), Node("t")
    source.do(ReadersChanged("c", ("r",)))
    source.do(Advanced("c", 5))
    move = next(e.entry.move for e in source.do(MoveDecided("c", "t")) if isinstance(e, Write))  # type: ignore[union-attr]
    (request,) = said(source.do(SnapshotTaken(move, b"", 5)), Request)
    target.hear("s", request)
    target.do(Advanced("c", 5))
    (ready,) = said(target.do(ReplicaInstalled(move)), Ready)
    assert not said(source.hear("t", ready), Switch), "where is it a moment later?"
    (switch,) = said(source.hear("t", ready), Switch)
    assert isinstance(switch, Switch)
    handover = said(source.hear("r", Switched(move, switch.epoch, 5)), Handover)
    assert handover
    return source, target


def test_a_whole_move() -> None:
    source, target = handing()
    (handover,) = said(source.restart("c"), Handover)  # it says it again in its next incarnation
    (answer,) = said(target.hear("s", handover), Answered)
    effects = source.hear("t", answer)
    assert DropReplica("c") in effects
    assert any(isinstance(e, TellMoved) and e.done for e in effects)
    assert not source.machine.runs("c")
    assert source.machine.elsewhere("c") == ("t", 1)
    assert target.machine.owned == {"c": 1}


def test_a_target_that_is_lost_gives_the_component_back() -> None:
    source, target = handing()
    (handover,) = said(source.restart("c"), Handover)
    target.hear("s", handover)  # it has taken it over, and nobody hears of it
    effects = source.do(NodeLost("t"))
    (cancel,) = said(effects, Cancel)
    assert source.machine.runs("c")
    assert said(target.hear("s", cancel), Cancelled), "it is back after all"
    assert target.machine.owned == {}
    assert target.machine.elsewhere("c") == ("s", 2)


def test_what_came_from_a_node_that_is_lost_stops() -> None:
    source, target = Node("s", "c"), Node("t")
    move = next(e.entry.move for e in source.do(MoveDecided("c", "t")) if isinstance(e, Write))  # type: ignore[union-attr]
    (request,) = said(source.do(SnapshotTaken(move, b"", 0)), Request)
    target.hear("s", request)
    assert target.machine.guests == ("c",)
    effects = target.do(NodeLost("s"))
    assert DropReplica("c") in effects
    assert target.machine.guests == ()


def test_a_source_that_crashes_before_it_has_handed_over_calls_it_off() -> None:
    source = Node("s", "c")
    source.do(MoveDecided("c", "t"))
    effects = source.restart("c")
    assert said(effects, Cancel)
    assert source.machine.owned == {"c": 1}


def test_a_target_that_cannot_run_it_says_so() -> None:
    source, target = Node("s", "c"), Node("t")
    move = next(e.entry.move for e in source.do(MoveDecided("c", "t")) if isinstance(e, Write))  # type: ignore[union-attr]
    (request,) = said(source.do(SnapshotTaken(move, b"", 0)), Request)
    target.hear("s", request)
    (ready,) = said(target.do(InstallFailed(move)), Ready)
    assert ready == Ready(move, None)
    assert said(source.hear("t", ready), Cancel)
    assert source.machine.runs("c")
    assert not target.machine.runs("c")


def test_a_replica_that_does_not_catch_up_is_given_up() -> None:
    source = Node("s", "c")
    source.do(Advanced("c", 100))
    move = next(e.entry.move for e in source.do(MoveDecided("c", "t")) if isinstance(e, Write))  # type: ignore[union-attr]
    source.do(SnapshotTaken(move, b"", 100))
    source.do(Advanced("c", 200))
    for behind in (100, 150, 199):
        assert source.hear("t", Ready(move, behind)) == []
    assert said(source.do(TimerFired(RESEND), 31 * SECOND), Cancel)


def test_one_move_of_a_component_at_a_time() -> None:
    source = Node("s", "c")
    assert source.do(MoveDecided("c", "t"))
    assert source.do(MoveDecided("c", "u")) == []
    assert source.do(MoveDecided("unknown", "t")) == []


def test_readers_take_the_newest_word() -> None:
    reader = Node("r")
    assert Resubscribe("", "c", "t", 3) in reader.do(Redirected("c", "t", 3))
    assert reader.do(Redirected("c", "s", 2)) == []
    late = reader.hear("s", Switch("m", "c", "s", 2))
    assert said(late, Switched) == [Switched("m", 3, -1)]
    assert reader.machine.reads("c") == "t"


def test_what_is_over_is_known_after_a_crash() -> None:
    node = Node("s")
    node.journal = [Owned("c", 4), Gone("c", "t", 5)]
    node.restart()
    assert node.machine.elsewhere("c") == ("t", 5)
    assert not node.machine.owned
