"""DPC's machines driven by hand: short ways to say what happened, lanes that work at once."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, TypeVar

from msgspec.structs import replace

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.machine import Effect, Event, MessageReceived, Send, TimerFired
from australis.protocols.dpc.blocking import Box
from australis.protocols.dpc.effects import (
    AnnouncePhase,
    Checkpoint,
    Checkpointed,
    RestoredLog,
    RunStable,
    RunTentative,
    SkipAhead,
    SkippedAhead,
    StableDone,
    Started,
    TentativeDone,
)
from australis.protocols.dpc.messages import (
    Bucket,
    Heartbeat,
    HeartbeatReply,
    StableData,
    StreamStatus,
    SubscriptionState,
    TentativeData,
)
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.outputs import Output, OutputConfig, ReplicaConfig
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.states import Phase, State, Trigger

STABLE, UP_FAILURE, STABILIZATION, FAILURE = State
E = TypeVar("E", bound=Effect)


def options(**changes: Any) -> DpcOptions:
    """Whole seconds, so that a test can be read: buckets of 1 s, X of 4 s."""
    plain: dict[str, Any] = {
        "bucket_us": SECOND,
        "max_delay_us": 4 * SECOND,
        "heartbeat_us": 250 * MILLISECOND,
        "hop_us": 100 * MILLISECOND,
        "long_failure_us": 8 * SECOND,
    }
    return DpcOptions(**(plain | changes))


def bucket(number: int, batch: Any = None) -> Bucket:
    """A bucket that a source logged as soon as it was over."""
    return Bucket(number, (number + 1) * SECOND, batch)


def piece(stream: str, after: int, upto: int, **flags: Any) -> StableData:
    """A piece of a stable log."""
    return StableData(
        stream,
        after,
        upto,
        tuple(bucket(n) for n in range(after + 1, upto + 1)),
        **{"incarnation": 1, **flags},
    )


def tentative(stream: str, number: int, epoch: int = 1, batch: Any = None) -> TentativeData:
    """A bucket of an overlay."""
    return TentativeData(stream, epoch, bucket(number, batch), incarnation=1)


def want(stream: str = "out", **changes: Any) -> SubscriptionState:
    """What a consumer wants that has nothing yet."""
    plain: dict[str, Any] = {
        "log": True,
        "overlay": False,
        "head": False,
        "have": -1,
        "tentative": -1,
        "acknowledged": -1,
        "room": 64,
    }
    values = plain | changes
    if "tentative" not in changes:
        values["tentative"] = values["have"]
    return SubscriptionState(stream, **values)


def status(
    stream: str, state: State = STABLE, end: int = -1, trimmed_upto: int = -1, overlay: bool = True
) -> StreamStatus:
    """How a producer says it is doing."""
    return StreamStatus(stream, state, trimmed_upto, end, overlay)


def of(kind: type[E], effects: Iterable[Any]) -> list[E]:
    """The effects of one kind; of lane work without what it is to work on."""
    found = [e for e in effects if isinstance(e, kind)]
    return [replace(e, inputs=()) if hasattr(e, "inputs") else e for e in found]


def sent(kind: type[Any], effects: Iterable[Any]) -> list[tuple[str, Any]]:
    """Who is sent which message of one kind."""
    return [(e.to, e.message) for e in of(Send, effects) if isinstance(e.message, kind)]


class Driver:
    """A machine with a clock of its own; it remembers whom it asked and what it said."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.now = 0
        self.effects: list[Effect] = []
        self._asked: dict[str, int] = {}
        self._answered: dict[str, int] = {}

    def event(self, event: Event) -> list[Effect]:
        """Hand over an event; everything that comes of it."""
        effects = list(self.machine.handle(event, self.now))
        for to, heartbeat in sent(Heartbeat, effects):
            self._asked[to] = heartbeat.number
        self.effects += effects
        return effects + [more for e in effects for more in self.perform(e)]

    def perform(self, effect: Effect) -> list[Effect]:
        """Carry out an effect; what comes of that."""
        return []

    def message(self, sender: str, message: Any) -> list[Effect]:
        return self.event(MessageReceived(sender, message))

    def timer(self, name: str = "heartbeat", after_us: int = 250 * MILLISECOND) -> list[Effect]:
        """Let time pass, and a timer fire."""
        self.now += after_us
        return self.event(TimerFired(name))

    def answer(self, node: str, *statuses: StreamStatus, incarnation: int = 1) -> list[Effect]:
        """A node answers a heartbeat; a new one, if it has answered the last already."""
        effects = self.timer(after_us=0) if self._answered.get(node) == self._asked[node] else []
        self._answered[node] = self._asked[node]
        return effects + self.message(
            node, HeartbeatReply(incarnation, self._asked[node], statuses, self.now)
        )

    def silence(self, seconds: float, **answers: StreamStatus) -> list[Effect]:
        """Heartbeats for so long, answered only by the nodes named."""
        effects = []
        until = self.now + int(seconds * SECOND)
        while self.now < until:
            effects += self.timer()
            for node, one in answers.items():
                effects += self.answer(node, one)
        return effects


class Node(Driver):
    """A replica that merges inputs into `out`; its lanes take no time.

    Each input is produced by the nodes given; the first letter of a node's name is the
    stream it produces: `x1` and `x2` are the replicas that produce `x`.
    """

    def __init__(
        self,
        *producers: str,
        blocking: Iterable[str] = (),
        peers: tuple[str, ...] = (),
        consumers: tuple[str, ...] = ("c",),
        hops_ahead: int = 1,
        span: int | None = None,
        name: str = "n1",
        **changes: Any,
    ) -> None:
        streams: dict[str, tuple[str, ...]] = {}
        for node in producers or ("x1", "x2", "y1"):
            streams[node[0]] = (*streams.get(node[0], ()), node)
        box = Box(tuple(streams), ("out",), tuple(blocking))
        output = OutputConfig("out", tuple(streams), consumers, (box,), hops_ahead, span)
        config = ReplicaConfig(name, streams, (output,), peers)
        super().__init__(ReplicaMachine(config, options(**changes), Random(1)))
        self.nodes = [n for nodes in streams.values() for n in nodes]
        self.slow = False
        """Whether lanes work only when told to."""
        self.jobs: list[Effect] = []

    @property
    def out(self) -> Output:
        out: Output = self.machine.outputs["out"]
        return out

    def start(self, upto: int = -1, end: int = -1, trimmed_upto: int = -1) -> list[Effect]:
        """Begin an incarnation with this much on the disk."""
        return self.event(Started(1, (RestoredLog("out", upto, trimmed_upto, end),)))

    def stable(self, upto: int = 0) -> Node:
        """Begin, all inputs stable up to a bucket; the node is STABLE then."""
        self.start()
        self.all_answer(STABLE, -1)
        self.all_give(upto)
        assert self.out.phase is Phase.STABLE
        return self

    def all_answer(self, state: State, end: int) -> list[Effect]:
        return [e for n in self.nodes for e in self.answer(n, status(n[0], state, end))]

    def all_give(self, upto: int, after: int = -1) -> list[Effect]:
        self.now = max(self.now, (upto + 1) * SECOND)
        firsts = [i.choice.curr for i in self.machine.inputs.values()]
        return [e for n in firsts for e in self.give(n, upto, after)]

    def give(self, node: str, upto: int, after: int = -1, **flags: bool) -> list[Effect]:
        """A producer sends a piece of its log."""
        return self.message(node, piece(node[0], after, upto, **flags))

    def hint(self, node: str, number: int, epoch: int = 1) -> list[Effect]:
        """A producer sends a bucket of its overlay."""
        return self.message(node, tentative(node[0], number, epoch))

    def turns(self) -> list[Trigger]:
        return [e.trigger for e in of(AnnouncePhase, self.effects)]

    def perform(self, effect: Effect) -> list[Effect]:
        if isinstance(effect, RunStable | RunTentative) and self.slow:
            self.jobs.append(effect)
            return []
        return self._do(effect)

    def _do(self, effect: Effect) -> list[Effect]:
        match effect:
            case RunStable():
                end = max(effect.upto, effect.keep_after)
                return self.event(StableDone(effect.output, effect.upto, end))
            case RunTentative():
                done = TentativeDone(
                    effect.output, effect.epoch, effect.bucket, effect.entered_us, None
                )
                return self.event(done)
            case SkipAhead(output=output):
                return self.event(SkippedAhead(output))
            case Checkpoint():
                return self.event(Checkpointed(effect.output, self.out.upto))
        return []

    def work(self) -> list[Effect]:
        """Let a slow lane do its next job."""
        return self._do(self.jobs.pop(0))
