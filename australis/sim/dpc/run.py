"""One run: a topology, faults, a safety phase, and a liveness phase in which all heals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from australis.kernel.machine import Message
from australis.kernel.rng import Chance
from australis.kernel.trace import NO_CAUSE, Trace
from australis.protocols.dpc.messages import Heartbeat
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.proxies import ClientMachine, SourceMachine
from australis.protocols.dpc.replica import ReplicaConfig, ReplicaMachine
from australis.protocols.dpc.states import Phase
from australis.protocols.dpc.topology import ClientConfig, Topology
from australis.sim.dpc.checkers.bounded import BoundedBuffers
from australis.sim.dpc.checkers.corrected import Corrected
from australis.sim.dpc.checkers.delay import BoundedDelay
from australis.sim.dpc.checkers.kept import KeptUpstream
from australis.sim.dpc.checkers.logs import EqualLogs
from australis.sim.dpc.checkers.masked import ShortFailuresMasked
from australis.sim.dpc.checkers.progress import ForwardProgress
from australis.sim.dpc.checkers.stable import StableAtClients
from australis.sim.dpc.checkers.subscribed import Subscribed
from australis.sim.dpc.checkers.turns import OneAtATime
from australis.sim.dpc.engine import SharedEngine
from australis.sim.dpc.faults import Fault, Kind
from australis.sim.dpc.hosts import ClientHost, Costs, ReplicaHost, SourceHost
from australis.sim.dpc.inflict import Inflictor
from australis.sim.dpc.oracle import Oracle
from australis.sim.dpc.probes import Checker, Probe, Violation
from australis.sim.dpc.truth import Truth
from australis.sim.network import Link, Network
from australis.sim.world import Clock, World


@dataclass(frozen=True)
class Scenario:
    """Everything a run depends on."""

    seed: int
    topology: Topology
    engines: Mapping[str, Callable[[], Any]]
    """What computes each stream."""
    rows: Callable[[str, int], Any]
    """What a source has in a bucket."""
    options: DpcOptions
    costs: Costs = field(default_factory=Costs)
    link: Link = field(default_factory=Link)
    faults: tuple[Fault, ...] = ()
    safety_us: int = 120_000_000
    liveness_us: int = 120_000_000
    clock_offset_us: int = 0
    clock_drift: float = 0.0
    progress_us: int | None = None
    """How often every client must get something stable while faults go on; None: no matter."""
    promised: int | None = None
    """With bounded logs: how many of the latest buckets every client gets corrected."""
    replica_class: type[ReplicaMachine] = ReplicaMachine
    client_class: type[ClientMachine] = ClientMachine
    source_class: type[SourceMachine] = SourceMachine
    replica_host: type[ReplicaHost] = ReplicaHost
    source_host: type[SourceHost] = SourceHost


@dataclass
class Outcome:
    """How a run ended."""

    scenario: Scenario
    violation: Violation | None
    simulated_us: int
    delivered: int
    tentative: int
    rows: dict[int, int]
    """How often each row of table 4.3 was taken."""
    turns: dict[str, int]
    """How often each turn of the state machine was taken."""
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
        topology = scenario.topology
        chance = Chance(scenario.seed)
        self.world = World(Network(chance.stream("network"), scenario.link), trace)
        self.engines = {s: SharedEngine(make()) for s, make in scenario.engines.items()}
        self.oracle = Oracle(topology.plans, self.engines)
        self.clients = {c.name: c.stream for c in topology.clients}
        self.stable = StableAtClients(self.oracle, self.clients, scenario.promised)
        self.corrected = Corrected(self.clients)
        self.coverage = Coverage()
        self._pushed_back = False
        checkers: list[Checker] = [
            Feed(self.oracle),
            self.stable,
            EqualLogs(self.oracle),
            self.corrected,
            Subscribed(),
            BoundedBuffers(scenario.options),
            KeptUpstream({f.node for f in scenario.faults if f.kind is Kind.WIPE}),
            self.coverage,
        ]
        checkers += self._timely()
        if scenario.progress_us is not None:
            quiet = scenario.safety_us - 1_000_000
            checkers.append(ForwardProgress(self.clients, scenario.progress_us, quiet))
        if scenario.options.staggered:
            peers = {r.name: r.peers for r in topology.replicas}
            checkers.append(OneAtATime(peers, lambda name: self.replica(name).machine))
        self.probe = Probe(checkers + extra(self))
        self.world.tap = self._tap
        self._build(chance)

    def _timely(self) -> list[Checker]:
        """The checkers that need to know what really worked when."""
        s = self.scenario
        truth = Truth(s.topology, s.faults, s.options, s.safety_us)
        hops = 1 + max(o.hops_ahead for r in s.topology.replicas for o in r.outputs)
        hop_us = s.link.latency_us + s.link.jitter_us + s.costs.longest_us(s.options.batch_buckets)
        slack = hops * hop_us + 4 * s.clock_offset_us + int(2 * s.clock_drift * s.safety_us)
        good = {c.name: truth.good_paths(c) for c in s.topology.clients}
        outages = {c.name: truth.outages(c) for c in s.topology.clients}
        self.delay = BoundedDelay(
            good, s.options.max_delay_us + slack, from_bucket=5, excused=self._held_up
        )
        shortest = s.options.max_delay_us - hops * s.options.hop_us - slack
        return [
            self.delay,
            ShortFailuresMasked(
                outages,
                shortest,
                truth.switch_us + s.options.max_delay_us,
                self._held_up,
            ),
        ]

    def _held_up(self) -> bool:
        """Whether a full log has held its lane or its source up, which excuses delays (4.9.4)."""
        if self.scenario.options.max_log is None:
            return False
        for host in self.world.hosts.values():
            if isinstance(host, ReplicaHost) and host.machine is not None:
                self._pushed_back |= any(o.pushed_back for o in host.machine.outputs.values())
            elif isinstance(host.machine, SourceMachine):
                self._pushed_back |= host.machine.dropped >= 0
        return self._pushed_back

    # --- building ---------------------------------------------------------------------

    def _build(self, chance: Chance) -> None:
        s, clocks = self.scenario, chance.stream("clocks")
        options = s.options

        def clock() -> Clock:
            offset = clocks.randint(-s.clock_offset_us, s.clock_offset_us)
            return Clock(offset, clocks.uniform(-s.clock_drift, s.clock_drift))

        for name, consumers in s.topology.sources.items():
            s.source_host(
                self.world, name, clock(), self.probe,
                _maker(s.source_class, name, consumers, options),
                _rows_of(s.rows, name), s.costs, chance.stream(f"disk {name}"),
            )  # fmt: skip
        for config in s.topology.replicas:
            rng = chance.stream(f"node {config.name}")
            s.replica_host(
                self.world, config.name, clock(), self.probe,
                _maker(s.replica_class, config, options, rng),
                {o.stream: self.engines[o.stream] for o in config.outputs},
                s.costs, chance.stream(f"disk {config.name}"),
            )  # fmt: skip
        for client in s.topology.clients:
            ClientHost(self.world, client.name, clock(), self.probe, _client(s, client))

    def _tap(self, node: str, sender: str, message: Message) -> None:
        if type(message) is Heartbeat:
            self.probe.heard(node, sender, message)

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

    def execute(self) -> Outcome:
        """Run all phases; the first broken promise ends it."""
        violation = None
        try:
            self._boot()
            inflictor = Inflictor(self.world, self.scenario.link, self.scenario.options.bucket_us)
            for fault in self.scenario.faults:
                self.world.at(fault.at_us, inflictor.begin, fault)
                self.world.at(fault.until_us, inflictor.end, fault)
            self.world.run(self.scenario.safety_us)
            self._heal_and_drain()
        except Violation as found:
            violation = found
        except (AssertionError, LookupError, ValueError) as error:
            violation = Violation("crash", f"{type(error).__name__}: {error}")
        for config in self.scenario.topology.replicas:
            machine = self.replica(config.name).machine
            if machine is not None:
                self.probe.gone(machine)
        return Outcome(
            self.scenario,
            violation,
            self.world.now,
            self.world.delivered,
            self.corrected.tentative,
            self.coverage.rows,
            self.coverage.turns,
            self.world.trace,
        )

    def _boot(self) -> None:
        for host in self.world.hosts.values():
            self.world.cause = NO_CAUSE
            if isinstance(host, SourceHost):
                host.boot(self.scenario.options.bucket_us)
            elif isinstance(host, ReplicaHost):
                host.boot(fresh=True)
            elif isinstance(host, ClientHost):
                host.boot()

    def _heal_and_drain(self) -> None:
        """Let everything heal, and wait until all have everything."""
        limit = self.scenario.safety_us + self.scenario.liveness_us
        while (why := self.pending()) and self.world.now < limit:
            self.world.run(self.world.now + 1_000_000)
        if why:
            raise Violation("liveness", f"after everything healed: {why}")
        self.probe.finish()

    def pending(self) -> str:
        """Why the run has not converged yet; empty if it has."""
        safe = self.scenario.safety_us // self.scenario.options.bucket_us - 2
        for client, end in self.stable.end.items():
            if end < safe:
                return f"{client} has stable buckets up to {end}, not {safe}"
        for config in self.scenario.topology.replicas:
            host = self.replica(config.name)
            if host.machine is None:
                return f"{config.name} is down"
            for output in host.machine.outputs.values():
                if output.phase is not Phase.STABLE:
                    return f"{config.name} is in {output.phase.name}"
                if output.end < safe:
                    return f"{config.name} has logged up to {output.end}, not {safe}"
        return self.corrected.waits_for


class Feed(Checker):
    """Tells the oracle what the sources have logged."""

    name = "oracle"

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def entered(self, source: str, new: Any, now: int) -> None:
        self._oracle.entered(source, new)


class Coverage(Checker):
    """Counts which rows of table 4.3 and which turns were taken."""

    name = "coverage"

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.turns: dict[str, int] = {}

    def gone(self, machine: ReplicaMachine) -> None:
        for one in machine.inputs.values():
            for row, times in enumerate(one.rows_taken):
                if times:
                    self.rows[row] = self.rows.get(row, 0) + times
        for output in machine.outputs.values():
            for phase, turn in output.turns:
                name = f"{phase.name} {turn.name}"
                self.turns[name] = self.turns.get(name, 0) + 1


def _maker(make: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    return lambda: make(*args)


def _rows_of(rows: Callable[[str, int], Any], source: str) -> Callable[[int], Any]:
    return lambda number: rows(source, number)


def _client(scenario: Scenario, c: ClientConfig) -> Callable[[], ClientMachine]:
    return lambda: scenario.client_class(c.name, c.stream, c.producers, scenario.options)


__all__ = ["Outcome", "ReplicaConfig", "Run", "Scenario"]
