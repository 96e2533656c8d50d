"""Deliberately broken variants of the protocol, to prove that the checkers bite.

Each one changes a single decision and names the checkers that must catch it, and the seed of the
swarm from which on they catch it within a few seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from australis.kernel.machine import Effect
from australis.protocols.dpc.effects import (
    BucketClosed,
    RunStable,
    RunTentative,
    ShipSnapshot,
)
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.messages import (
    Bucket,
    PeerDigest,
    ReconcileRequest,
    Snapshot,
    StableData,
    SubscriptionState,
    TentativeData,
    reader_key,
)
from australis.protocols.dpc.missing import Lacking, Missing
from australis.protocols.dpc.monitor import Monitor
from australis.protocols.dpc.options import Deadline, DpcOptions, Policy
from australis.protocols.dpc.outputs import Output
from australis.protocols.dpc.proxies import ClientMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.stagger import Stagger
from australis.protocols.dpc.subscribers import Subscribers
from australis.sim.dpc import broken_lanes as lanes
from australis.sim.dpc.broken_changes import CHANGE_VARIANTS
from australis.sim.dpc.broken_choices import CHOICE_VARIANTS
from australis.sim.dpc.broken_clocks import CLOCK_VARIANTS
from australis.sim.dpc.broken_disks import DISK_VARIANTS
from australis.sim.dpc.broken_logs import LOG_VARIANTS
from australis.sim.dpc.broken_loss import LOSS_VARIANTS
from australis.sim.dpc.broken_sources import SOURCE_VARIANTS
from australis.sim.dpc.engine import Digest, DigestEngine, Inputs, SharedEngine
from australis.sim.dpc.hosts import ReplicaHost, SourceHost
from australis.sim.dpc.presets import digest_rows
from australis.sim.dpc.run import Scenario
from australis.sim.harness.model import Variant

Break = Callable[[Scenario], Scenario]


# --- outputs ---------------------------------------------------------------------------


class KeepsDuplicates(Output):
    """Appends again what the log already holds when a lane restarts from a checkpoint."""

    def run_stable(self, now: int) -> list[Effect]:
        return [
            structs.replace(e, keep_after=e.after) if isinstance(e, RunStable) else e
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
        return super().take_stable(sender, structs.replace(data, after=after, digest=None), now)


class TrustsOverlay(Input):
    """Goes on using what was said tentatively after the stable tuples have come."""

    def take_stable(self, sender: str, data: StableData, now: int) -> bool:
        said = tuple(self.overlay.get(b.number, b) for b in data.buckets)
        return super().take_stable(sender, structs.replace(data, buckets=said), now)


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

    def heard(
        self, node: str, want: SubscriptionState, incarnation: int, number: int, now: int = 0
    ) -> None:
        one = self.all.get(reader_key(node, want.reader))
        before = one.sent if one is not None else -1
        super().heard(node, want, incarnation, number, now)
        if one is not None and one.sent < before:
            one.sent += 1


class SendsToAll(Subscribers):
    """Sends the log to everybody it knows of."""

    def due(
        self, trimmed_upto: int, end: int, *, settled: bool, only: str | None = None
    ) -> list[Effect]:
        for one in self.all.values():
            one.log, one.room = True, end
        return super().due(trimmed_upto, end, settled=settled)


class NeverRepeats(Subscribers):
    """Takes what was sent for received."""

    def heard(
        self, node: str, want: SubscriptionState, incarnation: int, number: int, now: int = 0
    ) -> None:
        one = self.all.get(reader_key(node, want.reader))
        before = one.sent if one is not None else -1
        super().heard(node, want, incarnation, number, now)
        if one is not None:
            one.sent = max(one.sent, before)


# --- nodes ----------------------------------------------------------------------------------


class AcknowledgesReceived(ReplicaMachine):
    """Acknowledges what it has received instead of what a checkpoint covers."""

    def _acknowledged(self, one: Input) -> int:
        return one.have


class SaysNothingIsMissing(Output):
    """Says of every tentative bucket that it rests on all sources."""

    def _missing_in(self, number: int) -> Missing:
        super()._missing_in(number)
        return ()


class ForgetsUpstream(Output):
    """Forgets what was missing at the nodes before it."""

    def _missing_in(self, number: int) -> Missing:
        for one in self.inputs:
            if number > one.have and number in one.overlay:
                one.overlay[number] = structs.replace(one.overlay[number], missing=())
        return super()._missing_in(number)


class ForgetsEarlier(Output):
    """Forgets that its state lacks what was missing in earlier buckets."""

    def _missing_in(self, number: int) -> Missing:
        self._lacking = Lacking(0)
        return super()._missing_in(number)


class NeverCompares(ReplicaMachine):
    """Tells its peers nothing of its logs."""

    def _tell_digests(self) -> list[Effect]:
        return []


class GoesOnDiffering(Output):
    """Announces that its log differs from a replica's, and goes on."""

    def run_stable(self, now: int) -> list[Effect]:
        differing, self.comparison.differing = self.comparison.differing, {}
        effects = super().run_stable(now)
        self.comparison.differing = differing
        return effects


class MixesBuckets(Output):
    """Compares the end of its log with whatever the peer tells."""

    def peer_told(self, peer: str, told: PeerDigest) -> list[Effect]:
        end = self.digests.upto
        wrong = structs.replace(told, digest=structs.replace(told.digest, bucket=end))
        return super().peer_told(peer, wrong)


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


class ForgetsBoundary(SourceHost):
    """Stamps below its last boundary after a restart."""

    def boot(self, bucket_us: int) -> None:
        if self.incarnation:
            self._log.end = -1
        super().boot(bucket_us)


# --- hosts: duties of the world ------------------------------------------------------------------


class PollutesStableLane(ReplicaHost):
    """Runs tentative tuples through the stable lane's state."""

    def _tentative(self, e: RunTentative, inputs: Any) -> None:
        super()._tentative(e, inputs)
        if e.output in self._forks:
            self._states[e.output] = self._forks[e.output][1]


class ShipsWrongPosition(ReplicaHost):
    """Sends the running state as if it were the checkpoint's."""

    def shipment(self, e: ShipSnapshot) -> Snapshot:
        state, _ = self._committed[e.stream]
        _, *log = self.stores[e.stream].snapshot()
        return Snapshot(e.stream, self.stores[e.stream].upto, e.at_us, (state, *log))


class ShowsBeforeLogging(SourceHost):
    """Lets others see tuples that are not durable yet."""

    def _close(self, after: int, upto: int, now: int) -> None:
        new = self._new(after, upto, now)
        self._log.append(new)
        self._closing = False
        self.probe.entered(self.name, new, self.world.now)
        self.later(2_000_000, self._log.sync)
        self.take(BucketClosed(self.name, upto, self._log.digests(after, upto)))


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


_PRECISION: list[tuple[str, type[Output]]] = [
    ("says nothing is missing", SaysNothingIsMissing),
    ("forgets missing upstream", ForgetsUpstream),
    ("forgets missing earlier", ForgetsEarlier),
]
_OF_PRECISION = {
    name: Variant(name, str(kind.__doc__), _replica(output_class=kind), ("precision",))
    for name, kind in _PRECISION
}
_LIST: list[tuple[str, type, Break, int, tuple[str, ...]]] = [
    ("duplicates", KeepsDuplicates, _replica(output_class=KeepsDuplicates), 2, ("logs",)),
    ("one boundary", DoesNotWaitForAll, _replica(output_class=DoesNotWaitForAll), 1, ("logs",)),
    ("never releases", NeverReleases, _replica(output_class=NeverReleases), 1, ("delay",)),
    ("releases at once", ReleasesAtOnce, _replica(output_class=ReleasesAtOnce), 1, ("masked",)),
    ("gaps", AcceptsGaps, _input(AcceptsGaps), 2, ("logs",)),
    ("trusts overlay", TrustsOverlay, _replica(input_class=TrustsOverlay), 4, ("logs",)),
    ("never switches", NeverSwitches, _input(NeverSwitches), 1, ("delay",)),
    ("holds everything", HoldsEverything, _replica(input_class=HoldsEverything), 1, ("bounded",)),
    ("truncates early", TruncatesEarly, _subscribers(TruncatesEarly), 1, ("kept",)),
    ("wrong replay", ReplaysFromWrongPlace, _subscribers(ReplaysFromWrongPlace), 12, ("liveness",)),
    ("sends to all", SendsToAll, _subscribers(SendsToAll), 1, ("subscribed",)),
    ("never repeats", NeverRepeats, _subscribers(NeverRepeats), 12, ("liveness",)),
    (
        "acknowledges received",
        *(AcknowledgesReceived, _with(replica_class=AcknowledgesReceived), 2, ("kept",)),
    ),
    ("both stabilise", Grants, _staggered(Grants), 1, ("turns",)),
    ("never notices", NeverNotices, _replica(monitor_class=NeverNotices), 11, ("delay",)),
    (
        "forgets tentative",
        ForgetsTentative,
        _with(client_class=ForgetsTentative),
        1,
        ("corrected",),
    ),
    ("done early", SaysDoneEarly, _with(client_class=SaysDoneEarly), 1, ("corrected",)),
    ("old tentative", TakesOldTentative, _with(client_class=TakesOldTentative), 5, ("corrected",)),
    # Its consumers notice that its log has gone back before any log can differ.
    ("forgets boundary", ForgetsBoundary, _with(source_host=ForgetsBoundary), 5, ("disks",)),
    (
        "pollutes stable lane",
        *(PollutesStableLane, _with(replica_host=PollutesStableLane), 1, ("logs",)),
    ),
    *((n, one, _with(replica_host=one), 1, ("tentative",)) for n, one in lanes.HOSTS.items()),
    *((n, one, _input(one), 1, ("tentative",)) for n, one in lanes.INPUTS.items()),
    ("wrong snapshot", ShipsWrongPosition, _with(replica_host=ShipsWrongPosition), 2, ("logs",)),
    ("depends on history", DependsOnHistory, _history, 1, ("logs",)),
]

_DIFFERENCES: list[tuple[str, type, Break]] = [
    ("never compares", NeverCompares, _with(replica_class=NeverCompares)),
    ("goes on differing", GoesOnDiffering, _replica(output_class=GoesOnDiffering)),
    ("mixes buckets", MixesBuckets, _replica(output_class=MixesBuckets)),
]
_OF_DIFFERENCES = {
    name: Variant(name, str(kind.__doc__), apply, ("differences",), preset="differing")
    for name, kind, apply in _DIFFERENCES
}

VARIANTS: Mapping[str, Variant[Scenario]] = {
    name: Variant(name, str(kind.__doc__).strip(), apply, caught_by, range(first, first + 60))
    for name, kind, apply, first, caught_by in _LIST
} | {
    "shows before logging": Variant(
        *("shows before logging", str(ShowsBeforeLogging.__doc__)),
        # Who has read such tuples shows that the source's log has gone back.
        *(_with(source_host=ShowsBeforeLogging), ("disks",)),
        preset="crashes",
    ),
    "k times D": Variant(
        *("k times D", "Counts the accepted delay anew at each SUnion (thesis 4.11.1)."),
        *(_per_node, ("delay",)),
    ),
    **SOURCE_VARIANTS,
    **LOSS_VARIANTS,
    **_OF_DIFFERENCES,
    **CLOCK_VARIANTS,
    **_OF_PRECISION,
    **CHOICE_VARIANTS,
    **LOG_VARIANTS,
    **DISK_VARIANTS,
    **CHANGE_VARIANTS,
}
