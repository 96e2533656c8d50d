"""Deliberately broken variants of the protocol, to prove that the checkers bite.

Each one changes a single decision. A checker that never fails is worthless; the tests
run every variant until some checker has caught it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from australis.kernel.machine import Effect
from australis.protocols.dpc.effects import (
    BucketClosed,
    CloseBucket,
    RunStable,
    RunTentative,
    ShipSnapshot,
    Started,
)
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.messages import (
    Bucket,
    ReconcileRequest,
    Snapshot,
    StableData,
    TentativeData,
    Want,
    reader_key,
)
from australis.protocols.dpc.monitor import Monitor
from australis.protocols.dpc.options import Deadline, DpcOptions, Policy
from australis.protocols.dpc.outputs import Output
from australis.protocols.dpc.proxies import ClientMachine, SourceMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.stagger import Stagger
from australis.protocols.dpc.subscribers import Subscribers
from australis.sim.dpc.engine import Digest, DigestEngine, Inputs, SharedEngine
from australis.sim.dpc.hosts import ReplicaHost, SourceHost
from australis.sim.dpc.presets import digest_rows
from australis.sim.dpc.run import Scenario

Break = Callable[[Scenario], Scenario]


@dataclass(frozen=True)
class Variant:
    """One way to break the protocol."""

    name: str
    says: str
    apply: Break


# --- outputs ---------------------------------------------------------------------------


class KeepsDuplicates(Output):
    """Appends again what the log already holds when a lane restarts from a checkpoint."""

    def run_stable(self, now: int) -> list[Effect]:
        return [
            RunStable(e.output, e.after, e.upto, e.after) if isinstance(e, RunStable) else e
            for e in super().run_stable(now)
        ]


class DoesNotWaitForAll(Output):
    """Takes a bucket for stable when one input's boundary has passed it."""

    @property
    def target(self) -> int:
        return max(i.have for i in self.inputs)


class NeverReleases(Output):
    """Waits for the missing input, however long it takes."""

    def release(self, now: int) -> list[Effect]:
        return []


class ReleasesAtOnce(Output):
    """Does not wait for a short failure to pass."""

    def _deadline(self, number: int, known: list[Bucket], now: int) -> int:
        return now


# --- inputs -----------------------------------------------------------------------------


class AcceptsGaps(Input):
    """Takes a piece of a log that does not follow what it has."""

    def take_stable(self, sender: str, data: StableData, now: int) -> bool:
        after = min(data.after, self.have)
        return super().take_stable(sender, StableData(
            data.stream, after, data.upto, data.buckets, data.undo, data.rec_done
        ), now)  # fmt: skip


class TrustsOverlay(Input):
    """Goes on using what was said tentatively after the stable tuples have come."""

    def take_stable(self, sender: str, data: StableData, now: int) -> bool:
        overlay, said = dict(self.overlay), dict(self.said)
        taken = super().take_stable(sender, data, now)
        self.overlay, self.said = overlay, said
        return taken

    def bucket(self, number: int) -> Bucket | None:
        return self.overlay.get(number) or self.stable.get(number)


class NeverSwitches(Input):
    """Stays with its first replica."""

    def choose(self, now: int) -> bool:
        self._look()
        return False


class HoldsEverything(Input):
    """Takes whatever comes."""

    @property
    def room(self) -> int:
        return self.have + 1_000


# --- subscribers --------------------------------------------------------------------------


class TruncatesEarly(Subscribers):
    """Forgets what the first consumer has acknowledged."""

    @property
    def acknowledged(self) -> int:
        return max((one.acknowledged for one in self.all.values()), default=-1)


class ReplaysFromWrongPlace(Subscribers):
    """Goes on one bucket too far when a consumer subscribes again."""

    def heard(self, node: str, want: Want, life: int, number: int, now: int = 0) -> None:
        one = self.all.get(reader_key(node, want.reader))
        before = one.sent if one is not None else -1
        super().heard(node, want, life, number, now)
        if one is not None and one.sent < before:
            one.sent += 1


class SendsToAll(Subscribers):
    """Sends the log to everybody it knows of."""

    def due(self, begins: int, end: int, *, settled: bool, only: str | None = None) -> list[Effect]:
        for one in self.all.values():
            one.log, one.room = True, end
        return super().due(begins, end, settled=settled)


class NeverRepeats(Subscribers):
    """Takes what was sent for received."""

    def heard(self, node: str, want: Want, life: int, number: int, now: int = 0) -> None:
        one = self.all.get(reader_key(node, want.reader))
        before = one.sent if one is not None else -1
        super().heard(node, want, life, number, now)
        if one is not None:
            one.sent = max(one.sent, before)


# --- nodes ----------------------------------------------------------------------------------


class AcknowledgesReceived(ReplicaMachine):
    """Acknowledges what it has received instead of what a checkpoint covers."""

    def _acknowledged(self, one: Input) -> int:
        return one.have


class Grants(Stagger):
    """Lets others stabilise whatever it does itself."""

    def asked(self, peer: str, request: ReconcileRequest, needs: bool, now: int) -> list[Effect]:
        active, self.active = self.active, False
        answer = super().asked(peer, request, False, now)
        self.active = active
        self._promised = None
        return answer


class NeverNotices(Monitor):
    """Takes silence for good news."""

    @property
    def failed(self) -> bool:
        return False


class ForgetsTentative(ClientMachine):
    """Forgets when it switches that the application has tentative tuples."""

    def _choose(self, now: int) -> list[Effect]:
        effects = super()._choose(now)
        if effects:
            self._told = -1
        return effects


class SaysDoneEarly(ClientMachine):
    """Says REC_DONE with the first correction."""

    def _settle(self) -> list[Effect]:
        told, self._told = self._told, -1
        effects = super()._settle()
        self._told = told
        return effects


class TakesOldTentative(ClientMachine):
    """Hands on tentative tuples of buckets that are stable already."""

    def _tentative(self, sender: str, data: TentativeData) -> list[Effect]:
        have, self.input.have = self.input.have, -1
        effects = super()._tentative(sender, data)
        self.input.have = have
        return effects


class ForgetsBoundary(SourceMachine):
    """Stamps below its last boundary after a restart."""

    def handle(self, event: Any, now: int) -> Any:
        if isinstance(event, Started):
            event = Started(event.life)
        return super().handle(event, now)


# --- hosts: what the world must do for the machines ----------------------------------------------


class PollutesStableLane(ReplicaHost):
    """Runs tentative tuples through the stable lane's state."""

    def _tentative(self, e: RunTentative, inputs: Any) -> None:
        super()._tentative(e, inputs)
        if e.output in self._forks:
            self._states[e.output] = self._forks[e.output][1]


class ShipsWrongPosition(ReplicaHost):
    """Sends the running state as if it were the checkpoint's."""

    def _ship(self, e: ShipSnapshot) -> None:
        state, _ = self._committed[e.stream]
        _, log = self.stores[e.stream].snapshot()
        snapshot = Snapshot(e.stream, self.stores[e.stream].upto, 0, (state, log))
        self.world.send(self.name, e.to, snapshot)


class ShowsBeforeLogging(SourceHost):
    """Lets others see tuples that are not durable yet."""

    def _close(self, e: CloseBucket) -> None:
        new = self._new(e)
        self._log.append(new)
        self.probe.entered(self.name, new, self.world.now)
        self.later(2_000_000, self._log.sync)
        self.take(BucketClosed(e.stream, e.upto))


class CountingEngine(DigestEngine):
    """Numbers its output by how often it was asked."""

    def __init__(self) -> None:
        self._steps = 0

    def step(self, state: Digest, inputs: Inputs, number: int) -> tuple[Digest, Digest | None]:
        self._steps += 1
        state, batch = super().step(state, inputs, number)
        if batch is None:
            return state, None
        return state, Digest(batch.value + b"%d" % (self._steps - number), batch.num_rows)


class DependsOnHistory(ReplicaHost):
    """Gives ids that depend on what the replica happened to process before."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._engines = {stream: SharedEngine(CountingEngine()) for stream in self._engines}


# --- the list -------------------------------------------------------------------------------------


def _replica(**parts: Any) -> Break:
    """A replica machine with some of its parts replaced."""

    def apply(scenario: Scenario) -> Scenario:
        broken = type("Broken", (scenario.replica_class,), parts)
        return replace(scenario, replica_class=broken)

    return apply


def _subscribers(kind: type[Subscribers]) -> Break:
    return _replica(output_class=type("Broken", (Output,), {"subscribers_class": kind}))


def _input(kind: type[Input]) -> Break:
    client = type("Broken", (ClientMachine,), {"input_class": kind})
    return lambda s: replace(_replica(input_class=kind)(s), client_class=client)


def _options(**changes: Any) -> Break:
    return lambda s: replace(s, options=replace(s.options, **changes))


def _per_node(scenario: Scenario) -> Scenario:
    options: DpcOptions = scenario.options
    slow = replace(options, deadline=Deadline.PER_NODE, up_failure=Policy.DELAY)
    return replace(scenario, options=slow)


def _history(scenario: Scenario) -> Scenario:
    engines = dict.fromkeys(scenario.engines, CountingEngine)
    rows = digest_rows(scenario.seed)
    return replace(scenario, engines=engines, rows=rows, replica_host=DependsOnHistory)


def _staggered(kind: type[Stagger]) -> Break:
    return lambda s: _options(staggered=True)(_replica(stagger_class=kind)(s))


def _with(**fields: Any) -> Break:
    return lambda s: replace(s, **fields)


_LIST = [
    ("duplicates", KeepsDuplicates, _replica(output_class=KeepsDuplicates)),
    ("one boundary", DoesNotWaitForAll, _replica(output_class=DoesNotWaitForAll)),
    ("never releases", NeverReleases, _replica(output_class=NeverReleases)),
    ("releases at once", ReleasesAtOnce, _replica(output_class=ReleasesAtOnce)),
    ("gaps", AcceptsGaps, _input(AcceptsGaps)),
    ("trusts overlay", TrustsOverlay, _replica(input_class=TrustsOverlay)),
    ("never switches", NeverSwitches, _input(NeverSwitches)),
    ("holds everything", HoldsEverything, _replica(input_class=HoldsEverything)),
    ("truncates early", TruncatesEarly, _subscribers(TruncatesEarly)),
    ("wrong replay", ReplaysFromWrongPlace, _subscribers(ReplaysFromWrongPlace)),
    ("sends to all", SendsToAll, _subscribers(SendsToAll)),
    ("never repeats", NeverRepeats, _subscribers(NeverRepeats)),
    ("acknowledges received", AcknowledgesReceived, _with(replica_class=AcknowledgesReceived)),
    ("both stabilise", Grants, _staggered(Grants)),
    ("never notices", NeverNotices, _replica(monitor_class=NeverNotices)),
    ("forgets tentative", ForgetsTentative, _with(client_class=ForgetsTentative)),
    ("done early", SaysDoneEarly, _with(client_class=SaysDoneEarly)),
    ("old tentative", TakesOldTentative, _with(client_class=TakesOldTentative)),
    ("forgets boundary", ForgetsBoundary, _with(source_class=ForgetsBoundary)),
    ("pollutes stable lane", PollutesStableLane, _with(replica_host=PollutesStableLane)),
    ("wrong snapshot", ShipsWrongPosition, _with(replica_host=ShipsWrongPosition)),
    ("shows before logging", ShowsBeforeLogging, _with(source_host=ShowsBeforeLogging)),
    ("depends on history", DependsOnHistory, _history),
]

VARIANTS: Mapping[str, Variant] = {
    name: Variant(name, str(kind.__doc__).strip(), apply) for name, kind, apply in _LIST
} | {
    "k times D": Variant(
        "k times D", "Counts the accepted delay anew at each SUnion (thesis 4.11.1).", _per_node
    )
}
