"""Every event that is handled has an id, and whatever follows from it names it as its cause."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from runtime.node.small_cluster import SmallCluster

from australis.kernel.machine import (
    Effect,
    Event,
    Message,
    MessageReceived,
    Send,
    SetTimer,
    TimerFired,
)
from australis.node.hosts import MachineHost
from australis.node.machine import NodeMachine
from australis.protocols.dpc.effects import (
    AnnouncePhase,
    Checkpoint,
    Checkpointed,
    DropLane,
    ForkLane,
    RunStable,
    RunTentative,
    SnapshotFailed,
    StableDone,
    TentativeDone,
)
from australis.protocols.dpc.messages import ReconcileAnswer, ReconcileDone, ReconcileRequest
from australis.protocols.dpc.states import Phase, Trigger
from australis.runtime.node import events, trace
from australis.runtime.node.driver import Driver
from australis.runtime.node.entries import NO_ENTRY, Entries, brief, entry_of, no_entries
from australis.runtime.node.families import FAMILIES
from australis.runtime.node.lane_work import LaneCounts, LaneWork
from australis.runtime.node.phase_log import PhaseLog
from australis.runtime.node.trace import TraceFile, story
from australis.runtime.node.wire import Wire


def test_ids_are_of_one_life() -> None:
    entries = Entries("a")
    entries.begin(7)
    assert [entries.next(), entries.next()] == ["a.7.1", "a.7.2"]
    assert entries.count == 2


def test_nobody_speaks_for_another() -> None:
    assert entry_of("a", "a.7.1") == "a.7.1"
    assert entry_of("a", "ab.7.1") == NO_ENTRY
    assert entry_of(None, "a.7.1") == NO_ENTRY, "clients count nothing"


def test_an_event_in_a_few_words() -> None:
    assert brief(MessageReceived("s1", ReconcileDone(1))) == "ReconcileDone from s1"
    assert brief(TimerFired("heartbeat")) == "timer heartbeat"
    assert brief(SnapshotFailed("x")) == "SnapshotFailed"


# --- the driver ----------------------------------------------------------------------------------


class Machine:
    """Answers each event as it was told to."""

    def __init__(self, **answers: Sequence[Effect]) -> None:
        self.answers = answers

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        return self.answers.get(type(event).__name__, ())


class Ports:
    """Writes down what is being handled while a message is sent."""

    driver: Driver

    def __init__(self) -> None:
        self.told: list[dict[str, str]] = []

    def send(self, sender: str, to: str, message: Any) -> None:
        self.told.append(self.driver.about())

    def set_timer(self, machine: str, effect: SetTimer) -> None:
        self.driver.set_timer(machine, effect)


def _until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def _driven(machine: Machine, *, counted: bool = True) -> Ports:
    """The ports of a machine `m` whose driver counts what it handles."""
    entries, node, ports = Entries("a"), NodeMachine("a"), Ports()
    entries.begin(3)
    count = entries.next if counted else no_entries
    ports.driver = Driver(node, lambda error: None, next_entry=count)
    node.open(MachineHost("m", machine, ports))  # type: ignore[arg-type]
    return ports


SAY = Send("b", ReconcileDone(1))


def test_a_message_and_the_timer_it_sets() -> None:
    machine = Machine(MessageReceived=[SetTimer("soon", 0), SAY], TimerFired=[SAY])
    host = _driven(machine)
    driver = host.driver
    driver.start({})
    driver.post("m", MessageReceived("n", ReconcileDone(1)), "b.9.17")
    _until(lambda: len(host.told) == 2)
    driver.stop()
    assert host.told == [
        {"id": "a.3.1", "cause": "b.9.17", "on": "ReconcileDone from n"},
        {"id": "a.3.2", "cause": "a.3.1", "on": "timer soon"},
    ]
    assert driver.about() == {}, "on another thread nothing is being handled"


def test_what_begins_has_no_cause_and_clients_count_nothing() -> None:
    machine = Machine(SnapshotFailed=[SAY])
    for host, told in (
        (_driven(machine), {"id": "a.3.1", "on": "SnapshotFailed"}),
        (_driven(machine, counted=False), {}),
    ):
        host.driver.start({"m": SnapshotFailed("x")})
        _until(lambda host=host: len(host.told) == 1)  # type: ignore[misc]
        host.driver.stop()
        assert host.told == [told]


# --- work and turns ------------------------------------------------------------------------------


class Now:
    """What is being handled now, and when."""

    def __init__(self) -> None:
        self.entry = NO_ENTRY
        self.time = 0.0


def test_work_that_is_done_names_who_asked_for_it() -> None:
    now = Now()
    work = LaneWork(["o"], lambda: now.entry, lambda: now.time)
    asked: list[Effect] = [
        RunStable("o", 1, 3, 1),
        Checkpoint("o"),
        ForkLane("o", 1),
        RunTentative("o", 1, 4, 0),
        RunTentative("o", 1, 5, 0),
    ]
    for number, effect in enumerate(asked, 1):
        now.entry = f"a.1.{number}"
        work.asked(effect)
    now.time = 2.5
    assert work.done(TentativeDone("o", 1, 5, 0, None)) == "a.1.5"
    assert work.done(TentativeDone("o", 1, 4, 0, None)) == "a.1.4"
    assert work.done(StableDone("o", 3, 3)) == "a.1.1"
    assert work.done(Checkpointed("o", 3)) == "a.1.2"
    assert work.done(StableDone("o", 4, 4)) == NO_ENTRY, "begun before a crash"
    assert work.counts["o"] == LaneCounts(
        micro_batches=2, stable_s=2.5, forks=1, tentative_buckets=2, tentative_tuples=0
    )


def test_a_lane_that_is_dropped_leaves_nothing_behind() -> None:
    work = LaneWork(["o"], lambda: "a.1.1")
    work.asked(ForkLane("o", 1))
    for bucket in range(100):
        work.asked(RunTentative("o", 1, bucket, 0))
    work.asked(DropLane("o", 1))
    assert work.done(TentativeDone("o", 1, 5, 0, None)) == NO_ENTRY
    assert not work._asked["o"].tentative


def test_phase_changes_are_told_and_timed() -> None:
    told: list[dict[str, Any]] = []
    now = Now()
    phases = PhaseLog(
        lambda event, **fields: told.append(fields),
        lambda: {"id": "a.1.4", "on": "StableDone"},
        "f@a",
        "o",
        lambda: now.time,
    )
    now.time = 2.0
    phases.changed(AnnouncePhase("o", Phase.RECOVERING, Trigger.CAUGHT_UP, Phase.STABLE))
    now.time = 5.0
    assert phases.seconds[Phase.RECOVERING] == 2.0
    phases.changed(AnnouncePhase("o", Phase.STABLE, Trigger.INPUT_FAILED, Phase.UP_FAILURE))
    now.time = 6.0
    phases.changed(AnnouncePhase("o", Phase.UP_FAILURE, Trigger.MASKED, Phase.STABLE))
    now.time = 10.0
    assert phases.seconds == {
        Phase.RECOVERING: 2.0,
        Phase.STABLE: 7.0,
        Phase.UP_FAILURE: 1.0,
        Phase.STABILIZATION: 0.0,
    }
    assert [(t["was"], t["now"], t["level"], t["id"]) for t in told] == [
        ("recovering", "stable", "info", "a.1.4"),
        ("stable", "up-failure", "warning", "a.1.4"),
        ("up-failure", "stable", "info", "a.1.4"),
    ]


# --- the trace -----------------------------------------------------------------------------------


def _handle(one: TraceFile, entry: str, cause: str, event: Event, *effects: Effect) -> None:
    one.handled(1_700_000_000_000_000, "m", entry, cause, event, None)
    for effect in effects:
        one.effect(1_700_000_000_000_000, "m", entry, effect, None)


def _said(sender: str, message: Message) -> MessageReceived:
    return MessageReceived(sender, message)


def test_a_story_over_two_nodes(tmp_path: Path) -> None:
    nodes = [tmp_path / name for name in "ab"]
    for node in nodes:
        node.mkdir()
    a, b = (TraceFile(node, node.name) for node in nodes)
    _handle(a, "a.1.1", "", TimerFired("begin"), Send("n", ReconcileRequest(1)))
    _handle(
        b, "b.1.1", "a.1.1", _said("m", ReconcileRequest(1)), Send("m", ReconcileAnswer(1, True))
    )
    _handle(a, "a.1.2", "b.1.1", _said("n", ReconcileAnswer(1, True)))
    for one in (a, b):
        one.close()
    told = story(nodes, "a.1.2")
    assert [(line["id"], line["event"]) for line in told] == [
        ("a.1.1", "TimerFired(name=begin)"),
        ("b.1.1", "MessageReceived(sender=m, message=ReconcileRequest(number=1))"),
        ("a.1.2", "MessageReceived(sender=n, message=ReconcileAnswer(number=1, granted=True))"),
    ]
    assert story(nodes[1:], "b.1.1")[0]["cause"] == "a.1.1", "the rest is on another node"
    effects = [json.loads(line) for line in (nodes[0] / trace.FILE).read_text().splitlines()][1]
    assert effects == {
        "time": "2023-11-14T22:13:20.000000+00:00",
        "node": "a",
        "machine": "m",
        "cause": "a.1.1",
        "effect": "Send(to=n, message=ReconcileRequest(number=1))",
    }


def test_a_trace_stays_small_and_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    one = TraceFile(tmp_path, "a", 10_000)
    for number in range(1000):
        _handle(one, f"a.1.{number}", f"a.1.{number - 1}" if number else "", TimerFired("tick"))
    one.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace.1.jsonl", "trace.jsonl"]
    assert all(path.stat().st_size <= 10_000 for path in tmp_path.iterdir())
    with (tmp_path / trace.FILE).open("a") as file:
        file.write('{"id": "a.1.10')
    told = story([tmp_path], "a.1.999")
    assert 50 < len(told) < 1000
    assert told[-1]["id"] == "a.1.999"


# --- nodes ---------------------------------------------------------------------------------------


def _phases(directory: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, (directory / events.FILE).read_text().splitlines())
    return [line for line in lines if line["event"] == "phase"]


@pytest.mark.timeout(120)
def test_a_turn_can_be_followed_back_to_another_node(tmp_path: Path) -> None:
    """A cut shows as a timer that found no answer; being back, as the answer of another node."""
    with SmallCluster(tmp_path, trace=True) as c:
        c.until(lambda: len(c.stable()) > 5)
        c.until(lambda: c.nodes["a"].output("counts").phase is Phase.STABLE)
        c.cut("a", "e1")
        c.until(lambda: c.nodes["a"].output("counts").phase is Phase.UP_FAILURE)
        c.heal("a", "e1")
        c.until(lambda: c.nodes["a"].output("counts").phase is Phase.STABLE)
    nodes = [tmp_path / "state" / name for name in c.cluster.nodes]
    turns = _phases(nodes[0])
    failed = next(t for t in turns if t["now"] == "up-failure" and t["was"] == "stable")
    assert failed["id"].startswith("a.")
    assert failed["cause"].startswith("a."), "it was set here"
    assert failed["on"].startswith("timer ")
    for turn in turns:
        last = story(nodes, turn["id"])[-1]
        assert last["machine"] == "counts@a"
        assert last.get("cause") == turn.get("cause")
    crossing = next(t for t in turns if t.get("cause", "a.").split(".")[0] != "a")
    told = story(nodes, crossing["id"])
    assert told[-2]["id"] == crossing["cause"]
    assert told[-2]["node"] in ("e1", "e2", "b")
    sender = crossing["on"].rpartition(" ")[2]
    assert told[-2]["machine"] == sender
    assert {line["node"] for line in told} >= {"a", told[-2]["node"]}
    assert len({line["id"] for line in told}) == len(told)


@pytest.mark.timeout(120)
def test_without_a_trace_turns_name_their_causes_all_the_same(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c:
        c.until(lambda: len(c.stable()) > 5)
        incarnation = (tmp_path / "state" / "a" / "incarnation").read_text().split()[-1]
    turns = _phases(tmp_path / "state" / "a")
    assert turns
    assert all(t["id"].startswith(f"a.{incarnation}.") for t in turns)
    assert all({"cause", "on"} <= t.keys() for t in turns)
    assert not list(tmp_path.rglob("trace*.jsonl"))


def test_a_cause_that_is_not_the_senders_is_not_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SmallCluster(tmp_path) as c:
        node = c.nodes["a"]
        offer = node._driver.offer
        causes: list[str] = []

        def offered(machine: str, event: MessageReceived, cause: str, *how: Any) -> bool:
            if isinstance(event.message, ReconcileDone):
                causes.append(cause)
            return offer(machine, event, cause, *how)

        monkeypatch.setattr(node._driver, "offer", offered)
        for cause in ("b.1.5", "a.1.5", "", "nonsense"):
            done = Wire("small", FAMILIES).encode("counts@b", "counts@a", ReconcileDone(1), cause)
            node.receive(None, done)
        assert causes == ["b.1.5", NO_ENTRY, NO_ENTRY, NO_ENTRY]
