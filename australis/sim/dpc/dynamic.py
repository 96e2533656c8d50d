"""Deployments that change in a run: replicas join and leave while all else goes on.

The steward of a run carries out planned changes one after the other, with perfect knowledge but
through the same edits and the same phases as a live one (`deployment.deployed`). Nodes learn of a
new version late, each at its own time, and in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from australis.deployment.deployed import (
    Deployment,
    MemberRole,
    begin,
    cancel,
    finish,
    switch,
)
from australis.kernel.durations import MILLISECOND, SECOND
from australis.protocols.dpc.effects import Rewired
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.options import Lease
from australis.protocols.dpc.proxies import ClientMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.states import Phase
from australis.protocols.dpc.topology import Topology, deploy
from australis.sim.dpc.hosts import ClientHost, DpcHost, ReplicaHost, SourceHost
from australis.sim.faults import Fault, Kind

if TYPE_CHECKING:
    from australis.sim.dpc.run import Run

LOOK_US = 100 * MILLISECOND
NEAR_BUCKETS = 2
"""A replica that is so close to the end of the best log has caught up."""
CALM_LOOKS = 5
"""How often in a row a joining replica must be found ready."""
JOIN_US = 40 * SECOND
"""A change whose replicas have not caught up by then is cancelled."""


@dataclass(frozen=True)
class PlannedFault:
    """A fault in a phase of a change."""

    phase: str
    """The phase with which it begins: "joining" or "leaving"."""
    who: str
    """A machine, or the first one that joins or leaves: "joiner", "leaver"."""
    kind: Kind
    after_us: int
    lasts_us: int


@dataclass(frozen=True)
class PlannedChange:
    """A change of a replica set."""

    at_us: int
    fragment: str
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    faults: tuple[PlannedFault, ...] = ()

    def __str__(self) -> str:
        said = [f"add {node}" for node in self.add] + [f"drop {node}" for node in self.drop]
        return f"{self.at_us / 1e6:8.2f} s: {self.fragment}: {', '.join(said)}"


def topology_of(
    base: Topology, deployment: Deployment, clients: Mapping[str, str] | None = None
) -> Topology:
    """The wiring of a deployment, for the clients of a base topology."""
    readers = {c.name: c.stream for c in base.clients} if clients is None else clients
    return deploy(
        base.diagram,
        deployment.machines(MemberRole.FULL),
        readers,
        base.pairs,
        [c.name for c in base.clients if c.hedged],
        joining=deployment.machines(MemberRole.JOINING),
        leaving=deployment.machines(MemberRole.LEAVING),
    )


def leases_of(topology: Topology, leases: Mapping[str, Lease]) -> dict[str, Lease]:
    """The leases in a topology: those of its replicas name their peers there."""
    replicas = {r.name: r.peers for r in topology.replicas}
    silences = {lease.silence_us for lease in leases.values() if lease.peers is not None}
    found = {name: lease for name, lease in leases.items() if lease.peers is None}
    for silence_us in silences:
        found |= {name: Lease(silence_us, peers) for name, peers in replicas.items()}
    return found


def _inputs_of(host: ReplicaHost | ClientHost) -> list[Input]:
    machine = host.machine
    if isinstance(machine, ClientMachine):
        return [machine.input]
    assert isinstance(machine, ReplicaMachine)
    return [*machine.inputs.values()]


class Steward:
    """Carries out the planned changes of a run."""

    def __init__(self, run: Run, rng: Random, plant: Callable[[str], ReplicaHost]) -> None:
        """A steward; `plant` makes the host of a replica that joins."""
        assert run.scenario.deployment is not None
        self._run = run
        self._rng = rng
        self._plant = plant
        self.deployment = run.scenario.deployment
        self._todo = list(run.scenario.changes)
        self._doing: PlannedChange | None = None
        self._since_us = 0
        self._calm = 0
        self.done = self.cancelled = 0
        self.inflict: Callable[[Fault], None] = lambda fault: None

    @property
    def busy(self) -> str:
        """What is still to be done; empty if nothing is."""
        if self._doing is not None:
            return f"the change of {self._doing.fragment} is not done"
        return f"{len(self._todo)} changes have not begun" if self._todo else ""

    def look(self) -> None:
        """Take the next step if it is due."""
        self._run.world.at(self._run.world.now + LOOK_US, self.look)
        if self._doing is None:
            if self._todo and self._todo[0].at_us <= self._run.world.now:
                self._begin(self._todo.pop(0))
            return
        change = self.deployment.change
        assert change is not None
        if not change.switched:
            self._calm = self._calm + 1 if self._ready() else 0
            if self._calm >= CALM_LOOKS or not change.add:
                self._publish(switch(self.deployment), "leaving")
            elif self._run.world.now - self._since_us > JOIN_US:
                self.cancelled += 1
                self._doing = None
                self._publish(cancel(self.deployment), "cancelled")
        elif self._emptied():
            self.done += 1
            self._doing = None
            self._publish(finish(self.deployment), "done")

    def _begin(self, planned: PlannedChange) -> None:
        self._doing, self._since_us, self._calm = planned, self._run.world.now, 0
        begun = begin(self.deployment, planned.fragment, add=planned.add, drop=planned.drop)
        self._publish(begun, "joining")

    def _join(self, name: str) -> None:
        """Start a replica without a state on a node that takes a second for it."""
        host = self._plant(name)
        host.wiring = self._wiring(host)
        host.wipe()
        self._run.world.at(self._run.world.now + SECOND, self._boot, host)

    @staticmethod
    def _boot(host: ReplicaHost) -> None:
        if host.machine is None:
            host.boot()

    # --- what it looks at ---------------------------------------------------------------------

    def _ready(self) -> bool:
        """Whether all replicas that join could be read."""
        topology = self._run.topology
        names = [n for n in topology.joining if n.startswith(f"{self._doing_fragment}@")]
        return all(self._caught_up(name) for name in names)

    @property
    def _doing_fragment(self) -> str:
        assert self._doing is not None
        return self._doing.fragment

    def _caught_up(self, name: str) -> bool:
        host = self._run.world.hosts.get(name)
        if not isinstance(host, ReplicaHost) or host.machine is None or host.paused:
            return False
        for output in host.machine.outputs.values():
            end = max(
                (self._end(peer, output.stream) for peer in host.machine.config.peers), default=0
            )
            near = output.end >= end - NEAR_BUCKETS and all(i.is_held for i in output.inputs)
            if output.state_lost or output.phase is Phase.RECOVERING or not near:
                return False
        return True

    def _end(self, name: str, stream: str) -> int:
        host = self._run.world.hosts[name]
        assert isinstance(host, ReplicaHost)
        return host.log(stream).end

    def _emptied(self) -> bool:
        """Whether nobody needs the replicas that leave any more."""
        topology, hosts = self._run.topology, self._run.world.hosts
        stay = [
            r.name
            for r in topology.replicas
            if r.name.startswith(f"{self._doing_fragment}@")
            and r.name not in topology.leaving | topology.joining
        ]
        if not any(self._caught_up(name) for name in stay):
            return False
        streams = {o.stream for r in topology.replicas if r.name in stay for o in r.outputs}
        for host in hosts.values():
            if not isinstance(host, ReplicaHost | ClientHost):
                continue
            if isinstance(host, ReplicaHost) and (host.gone or host.name in topology.leaving):
                continue
            if host.machine is None or host.known < self.deployment.version:
                return False
            for one in _inputs_of(host):
                if one.stream in streams and not self._may_leave(one, stay):
                    return False
        return True

    def _may_leave(self, one: Input, stay: list[str]) -> bool:
        """Whether an input is read elsewhere, from a log that has all that it lacks."""
        if {one.choice.curr, one.choice.bck} & self._run.topology.leaving:
            return False
        up = [self._run.replica(n) for n in stay if self._run.world.hosts[n].machine is not None]
        return any(host.log(one.stream).trimmed_upto <= one.have for host in up)

    # --- what it tells ------------------------------------------------------------------------

    def _publish(self, deployment: Deployment, phase: str) -> None:
        run = self._run
        self.deployment = deployment
        run.topology = topology_of(run.scenario.topology, deployment)
        run.world.note("steward", f"version {deployment.version}: {phase}")
        for name in run.topology.joining - run.world.hosts.keys():
            self._join(name)
        for name in list(run.world.hosts):
            self._tell(name)
        if self._doing is not None:
            for fault in self._doing.faults:
                if fault.phase == phase:
                    self._inflict(fault)

    def _inflict(self, planned: PlannedFault) -> None:
        topology = self._run.topology
        crowd = {"joiner": topology.joining, "leaver": topology.leaving}.get(planned.who)
        names = [planned.who] if crowd is None else sorted(crowd)
        if names:
            at_us = self._run.world.now + planned.after_us
            if planned.kind is Kind.WIPE:
                self._run.wiped.add(names[0])
            self.inflict(Fault(planned.kind, at_us, planned.lasts_us, names[0]))

    def _tell(self, name: str) -> None:
        late = self._rng.random() < 0.1
        most_us = 8 * SECOND if late else 500 * MILLISECOND
        self._run.world.at(self._run.world.now + self._rng.randrange(most_us), self._learn, name)

    def _learn(self, name: str) -> None:
        """Let a node learn the newest version, unless it knows that."""
        host = self._run.world.hosts.get(name)
        if not isinstance(host, DpcHost) or host.known >= self.deployment.version or host.gone:
            return
        if host.machine is None or host.paused:
            self._run.world.at(self._run.world.now + 300 * MILLISECOND, self._learn, name)
            return
        wiring = self._wiring(host)
        if wiring is None:
            host.crash()
            host.gone = True
        else:
            host.rewire(wiring)

    def _wiring(self, host: DpcHost) -> Rewired | None:
        """A host's part of the newest version; None if it has none."""
        topology, name = self._run.topology, host.name
        part: object = None
        if isinstance(host, ReplicaHost):
            part = next((r for r in topology.replicas if r.name == name), None)
        elif isinstance(host, ClientHost):
            part = next((c for c in topology.clients if c.name == name), None)
        elif isinstance(host, SourceHost):
            part = topology.sources[name]
        if part is None:
            return None
        leases = leases_of(topology, self._run.scenario.options.leases)
        version = self.deployment.version
        return Rewired(version, part, topology.joining, topology.leaving, leases)
