"""Deployments that change in a run: nodes whose stewards add, move and remove replicas.

Each node has a steward and a proposer, and the first three are keepers. The machines of DPC keep
hosts of their own, so that a replica can fail without its node's steward, and the other way round;
a steward opens, rewires and closes the hosts of its node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from australis.deployment.deployed import Deployment, Edit, MemberRole
from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.machine import Event
from australis.kernel.rng import SeedTree
from australis.node.progress import progress_of
from australis.protocols.change.events import (
    Adopt,
    ChangeOptions,
    ChangeWanted,
    DrainWanted,
    EditDecided,
    EditFailed,
    FindProgress,
    ProgressFound,
    Started,
    SubmitEdit,
    TellChange,
)
from australis.protocols.change.messages import OutputProgress
from australis.protocols.change.steward import StewardMachine
from australis.protocols.dpc.effects import Rewired
from australis.protocols.dpc.options import Lease
from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.topology import Topology, deploy
from australis.protocols.register.events import Kept, RegisterOptions, Submitted
from australis.protocols.register.messages import Ballot, Keepers, Record
from australis.sim.dpc.hosts import ClientHost, DpcHost, ReplicaHost, SourceHost
from australis.sim.faults import Fault, Kind
from australis.sim.network import Link
from australis.sim.register.schedule import RegisterScenario
from australis.sim.register.simulation import KeeperHost, ProposerHost
from australis.sim.world import Host, World

if TYPE_CHECKING:
    from australis.sim.dpc.run import Run

AGAIN_US = 2 * SECOND
"""A user whose change is refused because of another one asks again after this time."""
STARTS_US = SECOND
"""The time that a replica takes to start on a node where it joins."""
KEEPERS = 3


@dataclass(frozen=True)
class PlannedFault:
    """A fault in a phase of a change."""

    phase: str
    """The phase with which it begins: "joining" or "leaving"."""
    who: str
    """A machine, or one that joins, leaves or is the steward: "joiner", "leaver", "steward"."""
    kind: Kind
    after_us: int
    lasts_us: int


@dataclass(frozen=True)
class PlannedChange:
    """A change of a replica set that a user wants."""

    at_us: int
    fragment: str
    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    asks: str = ""
    """The node whose steward is asked."""
    faults: tuple[PlannedFault, ...] = ()

    def __str__(self) -> str:
        said = [f"add {node}" for node in self.add] + [f"drop {node}" for node in self.drop]
        return f"{self.at_us / 1e6:8.2f} s: {self.fragment}: {', '.join(said)}"


@dataclass(frozen=True)
class PlannedDrain:
    """A node that a user drains, and permits again unless it stays so."""

    at_us: int
    node: str
    until_us: int | None
    asks: str = ""
    """The node whose steward is asked."""

    def __str__(self) -> str:
        until = "" if self.until_us is None else f" until {self.until_us / 1e6:.2f} s"
        return f"{self.at_us / 1e6:8.2f} s: drain {self.node}{until}"


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


class StewardHost(Host):
    """A steward with a disk, and the world's end of the machines on its node."""

    machine: StewardMachine

    def __init__(
        self, cluster: DynamicCluster, node: str, make: Callable[[], StewardMachine]
    ) -> None:
        super().__init__(cluster.run.world, f"steward@{node}")
        self.node = node
        self._cluster = cluster
        self._make = make
        self._disk: dict[str, Deployment] = {}
        self._performers |= {
            Adopt: self._adopt,
            SubmitEdit: lambda e: cluster.submit(self.node, e),
            FindProgress: self._find,
            TellChange: lambda e: cluster.told(e),
        }

    def boot(self) -> None:
        """Start with what the disk remembers."""
        self.start(self._make(), Started(tuple(self._disk.values()), self._cluster.stewards))

    def remember(self, deployment: Deployment) -> None:
        """Have a deployment on the disk from the beginning."""
        self._disk[deployment.application] = deployment

    def _adopt(self, effect: Adopt) -> None:
        self._disk[effect.deployment.application] = effect.deployment
        self._cluster.adopt(self.node, effect.deployment)

    def _find(self, effect: FindProgress) -> None:
        deployment = self._disk.get(effect.application)
        member = None if deployment is None else deployment.set_of(effect.fragment).on(self.node)
        name = "" if member is None else member.machine(effect.fragment)
        host = self.world.hosts.get(name)
        machine = host.machine if isinstance(host, ReplicaHost) and not host.paused else None
        version, outputs = 0, tuple[OutputProgress, ...]()
        if isinstance(machine, ReplicaMachine):
            assert host is not None
            version, outputs = (
                machine.version,
                progress_of(machine, host.clock.local(self.world.now)),
            )
        found = ProgressFound(
            effect.application, effect.fragment, effect.to, name, version, outputs
        )
        self.later(0, self.take, found)


class DynamicCluster:
    """The nodes of a run whose deployment changes."""

    def __init__(
        self,
        run: Run,
        nodes: tuple[str, ...],
        chance: SeedTree,
        plant: Callable[[str, Topology], ReplicaHost],
    ) -> None:
        """The nodes; `plant` makes the host of a replica that joins."""
        assert run.scenario.deployment is not None
        self.run = run
        self.world: World = run.world
        self._plant = plant
        self._rng = chance.stream("late")
        self.nodes = nodes
        self.stewards = tuple(f"steward@{node}" for node in nodes)
        self.newest = run.scenario.deployment
        self._tags: dict[str, PlannedChange] = {}
        self._drains: dict[str, tuple[str, str, bool]] = {}
        """Whom users ask to drain which node, or to permit it again."""
        self._open: set[str] = set()
        """The tags of the changes that users have begun and that have not ended."""
        self._begun: set[tuple[int, str]] = set()
        """The phases of changes that some node has seen."""
        self.outcomes: dict[str, int] = {}
        self.inflict: Callable[[Fault], None] = lambda fault: None
        homes = run.scenario.topology.sources, run.scenario.topology.clients
        self._homes = {name: nodes[i % len(nodes)] for i, name in enumerate(homes[0])}
        self._homes |= {c.name: nodes[-1 - i % len(nodes)] for i, c in enumerate(homes[1])}
        """The nodes of sources and clients."""
        register = RegisterScenario(
            0, (), (), (), (), RegisterOptions(deadline_us=5 * SECOND), Link(), ()
        )
        keepers = [KeeperHost(self.world, f"keeper@{n}", register) for n in nodes[:KEEPERS]]
        known = Keepers(1, tuple(sorted(host.seat for host in keepers)))
        first = Record(self.newest.version, msgspec.msgpack.encode(self.newest))
        ballot = Ballot(1, 0, "")
        for keeper in keepers:
            keeper.fill(known, {self.newest.application: Kept(ballot, ballot, first)})
        options = run.scenario.change_options
        for node in nodes:
            proposer = ProposerHost(
                self.world, f"proposer@{node}", register, chance.stream(f"proposer {node}"),
                lambda tag, outcome, record, node=node: self._decided(node, tag, outcome, record),
            )  # fmt: skip
            proposer.fill(known)
            name, rng = f"steward@{node}", chance.stream(f"steward {node}")
            make = _maker(run.scenario.steward_class, name, options, rng)
            StewardHost(self, node, make).remember(self.newest)

    def boot(self) -> None:
        """Start all nodes, and plan what users want."""
        for host in list(self.world.hosts.values()):
            if isinstance(host, KeeperHost | ProposerHost | StewardHost):
                host.boot()
        for number, planned in enumerate(self.run.scenario.changes):
            self._tags[f"{number}"] = planned
            self._open.add(f"{number}")
            self.world.at(planned.at_us, self._want, f"{number}")
        for number, drain in enumerate(self.run.scenario.drains):
            moments = {True: drain.at_us, False: drain.until_us}
            for drained, at_us in moments.items():
                if at_us is not None:
                    tag = f"drain {number} {drained}"
                    self._drains[tag] = drain.asks, drain.node, drained
                    self._open.add(tag)
                    self.world.at(at_us, self._want, tag)

    @property
    def busy(self) -> str:
        """What has not ended yet; empty if all has."""
        if self.newest.change is not None:
            return f"the change of {self.newest.change.fragment} has not ended"
        if self._open:
            tag = min(self._open)
            return f"what was wanted has not ended: {self._tags.get(tag) or self._drains[tag]}"
        for one in self.newest.sets:
            free = [n for n in self.nodes if n not in self.newest.avoids and one.on(n) is None]
            left = [m.node for m in one.members if m.node in self.newest.avoids]
            if free and left:
                return f"{one.fragment} has not left {left[0]}, which is drained"
        for host in self.world.hosts.values():
            if isinstance(host, DpcHost) and not host.gone and host.known < self.newest.version:
                return f"{host.name} knows version {host.known}, not {self.newest.version}"
        return ""

    # --- users ----------------------------------------------------------------------------------

    def _want(self, tag: str) -> None:
        wanted: Event
        if tag in self._drains:
            asks, node, drained = self._drains[tag]
            wanted = DrainWanted(tag, self.newest.application, node, drained)
        else:
            planned = self._tags[tag]
            asks = planned.asks
            wanted = ChangeWanted(
                tag, self.newest.application, planned.fragment, planned.add, planned.drop
            )
        host = self.world.hosts[f"steward@{asks}"]
        if host.machine is None or host.paused:
            self.world.at(self.world.now + AGAIN_US, self._want, tag)
            return
        host.take(wanted)

    def told(self, effect: TellChange) -> None:
        """A user hears of a change."""
        self.outcomes[effect.outcome] = self.outcomes.get(effect.outcome, 0) + 1
        again = effect.outcome == "unknown" or "changing already" in effect.why
        if again:
            self.world.at(self.world.now + AGAIN_US, self._want, effect.tag)
        else:  # what has begun ends by itself
            self._open.discard(effect.tag)

    # --- the register ---------------------------------------------------------------------------

    def submit(self, node: str, effect: SubmitEdit) -> None:
        """Give an edit to the node's proposer."""
        proposer = self.world.hosts[f"proposer@{node}"]
        if proposer.machine is None or proposer.paused:
            steward = self.world.hosts[f"steward@{node}"]
            steward.later(SECOND, steward.take, EditFailed(effect.tag, "no proposer", unknown=True))
            return
        edit = None if effect.edit is None else on_bytes(effect.edit)
        proposer.later(0, proposer.take, Submitted(effect.tag, effect.application, edit))

    def _decided(self, node: str, tag: str, outcome: str, record: Record | None) -> None:
        steward = self.world.hosts[f"steward@{node}"]
        if record is not None:
            deployment = msgspec.msgpack.decode(record.value, type=Deployment)
            self.run.probe.decided(deployment)
            if deployment.version > self.newest.version:
                self.newest = deployment
                self.run.topology = topology_of(self.run.scenario.topology, deployment)
        if outcome == "decided":
            steward.take(EditDecided(tag, deployment))
        else:
            why = self._refusal(tag)
            steward.take(EditFailed(tag, why, unknown=outcome in ("unknown", "unreachable")))

    def _refusal(self, tag: str) -> str:
        return "is changing already" if self.newest.change is not None else "is refused"

    # --- nodes ----------------------------------------------------------------------------------

    def adopt(self, node: str, deployment: Deployment) -> None:
        """Open, rewire and close the machines of a node by a deployment."""
        topology = topology_of(self.run.scenario.topology, deployment)
        for name in topology.joining:
            if name.endswith(f"@{node}") or f"@{node}#" in name:
                self._join(name, topology, deployment)
        for host in list(self.world.hosts.values()):
            if isinstance(host, DpcHost) and self._home(host) == node and not host.gone:
                late = self._rng.random() < 0.1
                late_us = self._rng.randrange(8 * SECOND if late else 300 * MILLISECOND)
                self.world.at(self.world.now + late_us, self._tell, host, topology, deployment)
        self._enter_phase(deployment, topology)

    def _home(self, host: DpcHost) -> str:
        if isinstance(host, ReplicaHost):
            return host.name.partition("@")[2].partition("#")[0]
        return self._homes[host.name]

    def _join(self, name: str, topology: Topology, deployment: Deployment) -> None:
        """Start a replica without a state."""
        if name in self.world.hosts:
            return
        host = self._plant(name, topology)
        host.wiring = self._wiring(host, topology, deployment)
        host.wipe()
        self.world.at(self.world.now + STARTS_US, _boot, host)

    def _tell(self, host: DpcHost, topology: Topology, deployment: Deployment) -> None:
        if host.gone or host.known >= deployment.version:
            return
        wiring = self._wiring(host, topology, deployment)
        if wiring is None:
            self.run.probe.closed(host.name)
            host.crash()
            host.gone = True
        else:
            host.rewire(wiring)

    def _wiring(self, host: DpcHost, topology: Topology, deployment: Deployment) -> Rewired | None:
        """A host's part of a deployment; None if it has none."""
        part: Any = None
        if isinstance(host, ReplicaHost):
            part = next((r for r in topology.replicas if r.name == host.name), None)
        elif isinstance(host, ClientHost):
            part = next((c for c in topology.clients if c.name == host.name), None)
        elif isinstance(host, SourceHost):
            part = topology.sources[host.name]
        if part is None:
            return None
        leases = leases_of(topology, self.run.scenario.options.leases)
        return Rewired(deployment.version, part, topology.joining, topology.leaving, leases)

    # --- faults ---------------------------------------------------------------------------------

    def _enter_phase(self, deployment: Deployment, topology: Topology) -> None:
        """Inflict the faults that are planned for a phase that a node sees first."""
        change = deployment.change
        phase = "leaving" if change is not None and change.switched else "joining"
        if change is None or (change.number, phase) in self._begun:
            return
        self._begun.add((change.number, phase))
        wanted = (change.fragment, change.add, change.drop)
        for planned in self.run.scenario.changes:
            if (planned.fragment, planned.add, planned.drop) == wanted:
                crowd = {
                    "joiner": sorted(topology.joining),
                    "leaver": sorted(topology.leaving),
                    "steward": [change.steward],
                }
                for fault in planned.faults:
                    if fault.phase == phase:
                        self._inflict(fault, crowd.get(fault.who, [fault.who]))

    def _inflict(self, planned: PlannedFault, names: list[str]) -> None:
        if names:
            at_us = self.world.now + planned.after_us
            if planned.kind is Kind.WIPE:
                self.run.wiped.add(names[0])
            self.inflict(Fault(planned.kind, at_us, planned.lasts_us, names[0]))


def _boot(host: ReplicaHost) -> None:
    if host.machine is None:
        host.boot()


def _maker(
    make: Callable[..., StewardMachine], name: str, options: ChangeOptions, rng: Random
) -> Callable[[], StewardMachine]:
    return lambda: make(name, options, rng)


def on_bytes(edit: Edit) -> Callable[[bytes], bytes]:
    """An edit of a deployment as one of a register's value."""

    def applied(value: bytes) -> bytes:
        return msgspec.msgpack.encode(edit(msgspec.msgpack.decode(value, type=Deployment)))

    return applied
