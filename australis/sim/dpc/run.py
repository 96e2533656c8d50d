"""One run: a topology, faults, a safety phase, and a liveness phase in which all faults heal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from australis.deployment.cluster import machine_name
from australis.deployment.deployed import Deployment
from australis.kernel.machine import Message
from australis.kernel.rng import SeedTree
from australis.kernel.trace import NO_CAUSE, Trace
from australis.protocols.change.events import ChangeOptions
from australis.protocols.change.steward import StewardMachine
from australis.protocols.dpc.effects import AnnouncePhase
from australis.protocols.dpc.messages import Heartbeat
from australis.protocols.dpc.options import DpcOptions, Policy, WhenFull
from australis.protocols.dpc.outputs import ReplicaConfig
from australis.protocols.dpc.proxies import ClientMachine, SourceMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.source_pair import SourceMember, SourceWitness, Standing
from australis.protocols.dpc.states import Phase
from australis.protocols.dpc.subscribers import ABSENT_US
from australis.protocols.dpc.topology import ClientConfig, Topology
from australis.sim.dpc.checkers.acknowledged import Acknowledged, OneLog
from australis.sim.dpc.checkers.bounded import BoundedBuffers
from australis.sim.dpc.checkers.corrected import Corrected
from australis.sim.dpc.checkers.delay import BoundedDelay
from australis.sim.dpc.checkers.deployments import of_deployments
from australis.sim.dpc.checkers.differences import DifferencesAnnounced
from australis.sim.dpc.checkers.disks import DamageTold
from australis.sim.dpc.checkers.entered import EntryTimesKnown
from australis.sim.dpc.checkers.kept import KeptUpstream
from australis.sim.dpc.checkers.logs import EqualLogs
from australis.sim.dpc.checkers.logs_bounded import BoundedLogs
from australis.sim.dpc.checkers.loss import LossTold, behind_losses
from australis.sim.dpc.checkers.masked import ShortFailuresMasked
from australis.sim.dpc.checkers.one_at_a_time import OneAtATime
from australis.sim.dpc.checkers.precision import Precision
from australis.sim.dpc.checkers.progress import ForwardProgress
from australis.sim.dpc.checkers.rows import EveryRowOnce
from australis.sim.dpc.checkers.stable import StableAtClients
from australis.sim.dpc.checkers.subscribed import Subscribed
from australis.sim.dpc.checkers.tentative import TentativeContent
from australis.sim.dpc.dynamic import DynamicCluster, PlannedChange, PlannedDrain
from australis.sim.dpc.engine import DifferingEngine, SharedEngine
from australis.sim.dpc.event_source import EventSources, EventTimeHost
from australis.sim.dpc.hosts import ClientHost, Costs, ReplicaHost, SourceHost
from australis.sim.dpc.inflict import DpcInflictor
from australis.sim.dpc.lies import LyingDisks
from australis.sim.dpc.oracle import Oracle
from australis.sim.dpc.pairs import MemberHost, Producers, SimWitness
from australis.sim.dpc.probes import Checker, Probe, Violation
from australis.sim.dpc.store import SimLog
from australis.sim.dpc.truth import Truth
from australis.sim.faults import EXTRA_US, Fault, Kind, Lie
from australis.sim.network import Link, Network
from australis.sim.world import Clock, World

FOR_EVER_US = 1 << 60
HEARD_US = 3_000_000
"""Nodes that have been within reach of each other for this time have heard each other."""
PATIENCE_US = 8_000_000
"""A client that was away waits for longer than this before it skips what a replica may have."""


@dataclass(frozen=True)
class Scenario:
    """Everything that a run depends on."""

    seed: int
    topology: Topology
    engines: Mapping[str, Callable[[], Any]]
    """The engine that computes each stream."""
    rows: Callable[[str, int], Any]
    """The rows of a source in a bucket."""
    options: DpcOptions
    costs: Costs = field(default_factory=Costs)
    link: Link = field(default_factory=Link)
    faults: tuple[Fault, ...] = ()
    safety_us: int = 120_000_000
    liveness_us: int = 120_000_000
    ahead_us: Mapping[str, int] = field(default_factory=dict)
    """How far the clocks of replicas are ahead, besides what is drawn."""
    clock_offset_us: int = 0
    """How far clocks may be off; those of the sources are off together."""
    source_skew_us: int = 0
    """How far the clocks of the sources may be apart, which is how long a merge waits."""
    clock_drift: float = 0.0
    clock_step_us: int = 0
    """How far a replica's clock may be stepped while it is down."""
    progress_us: int | None = None
    """The longest time a client may get nothing stable during faults; None: unchecked."""
    differs: tuple[str, int] | None = None
    """A replica that computes other tuples than its peers, and from which bucket on."""
    promised: int | None = None
    """With bounded logs, the number of latest buckets that every client gets corrected; negative
    where states are lost, whose streams begin anew so many buckets behind the newest."""
    loses_states: bool = False
    """Whether all replicas of a fragment lose their disks: then nothing is promised in time."""
    replica_class: type[ReplicaMachine] = ReplicaMachine
    client_class: type[ClientMachine] = ClientMachine
    source_class: type[SourceMachine] = SourceMachine
    replica_host: type[ReplicaHost] = ReplicaHost
    source_host: Callable[..., SourceHost] = SourceHost
    member_class: type[SourceMember] = SourceMember
    witness_class: type[SourceWitness] = SourceWitness
    member_host: type[MemberHost] = MemberHost
    copy_buckets: int = 20
    """The largest number of buckets in one copy of the log of a source with two proxies."""
    deployment: Deployment | None = None
    """What runs where at first, where that changes; None: it does not."""
    nodes: tuple[str, ...] = ()
    """The nodes of a deployment that changes."""
    steward_class: type[StewardMachine] = StewardMachine
    cluster_class: type[DynamicCluster] = DynamicCluster
    change_options: ChangeOptions = field(default_factory=ChangeOptions)
    changes: tuple[PlannedChange, ...] = ()
    """The changes of the deployment, one after the other."""
    drains: tuple[PlannedDrain, ...] = ()
    """The nodes that are drained meanwhile."""
    masks_source_faults: bool = False
    """Whether faults of a source's two proxies are so far apart that clients see nothing of it."""

    @property
    def left(self) -> set[str]:
        """The nodes that never come back."""
        over_us = self.safety_us + self.liveness_us
        return {f.node for f in self.faults if f.until_us > over_us}

    @property
    def let_go(self) -> set[str]:
        """The nodes that are away for so long that logs need not wait for them."""
        return let_go(self.options, self.faults)


def let_go(options: DpcOptions, faults: Iterable[Fault]) -> set[str]:
    """The nodes that are away for so long that logs need not wait for them."""
    skips = options.log.bounded and options.log.full is WhenFull.SKIP
    leases = options.leases.items()
    waits = {n: ABSENT_US if skips else one.silence_us or FOR_EVER_US for n, one in leases}
    return {f.node for f in faults if f.lasts_us >= waits.get(f.node, FOR_EVER_US)}


@dataclass
class RunOutcome:
    """How a run ended."""

    scenario: Scenario
    violation: Violation | None
    simulated_us: int
    delivered: int
    tentative: int
    rows: dict[int, int]
    """The number of times each row of table 4.3 was taken."""
    turns: dict[str, int]
    """The number of times each phase change was taken."""
    trace: Trace | None


class Run:
    """A scenario while it runs."""

    def __init__(
        self,
        scenario: Scenario,
        trace: Trace | None = None,
        extra: Callable[[Run], list[Checker]] = lambda run: [],
    ) -> None:
        self.scenario = scenario
        self.topology = topology = scenario.topology
        """The topology as it is now."""
        self.cluster: DynamicCluster | None = None
        """The nodes, where the deployment changes."""
        chance = SeedTree(scenario.seed)
        self.world = World(Network(chance.stream("network"), scenario.link), trace)
        self._steps = chance.stream("steps")
        self._disks = LyingDisks(chance.stream("lies"))
        self.engines = {s: SharedEngine(make()) for s, make in scenario.engines.items()}
        self.oracle = Oracle(topology.plans, self.engines)
        self.clients = {c.name: c.stream for c in topology.clients}
        let_go = scenario.let_go
        self.stable = StableAtClients(self.oracle, self.clients, scenario.promised, let_go)
        self.corrected = Corrected(self.clients, scenario.left)
        self.coverage = Coverage()
        bounded = scenario.options.keep_log is not None
        self.wiped = {f.node for f in scenario.faults if f.kind in (Kind.WIPE, *Lie)} | let_go
        """The nodes that may need a snapshot."""
        self.loss = LossTold(
            topology, scenario.faults, self.clients, bounded, let_go, self._has, self._counts
        )
        self.damage = DamageTold(topology, self.oracle, self._log)
        self.producers: dict[str, Producers] = {}
        self.members: dict[str, list[MemberHost]] = {}
        """The proxies of the sources that have two."""
        self._pushed_back = False
        checkers: list[Checker] = [
            Feed(self.oracle),
            Subscribed(),
            BoundedBuffers(scenario.options),
            KeptUpstream(
                self.wiped,
                behind_losses(topology, scenario.faults),
                self._counts,
            ),
            self.loss,
            self.damage,
            DifferencesAnnounced(
                topology,
                scenario.options.heartbeat_us,
                lambda: self.world.now,
                expected=scenario.differs is not None,
            ),
            self.coverage,
        ]
        if scenario.deployment is not None:
            checkers += of_deployments(self, scenario.deployment)
        timely = self._timely()
        if scenario.differs is None:  # what differs is not promised to be right, or in time
            checkers += [self.stable, EqualLogs(self.oracle), self.corrected]
            checkers += [*self._of_lanes(), Precision(topology), *timely]
        if scenario.options.bounded:
            checkers.append(BoundedLogs(scenario.options, self._log, topology.pairs))
        if topology.pairs:
            one_log = OneLog(topology.pairs)
            checkers += [one_log, Acknowledged(one_log, self.producers, self.members)]
        if isinstance(scenario.source_host, EventSources):
            checkers.append(EveryRowOnce(scenario.options.bucket_us, self._event_sources))
        if scenario.progress_us is not None:
            quiet = scenario.safety_us - 1_000_000
            checkers.append(ForwardProgress(self.clients, scenario.progress_us, quiet))
        if scenario.options.staggered:
            checkers.append(OneAtATime(self._peers, lambda name: self.replica(name).machine))
        self.clocks: dict[str, Clock] = {}
        """The clock of each node."""
        if not scenario.clock_step_us:
            checkers.append(self._dated())
        self.probe = Probe(checkers + extra(self))
        self.world.tap = self._tap
        self._build(chance)

    def _peers(self, node: str) -> tuple[str, ...]:
        """The replicas that stabilise in turn with this one."""
        return next((r.peers for r in self.topology.replicas if r.name == node), ())

    def _counts(self, node: str) -> bool:
        """Whether a replica is a full member of the newest deployment."""
        if self.cluster is None:
            return True
        return any(r.name == node for r in self.topology.replicas) and (
            node not in self.topology.joining
        )

    def _of_lanes(self) -> list[Checker]:
        """The checkers of what tentative lanes say."""
        return [TentativeContent(self.oracle, self.clients)]

    def _timely(self) -> list[Checker]:
        """The checkers that depend on when each part really worked."""
        s = self.scenario
        faults = tuple(f for f in s.faults if isinstance(f.kind, Kind))
        if any(change.faults for change in s.changes):
            return []
        if faults:  # of those that leave nothing is expected, without faults all is
            faults += tuple(replaced(s))
        truth = Truth(s.topology, faults, s.options, s.safety_us)
        hops = self._hops
        hop_us = s.link.latency_us + s.link.jitter_us + s.costs.longest_us(s.options.batch_buckets)
        slack = hops * (hop_us + self._error_us) + 2 * s.source_skew_us + self._drift_us
        good = {c.name: truth.good_paths(c) for c in s.topology.clients if in_time(s.options, c)}
        outages = {c.name: truth.outages(c) for c in s.topology.clients}
        for paths in good.values():  # what a proxy published just before it was lost may wait
            for source in s.topology.pairs:
                paths.pop(source, None)
        self.delay = BoundedDelay(
            good,
            s.options.max_delay_us + slack,
            from_bucket=5,
            excused=self._held_up,
            more_us=more_us(s.options, s.topology.clients),
        )
        shortest = s.options.max_delay_us - hops * s.options.hop_us - slack
        if isinstance(s.source_host, EventSources):
            # After an outage a source may give no rows for a while, and hold the others back.
            shortest -= s.source_host.holds_back_us + s.options.bucket_us
        if s.loses_states or any(not isinstance(f.kind, Kind) for f in s.faults):
            return []
        if s.topology.pairs and not s.masks_source_faults:
            return [self.delay]
        return [
            self.delay,
            ShortFailuresMasked(
                outages,
                shortest,
                truth.switch_us + s.options.max_delay_us,
                self._held_up,
                more_us(s.options, s.topology.clients),
            ),
        ]

    def _event_sources(self) -> list[EventTimeHost]:
        return [h for h in self.world.hosts.values() if isinstance(h, EventTimeHost)]

    def _dated(self) -> Checker:
        """The checker of entry times; where clocks are stepped, a node that was down as well
        cannot know of it."""
        s, plans = self.scenario, self.scenario.topology.plans

        def sources(stream: str) -> set[str]:
            if stream not in plans:
                return {stream}
            return set().union(*(sources(one) for one in plans[stream].inputs))

        behind = {c.name: sources(c.stream) for c in s.topology.clients}
        hops = self._hops + bool(s.topology.pairs)  # a bucket may come by way of the standby
        error_us = hops * self._error_us + self._drift_us
        self.dated = EntryTimesKnown(behind, self.clocks, error_us, s.topology.pairs)
        return self.dated

    @property
    def _hops(self) -> int:
        """The number of hops from a source to the furthest client."""
        return 1 + max(o.hops_ahead for r in self.scenario.topology.replicas for o in r.outputs)

    @property
    def _error_us(self) -> int:
        """The largest error of an estimate of a clock: half of how unequal two ways can be.

        The longer one has all jitter, is slow because it is lossy, and its message was repeated.
        """
        link = self.scenario.link
        return (link.latency_us + link.jitter_us + EXTRA_US) // 2

    @property
    def _drift_us(self) -> int:
        """How far two clocks drift apart in a run."""
        return int(2 * self.scenario.clock_drift * self.scenario.safety_us)

    def _held_up(self) -> bool:
        """Whether a full log has held up its lane or its source, which excuses delays (4.9.4)."""
        if not self.scenario.options.bounded:
            return False
        for host in self.world.hosts.values():
            if isinstance(host, ReplicaHost) and host.machine is not None:
                self._pushed_back |= any(o.pushed_back for o in host.machine.outputs.values())
            elif isinstance(host, SourceHost):
                self._pushed_back |= host.dropped >= 0
            elif isinstance(host, MemberHost):
                self._pushed_back |= host.was_full
        return self._pushed_back

    # --- building ---------------------------------------------------------------------

    def _build(self, chance: SeedTree) -> None:
        s, clocks = self.scenario, chance.stream("clocks")
        options = s.options

        def off() -> int:
            return clocks.randint(-s.clock_offset_us, s.clock_offset_us)

        def clock(offset_us: int) -> Clock:
            return Clock(offset_us, clocks.uniform(-s.clock_drift, s.clock_drift))

        together = off()

        def source_clock() -> Clock:
            return clock(together + clocks.randint(-s.source_skew_us, s.source_skew_us))

        for name, consumers in s.topology.sources.items():
            if name in s.topology.pairs:
                self._build_pair(name, consumers, chance, source_clock)
                continue
            s.source_host(
                self.world, name, source_clock(), self.probe,
                _maker(s.source_class, name, consumers, options),
                _rows_of(s.rows, name), s.costs, chance.stream(f"disk {name}"),
            )  # fmt: skip

        def replica(config: ReplicaConfig) -> ReplicaHost:
            rng = chance.stream(f"node {config.name}")
            return s.replica_host(
                self.world, config.name, clock(off() + s.ahead_us.get(config.name, 0)), self.probe,
                _maker(s.replica_class, config, options, rng),
                {o.stream: self._engine(config.name, o.stream) for o in config.outputs},
                s.costs, chance.stream(f"disk {config.name}"),
            )  # fmt: skip

        for config in s.topology.replicas:
            replica(config)
        for client in s.topology.clients:
            ClientHost(self.world, client.name, clock(off()), self.probe, _client(s, client))
        self.clocks |= {name: host.clock for name, host in self.world.hosts.items()}
        if s.deployment is not None:

            def plant(name: str, topology: Topology) -> ReplicaHost:
                (config,) = (r for r in topology.replicas if r.name == name)
                host = replica(config)
                self.clocks[name] = host.clock
                return host

            self.cluster = s.cluster_class(self, s.nodes, chance.under("cluster"), plant)

    def _build_pair(
        self, stream: str, consumers: tuple[str, ...], chance: SeedTree, clock: Callable[[], Clock]
    ) -> None:
        s, pair = self.scenario, self.scenario.topology.pairs[stream]
        producers = self.producers[stream] = Producers(chance.stream(f"rows {stream}"))
        hosts = self.members[stream] = []
        for name in pair.members:
            (other,) = (one for one in pair.members if one != name)
            member = (name, stream, other, pair.witness, consumers, s.options)
            make = _member(s.member_class, member, first=name == pair.members[0])
            rng = chance.stream(f"disk {name}")
            host = s.member_host(
                *(self.world, name, clock(), self.probe, make, producers, s.costs, rng),
                s.copy_buckets,
            )
            hosts.append(host)
        SimWitness(self.world, pair.witness, clock(), self.probe, s.witness_class, stream)

    def _engine(self, replica: str, stream: str) -> SharedEngine:
        """The engine that computes a stream at a replica."""
        differs = self.scenario.differs
        if differs is None or differs[0] != replica:
            return self.engines[stream]
        return SharedEngine(DifferingEngine(self.scenario.engines[stream](), differs[1]))

    def _tap(self, node: str, sender: str, message: Message) -> None:
        if type(message) is Heartbeat:
            self.probe.heard(node, sender, message)

    def _has(self, client: str, bucket: int) -> str:
        """A replica that has a bucket, and that a client could have heard before it skips that."""
        (config,) = (c for c in self.scenario.topology.clients if c.name == client)
        now = self.world.now
        begun = [f for f in self.scenario.faults if f.at_us <= now]
        back_us = max((f.until_us for f in begun if client in (f.node, f.other)), default=0)
        for name in config.producers:
            ends = [f.until_us for f in begun if name in (f.node, f.other)]
            heard_us = max([back_us, *ends])
            waited_for = heard_us < max(now - HEARD_US, back_us + PATIENCE_US)
            if waited_for and self._log(name, config.stream).has(bucket):
                return name
        return ""

    def _log(self, node: str, stream: str) -> SimLog:
        host = self.world.hosts[node]
        assert isinstance(host, SourceHost | ReplicaHost | MemberHost)
        return host.log(stream)

    def source(self, name: str) -> SourceHost:
        """A source's host."""
        host = self.world.hosts[name]
        assert isinstance(host, SourceHost)
        return host

    def replica(self, name: str) -> ReplicaHost:
        """A replica's host."""
        host = self.world.hosts[name]
        assert isinstance(host, ReplicaHost)
        return host

    # --- running -------------------------------------------------------------------------

    def execute(self) -> RunOutcome:
        """Run all phases; the first broken promise ends the run."""
        violation = None
        try:
            self._boot()
            s = self.scenario
            inflictor = DpcInflictor(
                self.world, s.link, s.options.bucket_us, self._step_us, self._disks
            )
            inflictor.plan(s.faults)
            if self.cluster is not None:
                self.cluster.inflict = lambda fault: inflictor.plan([fault])
                self.cluster.boot()
            self.world.run(self.scenario.safety_us)
            self._heal_and_drain()
        except Violation as found:
            violation = found
        except (AssertionError, LookupError, ValueError) as error:
            violation = Violation("crash", f"{type(error).__name__}: {error}")
        for host in self.world.hosts.values():
            if isinstance(host, ReplicaHost) and host.machine is not None:
                self.probe.gone(host.machine)
        return RunOutcome(
            self.scenario,
            violation,
            self.world.now,
            self.world.delivered,
            self.corrected.tentative,
            self.coverage.rows,
            self.coverage.turns,
            self.world.trace,
        )

    def _step_us(self) -> int:
        """How far a clock is stepped next."""
        return self._steps.randint(-self.scenario.clock_step_us, self.scenario.clock_step_us)

    def _boot(self) -> None:
        for host in self.world.hosts.values():
            self.world.cause = NO_CAUSE
            if isinstance(host, SourceHost | MemberHost):
                host.boot(self.scenario.options.bucket_us)
            elif isinstance(host, ReplicaHost):
                host.boot(fresh=True)
            elif isinstance(host, ClientHost | SimWitness):
                host.boot()

    def _heal_and_drain(self) -> None:
        """Heal all faults, and wait until every node and client has caught up."""
        limit = self.scenario.safety_us + self.scenario.liveness_us
        while (why := self.pending()) and self.world.now < limit:
            self.world.run(self.world.now + 1_000_000)
        if why:
            raise Violation("liveness", f"after everything healed: {why}")
        self.probe.finish()

    def _give_up(self) -> None:
        """Expect nothing more of any client: a source waits for its operator."""
        for client in self.clients:
            self.corrected.give_up(client)

    def pending(self) -> str:
        """Why the run has not converged yet; empty if it has."""
        if self.scenario.differs is not None:
            return ""  # replicas that differ wait for their operator
        if self.damage.ended:
            self._give_up()
            return ""
        safe = self.scenario.safety_us // self.scenario.options.bucket_us - 2
        ended = self.loss.ended
        for client, end in self.stable.end.items():
            if self.clients[client] in ended:
                self.corrected.give_up(client)
            elif end < safe and client not in self.scenario.left:
                return f"{client} has stable buckets up to {end}, not {safe}"
        if self.cluster is not None and self.cluster.busy:
            return self.cluster.busy
        for config in self.topology.replicas:
            host = self.replica(config.name)
            if config.name in self.scenario.left:
                continue
            if host.machine is None:
                return f"{config.name} is down"
            for output in host.machine.outputs.values():
                if output.stream in ended:
                    continue
                if output.phase is not Phase.STABLE:
                    return f"{config.name} is in {output.phase.name}"
                if output.end < safe:
                    return f"{config.name} has logged up to {output.end}, not {safe}"
        return self.loss.waits_for(self.world.now) or self.corrected.waits_for


def replaced(scenario: Scenario) -> Iterator[Fault]:
    """The replicas that leave, as if they were lost when their change is planned to begin."""
    for change in scenario.changes:
        for node in change.drop:
            for replica in scenario.topology.replicas:
                if replica.name == machine_name(change.fragment, node):
                    yield Fault(Kind.CRASH, change.at_us, FOR_EVER_US, replica.name)


def in_time(options: DpcOptions, client: ClientConfig) -> bool:
    """Whether a client is promised that new tuples come in time, whatever fails."""
    suspends = options.stabilization is Policy.SUSPEND
    return options.delay_of(client.stream) is not None and not suspends


def more_us(options: DpcOptions, clients: Iterable[ClientConfig]) -> dict[str, int]:
    """What the accepted delay of each client's stream is longer than that of the others.

    That of a stream which is never tentative is longer than any outage.
    """
    delays = {c.name: options.delay_of(c.stream) for c in clients}
    return {
        name: FOR_EVER_US if delay is None else delay - options.max_delay_us
        for name, delay in delays.items()
    }


class Feed(Checker):
    """Reports to the oracle what the sources have logged."""

    name = "oracle"

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def entered(self, source: str, new: Any, now: int) -> None:
        self._oracle.entered(source, new)


class Coverage(Checker):
    """Counts the rows of table 4.3 and the phase changes that were taken."""

    name = "coverage"

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.turns: dict[str, int] = {}

    def gone(self, machine: ReplicaMachine) -> None:
        for one in machine.inputs.values():
            for row, times in enumerate(one.rows_taken):
                if times:
                    self.rows[row] = self.rows.get(row, 0) + times

    def phase_changed(self, node: str, effect: AnnouncePhase) -> None:
        name = f"{effect.was.name} {effect.trigger.name}"
        self.turns[name] = self.turns.get(name, 0) + 1


def _maker(make: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    return lambda: make(*args)


def _member(
    make: type[SourceMember], arguments: tuple[Any, ...], *, first: bool
) -> Callable[[Standing, int], SourceMember]:
    return lambda standing, rows: make(*arguments, first=first, standing=standing, rows=rows)


def _rows_of(rows: Callable[[str, int], Any], source: str) -> Callable[[int], Any]:
    return lambda number: rows(source, number)


def _client(scenario: Scenario, c: ClientConfig) -> Callable[[], ClientMachine]:
    hedge = {"hedge": True} if c.hedged else {}
    return lambda: scenario.client_class(c.name, c.stream, c.producers, scenario.options, **hedge)
