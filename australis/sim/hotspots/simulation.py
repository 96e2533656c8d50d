"""Peers that run applications together: composed through the ring, moved off overloaded peers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random
from typing import Any

from australis.kernel.durations import MILLISECOND, MINUTE, SECOND
from australis.kernel.errors import Stopped
from australis.kernel.machine import Effect, Event, Message
from australis.protocols.hotspots.balancer import BalancerMachine
from australis.protocols.hotspots.criteria import Thresholds
from australis.protocols.hotspots.events import (
    Arrived,
    Composed,
    Hosted,
    HotSpotOptions,
    Measured,
    NotComposed,
    OfferOneMore,
    Wanted,
)
from australis.protocols.hotspots.loads import Used
from australis.protocols.hotspots.messages import MigrationDecision
from australis.protocols.hotspots.peer import PeerMachine
from australis.protocols.movement import events as moves
from australis.protocols.movement import messages as words
from australis.protocols.movement.mover import MoverMachine
from australis.protocols.ring.events import RingOptions, Started, TellFound, TellKept
from australis.protocols.ring.keys import key_of
from australis.protocols.ring.peer import RingMachine
from australis.sim.hotspots.plan import Drawn, PeerPlan, PeersPlan, draw
from australis.sim.hotspots.work import HOP_US, Application, Component, Mark, Processor, Work
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
"""Few peers fail here, so ring maintenance need not run every second."""
MOVES = moves.MovementOptions(resend_us=3 * SECOND)
"""Messages are not lost here, and a move takes about a second."""
SNAPSHOT_US = 50 * MILLISECOND
INSTALL_US = 500 * MILLISECOND
SETTLE_US = 2 * MINUTE
"""Operators are registered and loads announced before the first application is composed."""
APART_US = 2 * SECOND
"""The time between the compositions of two applications."""
NOTICED_US = 15 * SECOND
"""The delay from a peer's failure until replacements for its components are sought."""
NEVER = Thresholds(overload=1e9)


class Managed(Enum):
    """How loads are balanced."""

    NOBODY = "nobody"
    PEERS = "the peers"
    CENTRE = "a centre that knows everything"
    """A centralized balancer that sees all loads, decides once a minute, and moves at once at no
    cost.
    """


@dataclass(frozen=True)
class HotspotsSetting:
    """The settings of an experiment; the defaults are the paper's values."""

    seed: int = 0
    managed: Managed = Managed.PEERS
    drawn: Drawn = field(default_factory=Drawn)
    minutes: int = 30
    changes_min: float = 10.0
    """The mean time between changes of source rates and of other processes' load; 0: none."""
    churn: float = 0.0
    """The part of the peers that fails per minute; equally many new ones join."""
    options: HotSpotOptions = field(default_factory=HotSpotOptions)
    ring: RingOptions = field(default_factory=lambda: CALM_RING)


@dataclass
class HotspotsOutcome:
    """The outcome of a run."""

    delays_s: list[float] = field(default_factory=list)
    delivered: int = 0
    transfers: int = 0
    lost: int = 0
    """The tuples that were at a failed peer or on their way to it."""
    loads: list[tuple[int, float]] = field(default_factory=list)
    """The number of delivered tuples and the load of a peer, at each measurement."""
    migration_messages: int = 0
    registrations: int = 0
    """The number of operators registered with a load before the applications start."""
    updates: int = 0
    """The number of load updates sent because a load had left its level."""
    moved: int = 0
    called_off: int = 0
    one_more: int = 0
    failed: int = 0
    """The number of failed peers."""
    recomposed: int = 0
    """The number of components replaced at another peer after a failure."""
    not_composed: int = 0
    """The number of failed attempts to replace a component."""
    homeless: int = 0
    """The number of components without a replacement for more than a minute."""
    messages: Counter[str] = field(default_factory=Counter)
    shared_moves: int = 0
    """The number of moves of components that serve more than one application."""
    moves: list[tuple[float, str, str, str]] = field(default_factory=list)
    """The time (s), component, source and target of each move."""


class PeerHost(Host):
    """A peer's host."""

    def __init__(self, town: HotspotsSimulation, name: str) -> None:
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
            Composed: self._composed,
            NotComposed: self._not_composed,
            TellFound: self._nothing,
            TellKept: self._nothing,
        }

    def _nothing(self, effect: Effect) -> None:
        """Nothing: no peer restarts, so disks are not needed."""

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

    def _composed(self, effect: Composed) -> None:
        self._town.composed(effect.application, effect.peers)

    def _not_composed(self, effect: NotComposed) -> None:
        self._town.not_composed(effect.application, effect.operator)


class HotspotsSimulation:
    """All peers and applications of one run."""

    def __init__(self, setting: HotspotsSetting, plan: PeersPlan | None = None) -> None:
        self.setting = setting
        self.rng = rng = Random(setting.seed)
        self.plan = plan or draw(setting.drawn, setting.options, Random(rng.random()))
        link = Link(latency_us=HOP_US, jitter_us=HOP_US // 3)
        self.world = World(Network(Random(rng.random()), link))
        self.world.tap = self._count
        self.outcome = HotspotsOutcome()
        costs_us = {o: cost * SECOND for o, cost in self.plan.operators.items()}
        self.work = Work(self.world, Random(rng.random()), costs_us)
        self.peers = dict(self.plan.peers)
        """The peers that are present."""
        self._joined = 0
        self._options = self.plan.options
        if setting.managed is not Managed.PEERS:
            self._options = replace(self._options, thresholds=NEVER)
        self._composing: dict[str, tuple[str, ...]] = {}
        """The operators of the applications and components that are being composed."""
        self._missed_us: dict[str, int] = {}
        """The time at which each component without a replacement was lost."""
        self._start_peers()
        self._compose_all()
        self.outcome = HotspotsOutcome(
            registrations=sum(len(p.offers) for p in self.peers.values())
        )
        for application in self.work.applications:
            self._change_later(application)
        if setting.managed is Managed.CENTRE:
            self._centre_later()
        if setting.churn:
            self.world.at(self.world.now + MINUTE, self._churn)

    # --- peers ---------------------------------------------------------------------------------

    def _start_peers(self) -> None:
        names = list(self.peers)
        rings = assemble(
            names, self.setting.ring, lambda _: Random(self.rng.random()), self.world.now
        )
        for name in sorted(names, key=key_of):
            self._start(name, rings[name], tuple(self.rng.sample(names, min(3, len(names)))))

    def _start(self, name: str, ring: RingMachine, contacts: tuple[str, ...]) -> None:
        balancer = BalancerMachine(ring, self._options, Random(self.rng.random()))
        peer = self.peers[name]
        self.work.processors[name] = Processor(self.work, name, peer.speed)
        PeerHost(self, name).start(
            PeerMachine(balancer, MoverMachine(name, MOVES)), Started(1, contacts)
        )  # fmt: skip
        self._say_hosted(name)
        self._others(name)
        wait_us = self.rng.randrange(MINUTE)
        mark = self.work.processors[name].mark()
        self.world.at(self.world.now + wait_us, self._measure, name, mark)

    def _tell(self, name: str, event: Event) -> None:
        """Hand an event to a peer, if it is still present."""
        if name in self.peers:
            self.world.hosts[name].take(event)

    def _say_hosted(self, name: str) -> None:
        if name not in self.peers:
            return
        running: dict[str, list[str]] = {operator: [] for operator in self.peers[name].offers}
        for component in self.work.at(name):
            running[component.operator].append(component.name)
        self._tell(name, Hosted({o: tuple(c) for o, c in running.items()}))

    def _others(self, name: str) -> None:
        """Change the load of other processes at a peer now and then; some peers have a high one."""
        if name not in self.peers or not self.peers[name].others:
            return
        mean = self.peers[name].others
        if not self.setting.changes_min:
            self.work.processors[name].share(mean)
            return
        drawn = self.rng.expovariate(1 / mean)
        self.work.processors[name].share(min(drawn, 6 * mean))
        wait_us = round(self.rng.expovariate(1 / self.setting.changes_min) * MINUTE)
        self.world.at(self.world.now + wait_us, self._others, name)

    def _measure(self, name: str, last: Mark) -> None:
        if name not in self.peers:
            return
        mark = self.work.processors[name].mark()
        load = mark.load_since(last)
        self.outcome.loads.append((len(self.work.delays_us), load))
        parts = {c.name: mark.part_since(last, c.name) for c in self.work.at(name)}
        self._tell(name, Measured(Used(queue=load), parts))
        self.world.at(self.world.now + MINUTE, self._measure, name, mark)

    # --- applications --------------------------------------------------------------------------

    def _compose_all(self) -> None:
        """Compose the applications one after the other and start each source at once; tuples
        delivered before all run are not counted.
        """
        self.world.run(SETTLE_US)
        for name, one in self.plan.applications.items():
            self.work.applications.append(Application(name, per_s=self._rate(name)))
            self._compose(name, one.operators)
            self.world.run(self.world.now + APART_US)
        self.world.run(self.world.now + 10 * SECOND)
        for application in self.work.applications:
            if not application.chain:
                raise Stopped(f"application {application.name} was not composed in 10 s")
        self.work.begin_counting()

    def _compose(self, name: str, operators: tuple[str, ...]) -> None:
        asker = self.rng.choice(list(self.peers))
        self._composing[name] = operators
        self._tell(asker, Wanted(name, operators))
        if self.setting.churn:  # a peer that was asked may fail
            self.world.at(self.world.now + NOTICED_US, self._once_more, name)

    def _once_more(self, name: str) -> None:
        operators = self._composing.get(name)
        if operators is not None:
            self._compose(name, operators)

    def composed(self, name: str, peers: tuple[str, ...]) -> None:
        """Use the peers that were found."""
        operators = self._composing.pop(name, None)
        if operators is None:
            return  # two peers were asked, and this is the second answer
        if any(peer not in self.peers for peer in peers):  # a peer has failed since its answer
            self._again(name, operators)
            return
        found = [self._component(o, p) for o, p in zip(operators, peers, strict=True)]
        application = next((a for a in self.work.applications if a.name == name), None)
        if application is not None:
            application.chain = found
            for component in found:
                component.applications.append(application)
            self.work.start(application)
        else:
            self._replace(self.work.components[name], found[0])
            self._say_hosted(found[0].host)

    def not_composed(self, name: str, operator: str) -> None:
        """Record that no peer was found; a running application tries again."""
        operators = self._composing.pop(name, None)
        if not self.setting.churn:
            raise Stopped(f"application {name}: no peer offers {operator}")
        if operators is not None:
            self._again(name, operators)

    def _again(self, name: str, operators: tuple[str, ...]) -> None:
        self.outcome.not_composed += 1
        self.world.at(self.world.now + NOTICED_US, self._compose, name, operators)

    def _component(self, operator: str, peer: str) -> Component:
        """The present component, or a new one."""
        for found in self.work.at(peer):
            if found.operator == operator:
                return found
        name = f"{operator}@{peer}"
        while name in self.work.components:
            name += "'"
        found = self.work.components[name] = Component(name, operator, peer)
        self._tell(peer, moves.Created(name))
        self._say_hosted(peer)
        return found

    def _rate(self, name: str) -> float:
        """Draw a rate from zero to twice a source's mean; the mean itself if nothing changes."""
        mean = self.plan.applications[name].per_s
        return 2 * mean * self.rng.random() if self.setting.changes_min else mean

    def _change_later(self, application: Application) -> None:
        if not self.setting.changes_min:
            return
        wait_us = round(self.rng.expovariate(1 / self.setting.changes_min) * MINUTE)
        self.world.at(self.world.now + wait_us, self._change, application)

    def _change(self, application: Application) -> None:
        application.per_s = self._rate(application.name)
        self._change_later(application)

    # --- moving ------------------------------------------------------------------------------------

    def moved(self, name: str, source: str, target: str) -> None:
        """Run a component at another peer from now on, for all its applications."""
        component = self.work.components.get(name)
        if component is None:
            return  # it was started anew at another peer
        component.host = target
        if target not in self.peers:  # its target failed at the last moment
            self._look_for(component)
            return
        self.outcome.moved += 1
        self.outcome.shared_moves += len(component.applications) > 1
        self.outcome.moves.append((self.world.now / SECOND, name, source, target))
        self._say_hosted(source)
        self._say_hosted(target)
        self._tell(target, Arrived(name, source))

    def _centre_later(self) -> None:
        marks = {name: self.work.processors[name].mark() for name in self.peers}
        self.world.at(self.world.now + self._options.balance_us, self._centre, marks)

    def _centre(self, last: dict[str, Mark]) -> None:
        """Relieve hot spots with full knowledge, while each move is an improvement."""
        since = {n: (self.work.processors[n].mark(), m) for n, m in last.items() if n in self.peers}
        load = {name: mark.load_since(before) for name, (mark, before) in since.items()}
        parts = {
            component.name: mark.part_since(before, component.name)
            for name, (mark, before) in since.items()
            for component in self.work.at(name)
        }
        thresholds = self.plan.options.thresholds
        while True:
            source = max(load, key=load.__getitem__, default=None)
            if source is None or load[source] <= thresholds.overload:
                break
            highest, name, target = min(
                (
                    (max(load[source] - parts[c.name], load[t] + parts[c.name]), c.name, t)
                    for c in self.work.at(source)
                    for t in load
                    if c.operator in self.peers[t].offers
                ),
                default=(load[source], "", ""),
            )
            if load[source] - highest <= thresholds.imbalance:
                del load[source]  # no move relieves it
                continue
            load[source] -= parts[name]
            load[target] += parts[name]
            self.moved(name, source, target)
        self._centre_later()

    # --- churn -------------------------------------------------------------------------------------

    def _churn(self) -> None:
        """Let some peers fail, and equally many new ones join."""
        for name in [n for n in self.peers if self.rng.random() < self.setting.churn]:
            self._join(like=self._fail(name))
        self.world.at(self.world.now + MINUTE, self._churn)

    def _fail(self, name: str) -> PeerPlan:
        self.outcome.failed += 1
        self.world.hosts[name].crash()
        was = self.peers.pop(name)
        self.outcome.lost += self.work.processors.pop(name).waiting
        for component in self.work.at(name):
            self._look_for(component)
        for other in self.peers:
            self.world.at(self.world.now + NOTICED_US, self._tell, other, moves.NodeLost(name))
        return was

    def _look_for(self, component: Component) -> None:
        """Notice the loss of a component after a delay, and look for another peer."""
        self._missed_us[component.name] = self.world.now
        operators = (component.operator,)
        self.world.at(self.world.now + NOTICED_US, self._compose, component.name, operators)

    def _join(self, like: PeerPlan) -> None:
        """Add a new peer that offers the failed one's operators, so that no operator disappears."""
        self._joined += 1
        name = f"new{self._joined}"
        contacts = tuple(self.rng.sample(list(self.peers), min(3, len(self.peers))))
        self.peers[name] = like
        ring = RingMachine(name, Random(self.rng.random()), self.setting.ring)
        self._start(name, ring, contacts)

    def _replace(self, dead: Component, by: Component) -> None:
        """Replace a lost component in all its applications."""
        self.outcome.recomposed += 1
        for application in dead.applications:
            application.chain = [by if c is dead else c for c in application.chain]
            by.applications.append(application)
        dead.applications = []
        del self.work.components[dead.name]
        del self._missed_us[dead.name]

    # --- the whole run ----------------------------------------------------------------------------

    def _count(self, to: str, sender: str, message: Message) -> None:
        if to == sender:
            return  # it never leaves the peer
        self.outcome.messages[type(message).__name__] += 1
        if isinstance(message, MIGRATION):
            self.outcome.migration_messages += 1

    def run(self) -> HotspotsOutcome:
        """Run for the whole time."""
        told = self._updates()
        self.world.run(self.world.now + self.setting.minutes * MINUTE)
        outcome, work = self.outcome, self.work
        outcome.delays_s = [delay / SECOND for delay in work.delays_us]
        outcome.delivered = len(outcome.delays_s)
        outcome.transfers = work.transfers
        outcome.lost += work.lost
        outcome.homeless = sum(self.world.now - at > MINUTE for at in self._missed_us.values())
        outcome.updates = self._updates() - told
        return outcome

    def _updates(self) -> int:
        machines: list[Any] = [host.machine for host in self.world.hosts.values()]
        return sum(machine.balancer.updates for machine in machines if machine is not None)
