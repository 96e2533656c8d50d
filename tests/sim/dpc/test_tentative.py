"""What tentative lanes say: the replay and its checker, on events made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from protocols.dpc.hand import bucket, options

from australis.node.hosts import HEAD_EPOCH
from australis.protocols.dpc.effects import ForkLane, RunTentative, SkipAhead, TentativeDone
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.messages import TentativeData
from australis.protocols.dpc.monitor import Monitor
from australis.protocols.dpc.proxies import ClientMachine, Tentatives
from australis.sim.dpc.checkers.tentative import TentativeContent
from australis.sim.dpc.engine import Digest, DigestEngine, SharedEngine
from australis.sim.dpc.oracle import Oracle
from australis.sim.dpc.probes import Violation

ENGINE = DigestEngine()


def rows(word: str) -> Digest:
    return Digest(word.encode())


def state_after(*buckets: tuple[Digest | None, Digest | None], first: int = 0) -> Digest:
    """The state of `out` after these buckets of `x` and `y`."""
    state = DigestEngine.initial
    for number, inputs in enumerate(buckets, first):
        state, _ = ENGINE.step(state, inputs, number)
    return state


def heard(producer: str) -> Monitor:
    """What a node knows of a producer that has answered a heartbeat in its first incarnation."""
    monitor = Monitor(producer, ("x", "y"), misses=3)
    monitor.clock.sampled(1, asked_us=0, at_us=0, now=0)
    return monitor


class Scene:
    """Node n1 reads the sources x and y, which have logged three buckets; a client reads `out`."""

    def __init__(self) -> None:
        plans: Any = {"out": SimpleNamespace(inputs=("x", "y"))}
        self.oracle = Oracle(plans, {"out": SharedEngine(ENGINE)})
        for source in ("x", "y"):
            self.oracle.entered(source, [bucket(n, rows(f"{source}{n}")) for n in range(3)])
        self.checker = TentativeContent(self.oracle, {"c": "out"})
        self.x, self.y = (Input(s, {}, f"{s}1", options()) for s in "xy")
        output = SimpleNamespace(stream="out", inputs=(self.x, self.y), upto=0)
        self.machine: Any = SimpleNamespace(
            inputs={"x": self.x, "y": self.y},
            outputs={"out": output},
            monitors={name: heard(name) for name in ("x1", "y1", "y2")},
        )
        for one in (self.x, self.y):
            one.stable.add([bucket(0, rows(f"{one.stream}0"))], 0)
            one.have = 0

    def stable(self, one: Input, number: int) -> None:
        one.stable.add([bucket(number, rows(f"{one.stream}{number}"))], number)
        one.have = number

    def arrives(self, one: Input, number: int, what: str, epoch: int = HEAD_EPOCH) -> None:
        data = TentativeData(one.stream, epoch, bucket(number, rows(what)), incarnation=1)
        sender = one.choice.curr
        self.checker.received("n1", self.machine, sender, data)
        one.take_tentative(sender, data)

    def forks(self, epoch: int = 1, upto: int = 0) -> None:
        self.machine.outputs["out"].upto = upto
        self.checker.forked("n1", self.machine, ForkLane("out", epoch))

    def releases(self, number: int, epoch: int = 1) -> None:
        inputs = (self.x.spans(number), self.y.spans(number))
        effect = RunTentative("out", epoch, number, 0, inputs)
        self.checker.released("n1", self.machine, effect)

    def says(self, number: int, what: Digest | None, epoch: int = 1) -> None:
        self.checker.computed("n1", TentativeDone("out", epoch, number, 0, what))


X0, Y0, X1, X2 = rows("x0"), rows("y0"), rows("x1"), rows("x2")
FIRST = state_after((X0, Y0), (X1, None))
"""What must be said of bucket 1 where x alone is there."""


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def released(scene: Scene) -> Scene:
    """Bucket 1 is released with what is there of x."""
    scene.forks()
    scene.stable(scene.x, 1)
    scene.releases(1)
    return scene


def test_what_follows_from_what_was_there(released: Scene) -> None:
    released.says(1, FIRST)
    released.stable(released.x, 2)
    released.arrives(released.y, 2, "y2")
    released.releases(2)
    released.says(2, state_after((X0, Y0), (X1, None), (X2, rows("y2"))))
    assert released.checker.compared == 3


@pytest.mark.parametrize(
    "said",
    [
        None,
        state_after((X0, Y0), (None, None)),
        state_after((X1, None), first=1),
        state_after((X0, Y0), (X1, rows("y1"))),
    ],
    ids=["nothing", "inputs ignored", "an older state", "an input that was missing"],
)
def test_something_else_is_said(released: Scene, said: Digest | None) -> None:
    with pytest.raises(Violation, match="n1 computed other tentative tuples in bucket 1 of out"):
        released.says(1, said)


def test_an_epochs_rows_twice(released: Scene) -> None:
    twice = ENGINE.step(FIRST, (X1, None), 1)[0]
    with pytest.raises(Violation, match="other tentative tuples"):
        released.says(1, twice)


def test_a_new_lane_begins_at_the_stable_one(released: Scene) -> None:
    released.stable(released.y, 1)
    released.forks(epoch=2, upto=1)
    released.stable(released.x, 2)
    released.releases(2, epoch=2)
    with pytest.raises(Violation, match="other tentative tuples in bucket 2"):
        released.says(2, ENGINE.step(FIRST, (X2, None), 2)[0], epoch=2)
    released.says(2, state_after((X0, Y0), (X1, rows("y1")), (X2, None)), epoch=2)


def test_a_lane_that_was_left_reads_nothing_more(released: Scene) -> None:
    released.forks(epoch=2)
    released.stable(released.x, 2)
    with pytest.raises(Violation, match="on a lane that it has left"):
        released.releases(2, epoch=1)


def test_a_lane_forked_where_the_state_is_incomplete(scene: Scene) -> None:
    scene.checker.skipped("n1", SkipAhead("out", 0, 2))
    scene.forks(upto=1)
    scene.stable(scene.x, 2)
    scene.releases(2)
    scene.says(2, state_after((X1, rows("y1")), (X2, None), first=1))
    scene.checker.installed("n1", scene.machine, "out")
    scene.forks(epoch=2, upto=1)
    scene.releases(2, epoch=2)
    scene.says(2, state_after((X0, Y0), (X1, rows("y1")), (X2, None)), epoch=2)


# --- what a lane is given ---------------------------------------------------------------------------


def test_an_input_that_was_there_is_not_given(scene: Scene) -> None:
    scene.forks()
    scene.stable(scene.x, 1)
    effect = RunTentative("out", 1, 1, 0, ((), ()))
    with pytest.raises(Violation, match="nothing of what there was of x in bucket 1"):
        scene.checker.released("n1", scene.machine, effect)


def test_other_tuples_are_given(scene: Scene) -> None:
    scene.forks()
    scene.x.stable.add([bucket(1, rows("made up"))], 1)
    scene.x.have = 1
    with pytest.raises(Violation, match="other tuples than there was of x"):
        scene.releases(1)


def test_something_is_given_that_never_arrived(scene: Scene) -> None:
    scene.forks()
    scene.y.overlay[1] = bucket(1, rows("y1"))
    with pytest.raises(Violation, match="tuples of y in bucket 1 that nobody sent"):
        scene.releases(1)


def test_something_that_arrived_was_dropped(scene: Scene) -> None:
    scene.forks()
    scene.arrives(scene.y, 1, "y1")
    del scene.y.overlay[1]
    with pytest.raises(Violation, match="has dropped what it received of y in bucket 1"):
        scene.releases(1)


def test_only_what_comes_from_a_replica_that_is_read_counts(scene: Scene) -> None:
    scene.forks()
    scene.stable(scene.x, 1)
    data = TentativeData("y", HEAD_EPOCH, bucket(1, rows("y1")), incarnation=1)
    scene.checker.received("n1", scene.machine, "y2", data)
    scene.releases(1)
    scene.says(1, FIRST)


def test_what_comes_before_the_clock_of_its_sender_is_known_is_lost(scene: Scene) -> None:
    scene.forks()
    scene.stable(scene.x, 1)
    data = TentativeData("y", HEAD_EPOCH, bucket(1, rows("y1")), incarnation=2)
    scene.checker.received("n1", scene.machine, "y1", data)
    scene.releases(1)
    scene.says(1, FIRST)


# --- what others receive ------------------------------------------------------------------------------


def client() -> ClientMachine:
    machine = ClientMachine("c", "out", ("n1",), options())
    machine.monitors["n1"].clock.sampled(1, asked_us=0, at_us=0, now=0)
    return machine


def data(what: Digest | None, number: int = 1, epoch: int = 1) -> TentativeData:
    return TentativeData("out", epoch, bucket(number, what), incarnation=1)


def test_a_client_delivers_what_it_received(released: Scene) -> None:
    released.checker.received("c", client(), "n1", data(FIRST))
    released.checker.delivered("c", Tentatives(bucket(1, FIRST)), 0)
    with pytest.raises(Violation, match="c delivered tuples in bucket 1 that nobody sent"):
        released.checker.delivered("c", Tentatives(bucket(1)), 0)


def test_what_arrives_is_what_the_lane_must_say(released: Scene) -> None:
    with pytest.raises(Violation, match="n1 sent other tentative tuples in bucket 1 of out"):
        released.checker.received("c", client(), "n1", data(X1))
    with pytest.raises(Violation, match="n1 sent bucket 2 of out, which no lane has read"):
        released.checker.received("c", client(), "n1", data(X1, number=2))


def test_the_head_of_a_log_is_true(released: Scene) -> None:
    whole = state_after((X0, Y0), (X1, rows("y1")))
    released.checker.received("c", client(), "n1", data(whole, epoch=HEAD_EPOCH))
    with pytest.raises(Violation, match="n1 sent other tentative tuples"):
        released.checker.received("c", client(), "n1", data(FIRST, epoch=HEAD_EPOCH))
