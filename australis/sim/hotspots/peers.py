"""The paper's setting: peers that offer operators, applications of five of them, and moves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

from australis.kernel.durations import MILLISECOND, MINUTE, SECOND
from australis.kernel.machine import Effect, Message
from australis.protocols.hotspots.balancer import BalancerMachine
from australis.protocols.hotspots.events import (
    Arrived,
    Hosted,
    HotSpotOptions,
    Measured,
    OfferOneMore,
)
from australis.protocols.hotspots.loads import Used
from australis.protocols.hotspots.messages import MigrationDecision
from australis.protocols.hotspots.peer import PeerMachine
from australis.protocols.movement import events as moves
from australis.protocols.movement import messages as words
from australis.protocols.movement.mover import MoverMachine
from australis.protocols.ring.events import RingOptions, Started, TellFound, TellKept
from australis.protocols.ring.keys import key_of
from australis.sim.hotspots.work import HOP_US, Application, Component, Processor, Work
from australis.sim.network import Link, Network
from australis.sim.ring.rings import assemble
from australis.sim.world import Host, World

MIGRATION = (
    MigrationDecision,
    words.Request,
    words.Ready,
    words.Switch,
    words.Switched,
    words.Handover,
    words.Answered,
    words.Cancel,
    words.Cancelled,
)
CALM_RING = RingOptions(stabilise_us=5 * SECOND, fingers_us=30 * SECOND)
"""Nobody fails here, so peers need not look after each other every second."""
SNAPSHOT_US = 50 * MILLISECOND
INSTALL_US = 500 * MILLISECOND
SETTLE_US = 5 * SECOND
"""Operators are registered before the first application is composed."""


@dataclass(frozen=True)
class Setting:
    """What an experiment fixes; the paper's values."""

    seed: int = 0
    managed: bool = True
    peers: int = 30
    operators: int = 10
    offered: int = 5
    """Operators that each peer offers."""
    length: int = 5
    """Operators of an application."""
    minutes: int = 30
    utilisation: float = 0.3
    """Of all processors together."""
    mean_cost_s: float = 0.7
    """Of one tuple at one operator, on a processor of speed 1: two thousand tuples are then
    delivered in about ten minutes."""
    changes_min: float = 10.0
    """Sources change their rates after so long, on average, and others what they have to do."""
    others: float = 2.0
    """So many processes of others are ready to run at a peer, on average."""
    options: HotSpotOptions = field(default_factory=HotSpotOptions)
    ring: RingOptions = field(default_factory=lambda: CALM_RING)


@dataclass
class Outcome:
    """What came of a run."""

    delays_s: list[float] = field(default_factory=list)
    delivered: int = 0
    transfers: int = 0
    loads: list[tuple[int, float]] = field(default_factory=list)
    """How many tuples were delivered so far, and the load that a peer measured then."""
    migration_messages: int = 0
    updates: int = 0
    """Loads that were told, because they had left their level."""
    moved: int = 0
    called_off: int = 0
    one_more: int = 0
    messages: Counter[str] = field(default_factory=Counter)
    shared_moves: int = 0
    """Moves of components that serve more than one application."""


class PeerHost(Host):
    """A peer's place in the world."""

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(town.world, name)
        self._town = town
        self._performers |= {
            moves.Write: self._nothing,
            moves.LetGo: self._nothing,
            moves.DropReplica: self._nothing,
            moves.TakeSnapshot: self._take_snapshot,
            moves.InstallReplica: self._install,
            moves.Resubscribe: self._resubscribe,
            moves.TellMoved: self._moved,
            OfferOneMore: self._one_more,
            TellFound: self._nothing,
            TellKept: self._nothing,
        }

    def _nothing(self, effect: Effect) -> None:
        """Disks do not matter here: nobody crashes."""

    def _take_snapshot(self, effect: moves.TakeSnapshot) -> None:
        component = self._town.work.components[effect.component]
        self.take(moves.ReadersChanged(component.name, self._town.work.readers(component)))
        self.later(SNAPSHOT_US, self.take, moves.SnapshotTaken(effect.move, b"", 0))

    def _install(self, effect: moves.InstallReplica) -> None:
        self.later(INSTALL_US, self._installed, effect)

    def _installed(self, effect: moves.InstallReplica) -> None:
        self.take(moves.Advanced(effect.component, 0))
        self.take(moves.ReplicaInstalled(effect.move))

    def _resubscribe(self, effect: moves.Resubscribe) -> None:
        event = moves.Resubscribed(effect.move, effect.component, effect.epoch, 0)
        self.later(MILLISECOND, self.take, event)

    def _moved(self, effect: moves.TellMoved) -> None:
        if effect.done:
            self._town.moved(effect.component, self.name, effect.target)
        else:
            self._town.outcome.called_off += 1

    def _one_more(self, effect: OfferOneMore) -> None:
        self._town.outcome.one_more += 1


class Town:
    """All peers and applications of one run."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.rng = rng = Random(setting.seed)
        link = Link(latency_us=HOP_US, jitter_us=HOP_US // 3)
        self.world = World(Network(Random(rng.random()), link))
        self.world.tap = self._count
        self.outcome = Outcome()
        self.operators = [f"Encryption.DES.{56 + 8 * i}" for i in range(setting.operators)]
        costs = {o: setting.mean_cost_s * SECOND * rng.uniform(0.5, 1.5) for o in self.operators}
        self.work = Work(self.world, Random(rng.random()), costs)
        self.names = [f"peer{i}" for i in range(setting.peers)]
        self.offers = self._offers()
        self._start_peers()
        self.world.run(SETTLE_US)
        for number in range(setting.peers):
            self._compose(f"app{number}")
        self._scale_rates()
        for application in self.work.applications:
            self._change_later(application)
        for name in self.names:
            self._others(name)

    # --- beginning -----------------------------------------------------------------------------

    def _offers(self) -> dict[str, list[str]]:
        """The operators of each peer; every operator is offered by somebody."""
        while True:
            offers = {
                name: self.rng.sample(self.operators, self.setting.offered) for name in self.names
            }
            if len({o for some in offers.values() for o in some}) == len(self.operators):
                return offers

    def _start_peers(self) -> None:
        rings = assemble(self.names, self.setting.ring, self.rng, self.world.now)
        for name in sorted(self.names, key=key_of):
            host = PeerHost(self, name)
            balancer = BalancerMachine(rings[name], self.setting.options)
            machine = PeerMachine(balancer, MoverMachine(name))
            self.work.processors[name] = Processor(self.work, name, self.rng.uniform(0.6, 1.4))
            contacts = tuple(self.rng.sample(self.names, min(3, len(self.names))))
            host.start(machine, Started(1, contacts))
            self._say_hosted(name)
            self.world.at(self.rng.randrange(MINUTE), self._measure, name)

    def _say_hosted(self, name: str) -> None:
        running: dict[str, list[str]] = {operator: [] for operator in self.offers[name]}
        for component in self.work.at(name):
            running[component.operator].append(component.name)
        self.world.hosts[name].take(Hosted({o: tuple(c) for o, c in running.items()}))

    def _compose(self, name: str) -> None:
        """Choose, for each operator in turn, the peer that offers it and runs fewest components."""
        application = Application(name)
        for operator in self.rng.sample(self.operators, self.setting.length):
            offering = [peer for peer in self.names if operator in self.offers[peer]]
            self.rng.shuffle(offering)
            peer = min(offering, key=self._busyness)
            component = self._component(operator, peer)
            component.applications.append(application)
            application.chain.append(component)
        application.per_s = self.rng.random()
        self.work.start(application)

    def _busyness(self, peer: str) -> int:
        return sum(len(c.applications) for c in self.work.at(peer))

    def _component(self, operator: str, peer: str) -> Component:
        """The one that is there, or a new one."""
        name = f"{operator}@{peer}"
        found = self.work.components.get(name)
        if found is None:
            found = self.work.components[name] = Component(name, operator, peer)
            self.world.hosts[peer].take(moves.Created(name))
            self._say_hosted(peer)
        return found

    def _scale_rates(self) -> None:
        """Sources are as fast as the processors can bear on average."""
        demand = sum(
            a.per_s * sum(self.work.costs_us[c.operator] for c in a.chain)
            for a in self.work.applications
        )
        capacity = sum(p.speed for p in self.work.processors.values()) * SECOND
        self._scale = self.setting.utilisation * capacity / demand
        for application in self.work.applications:
            application.per_s *= self._scale

    def _change_later(self, application: Application) -> None:
        wait_us = round(self.rng.expovariate(1 / self.setting.changes_min) * MINUTE)
        self.world.at(self.world.now + wait_us, self._change, application)

    def _change(self, application: Application) -> None:
        application.per_s = self.rng.random() * self._scale
        self._change_later(application)

    def _others(self, name: str) -> None:
        """What others do at a peer changes now and then; at some there are many of them."""
        if self.setting.others:
            drawn = self.rng.expovariate(1 / self.setting.others)
            self.work.processors[name].share(min(drawn, 6 * self.setting.others))
            wait_us = round(self.rng.expovariate(1 / self.setting.changes_min) * MINUTE)
            self.world.at(self.world.now + wait_us, self._others, name)

    # --- going on --------------------------------------------------------------------------------

    def _measure(self, name: str) -> None:
        load = self.work.processors[name].average()
        self.outcome.loads.append((len(self.work.delays_us), load))
        if self.setting.managed:
            self.world.hosts[name].take(Measured(Used(queue=load)))
        self.world.at(self.world.now + MINUTE, self._measure, name)

    def moved(self, name: str, source: str, target: str) -> None:
        """A component runs elsewhere from now on, for all its applications."""
        component = self.work.components[name]
        component.host = target
        self.outcome.moved += 1
        self.outcome.shared_moves += len(component.applications) > 1
        self._say_hosted(source)
        self._say_hosted(target)
        self.world.hosts[target].take(Arrived(name, source))

    def _count(self, to: str, sender: str, message: Message) -> None:
        self.outcome.messages[type(message).__name__] += 1
        if isinstance(message, MIGRATION):
            self.outcome.migration_messages += 1

    def run(self) -> Outcome:
        """The whole time."""
        self.world.run(self.world.now + self.setting.minutes * MINUTE)
        outcome, work = self.outcome, self.work
        outcome.delays_s = [delay / SECOND for delay in work.delays_us]
        outcome.delivered = len(outcome.delays_s)
        outcome.transfers = work.transfers
        for host in self.world.hosts.values():
            machine: Any = host.machine
            outcome.updates += machine.balancer.updates
        return outcome
