"""Who may say what, and that what is let through harms no machine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from runtime.node.small_cluster import DIAGRAM

from australis.diagram.diagram_file import load
from australis.kernel.ids import MAX_BUCKET
from australis.kernel.machine import Event, Machine, Message, MessageReceived, SetTimer, TimerFired
from australis.node.roles import Roles
from australis.protocols.dpc.effects import (
    BucketClosed,
    Checkpoint,
    Checkpointed,
    RestoredLog,
    RunStable,
    RunTentative,
    SendLog,
    StableDone,
    Started,
    TentativeDone,
)
from australis.protocols.dpc.messages import (
    Bucket,
    Heartbeat,
    HeartbeatReply,
    NoSnapshot,
    ReconcileAnswer,
    ReconcileDone,
    ReconcileRequest,
    Snapshot,
    SnapshotRequest,
    StableData,
    StreamStatus,
    SubscriptionState,
    TentativeData,
)
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.proxies import ClientMachine, SourceMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.source_pair import SourceClaim, SourceCopy, SourceHeld, SourceView
from australis.protocols.dpc.states import State
from australis.protocols.dpc.topology import SourcePair, deploy
from australis.runtime.node.families import FAMILIES
from australis.runtime.node.wire import MAX_ITEMS, Wire, WireError
from australis.streams.buckets import END_OF_STREAM_US
from australis.streams.schema import parse_schema

pytestmark = pytest.mark.unit

DIAGRAM_ = load(DIAGRAM, "small.yaml")
TOPOLOGY = deploy(DIAGRAM_, {"counts": ("counts@a", "counts@b")}, {"reader": "counts"})
ROLES = Roles(TOPOLOGY)
SCHEMAS = {name: parse_schema("n bigint") for name in ("s1", "s2", "counts")}
BEGUN = 100
"""The machines begin behind this bucket."""


@pytest.mark.parametrize(
    ("sender", "to", "kinds"),
    [
        ("s1", "counts@a", {"HeartbeatReply", "StableData", "TentativeData"}),
        ("counts@a", "s1", {"Heartbeat"}),
        ("counts@a", "reader", {"HeartbeatReply", "StableData", "TentativeData"}),
        ("reader", "counts@a", {"Heartbeat"}),
        ("guest 1", "counts@a", {"Heartbeat"}),
        ("guest 1", "s1", {"Heartbeat"}),
        ("reader", "s1", set()),
        ("s1", "s2", set()),
        ("s1", "reader", set()),
        ("stranger", "counts@a", set()),
        (
            "counts@b",
            "counts@a",
            {
                *("ReconcileRequest", "ReconcileAnswer", "ReconcileDone"),
                *("SnapshotRequest", "Snapshot", "NoSnapshot"),
            },
        ),
    ],
)
def test_each_says_what_is_its_to_say(sender: str, to: str, kinds: set[str]) -> None:
    every: list[Message] = [
        Heartbeat(1, 1, ()),
        HeartbeatReply(1, 1, (), 1),
        StableData("s1", 0, 0, ()),
        TentativeData("s1", 1, Bucket(1, 1)),
        ReconcileRequest(1),
        ReconcileAnswer(1, True),
        ReconcileDone(1),
        SnapshotRequest("counts"),
        Snapshot("counts", 1, 0, "counts@b"),
        NoSnapshot("counts", lost=True),
    ]
    assert {type(m).__name__ for m in every if ROLES.may(sender, to, m)} == kinds


def test_proxies_of_a_source_speak_to_each_other_and_to_their_witness() -> None:
    pair = SourcePair(("s1@a", "s1@b"), "witness s1")
    roles = Roles(deploy(DIAGRAM_, {"counts": ("counts@a",)}, {"reader": "counts"}, {"s1": pair}))
    view = SourceView(1, "s1@a")
    every: list[Message] = [
        Heartbeat(1, 1, ()),
        HeartbeatReply(1, 1, (), 1),
        view,
        SourceClaim(view),
        SourceHeld(view, 1, 1, 1, 1),
        SourceCopy(view, 1, 1, 1, 1, 1, 1, 1),
    ]

    def says(sender: str, to: str) -> set[str]:
        return {type(m).__name__ for m in every if roles.may(sender, to, m)}

    for member, other in (pair.members, pair.members[::-1]):
        assert says(member, other) == {"SourceHeld", "SourceCopy"}
        assert says(member, "witness s1") == {"SourceClaim"}
        assert says("witness s1", member) == {"SourceView"}
        assert says("counts@a", member) == {"Heartbeat"}
        assert says(member, "counts@a") == {"HeartbeatReply"}
    assert says("counts@a", "witness s1") == says("s1", "s1@a") == set()


# --- machines ----------------------------------------------------------------------------------


class Peer:
    """Says whatever it may, with numbers as no honest one would choose them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def number(self) -> int:
        near = self.chance.randint(-1, 3 * BEGUN)
        return self.chance.choice([-1, 0, BEGUN - 1, BEGUN, BEGUN + 1, near, near, MAX_BUCKET])

    def count(self) -> int:
        return self.chance.choice([0, 1, 2, 3, 10, 2**62, 2**63 - 1])

    def incarnation(self) -> int:
        return self.chance.choice([0, 1, 3, 5, 1 << 42])

    def bucket(self, number: int) -> Bucket:
        return Bucket(number, self.time())

    def time(self) -> int:
        some = self.chance.randint(-END_OF_STREAM_US, END_OF_STREAM_US)
        return self.chance.choice([-END_OF_STREAM_US, 0, 10**15, END_OF_STREAM_US, some])

    def yes(self) -> bool:
        return self.chance.random() < 0.5

    def message(self, reads: Sequence[str], writes: Sequence[str]) -> Message:
        """A message to whoever reads and writes these streams."""
        wants = [
            SubscriptionState(
                s, self.yes(), self.yes(), self.yes(), *(self.number() for _ in range(4))
            )
            for s in writes
        ]
        statuses = [
            StreamStatus(
                *(s, self.chance.choice(list(State)), self.number(), self.number(), self.yes()),
                restored_upto=self.number(),
            )
            for s in reads
        ]
        after, length = self.number(), self.chance.choice([0, 1, 2, 16, 200])
        piece = tuple(self.bucket(after + 1 + i) for i in range(length))
        read, written = self.chance.choice(reads), self.chance.choice(writes)
        made: list[Message] = [
            Heartbeat(self.incarnation(), self.count(), tuple(wants)),
            HeartbeatReply(self.incarnation(), self.count(), tuple(statuses), self.time()),
            StableData(
                *(read, after, after + length, piece, self.yes(), self.yes()),
                incarnation=self.incarnation(),
            ),
            TentativeData(
                *(read, self.count(), self.bucket(self.number())),
                incarnation=self.incarnation(),
            ),
            ReconcileRequest(self.count()),
            ReconcileAnswer(self.count(), self.yes()),
            ReconcileDone(self.count()),
            SnapshotRequest(written),
            Snapshot(written, self.number(), 0, "counts@b"),
        ]
        return self.chance.choice(made)


WIRE = Wire("c", FAMILIES)


class World:
    """Drives a machine beside such peers, and watches what it asks for."""

    def __init__(self, seed: int, name: str, machine: Any, reads: Any, writes: Any) -> None:
        self.peer = Peer(seed)
        self.name = name
        self.machine: Machine = machine
        self.reads, self.writes = reads, writes
        self.now = 10**15
        self.done: list[Event] = []

    def event(self) -> Event:
        chance = self.peer.chance
        if self.done and chance.random() < 0.5:
            return self.done.pop(0)
        if chance.random() < 0.2:
            self.now += chance.choice([0, 1000, 50_000, 10**6])
            return TimerFired(chance.choice(["heartbeat", "release counts"]))
        while True:
            sender = chance.choice(["s1", "s2", "counts@a", "counts@b", "reader", "guest 1"])
            message = self.peer.message(self.reads, self.writes)
            if ROLES.may(sender, self.name, message):
                try:
                    data = WIRE.encode(sender, self.name, message)
                    whole = WIRE.decode(data, SCHEMAS, DIAGRAM_.buckets)
                except WireError:
                    continue
                return MessageReceived(sender, whole.message)

    def step(self, event: Event) -> None:
        effects = list(self.machine.handle(event, self.now))
        assert len(effects) <= MAX_ITEMS, "one message gives so much to do at most"
        for effect in effects:
            match effect:
                case SendLog(after=after, upto=upto):
                    assert 0 <= upto - after <= DpcOptions().send_window
                case RunStable(output=output, after=after, upto=upto, keep_after=kept):
                    assert 0 < upto - after <= DpcOptions().batch_buckets
                    self.done.append(StableDone(output, upto, max(upto, kept)))
                case RunTentative(output=output, epoch=epoch, bucket=bucket, entered_us=entered):
                    self.done.append(TentativeDone(output, epoch, bucket, entered, None))
                case Checkpoint(output=output):
                    self.done.append(Checkpointed(output, self.machine.outputs[output].upto))  # type: ignore[attr-defined]
                case SetTimer(at=at):
                    assert at <= END_OF_STREAM_US + 10**9


def options(seed: int) -> DpcOptions:
    return DpcOptions(bucket_us=DIAGRAM_.bucket_us, staggered=seed % 2 == 1)


def replica(seed: int) -> World:
    config = next(r for r in TOPOLOGY.replicas if r.name == "counts@a")
    machine = ReplicaMachine(config, options(seed), random.Random(seed))
    world = World(seed, "counts@a", machine, ["s1", "s2"], ["counts"])
    world.step(Started(3, (RestoredLog("counts", BEGUN, BEGUN - 5, BEGUN),)))
    return world


def source(seed: int) -> World:
    machine = SourceMachine("s1", TOPOLOGY.sources["s1"], options(seed))
    world = World(seed, "s1", machine, ["counts"], ["s1"])
    world.step(Started(3, (RestoredLog("s1", BEGUN, BEGUN - 5, BEGUN),)))
    world.done += [BucketClosed("s1", BEGUN + i) for i in range(1, 50)]
    return world


def client(seed: int) -> World:
    machine = ClientMachine("reader", "counts", ("counts@a", "counts@b"), options(seed))
    world = World(seed, "reader", machine, ["counts"], ["counts"])
    world.step(Started(3, (RestoredLog("counts", BEGUN, BEGUN, BEGUN),)))
    return world


@pytest.mark.parametrize("make", [replica, source, client])
@pytest.mark.parametrize("seed", range(10))
def test_no_message_that_is_let_through_harms_a_machine(make: Any, seed: int) -> None:
    world: World = make(seed)
    for _ in range(200):
        world.step(world.event())
