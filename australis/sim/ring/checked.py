"""One run: a ring whose peers join, depart and fail, and the promises to check."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from australis.kernel.durations import SECOND
from australis.kernel.rng import SeedTree
from australis.kernel.trace import Trace
from australis.protocols.ring.events import (
    Departed,
    Fetched,
    LookedUp,
    Registered,
    TellFound,
    TellKept,
    Withdrawn,
)
from australis.protocols.ring.keys import key_of
from australis.protocols.ring.lookup import ASKED
from australis.protocols.ring.peer import RingMachine
from australis.sim.faults import Fault, Inflictor
from australis.sim.harness.model import Violation
from australis.sim.network import Network
from australis.sim.ring.rings import Ring, RingHost
from australis.sim.ring.schedule import (
    DEPART,
    FAULTS_US,
    JOIN,
    LOOK_UP,
    NAMES,
    REGISTER,
    Act,
    RingScenario,
    Split,
)

CALM_US = 60 * SECOND
"""The time after healing by which the ring must be in order."""
ASKING_US = 30 * SECOND
"""The time allowed for all final lookups together."""


class CheckedHost(RingHost):
    """A peer's host, which measures how long answers take."""

    def asks(self, event: LookedUp | Fetched) -> None:
        """Hand a question to the peer."""
        if self.machine is not None:
            self.asked[event.tag] = self.world.now, self.incarnation
            self.take(event)

    @property
    def asked(self) -> dict[str, tuple[int, int]]:
        """The time and the incarnation of each open question."""
        found: dict[str, tuple[int, int]] = self.__dict__.setdefault("_asked", {})
        return found

    @property
    def unasked(self) -> list[str]:
        """Answers without an open question."""
        found: list[str] = self.__dict__.setdefault("_unasked", [])
        return found

    def _tell_found(self, effect: TellFound) -> None:
        self._answered(effect.tag)
        super()._tell_found(effect)

    def _tell_kept(self, effect: TellKept) -> None:
        self._answered(effect.tag)
        super()._tell_kept(effect)

    def _answered(self, tag: str) -> None:
        if self.asked.pop(tag, None) is None:
            self.unasked.append(tag)

    def open_since(self) -> dict[str, int]:
        """The open questions of this incarnation, with the time of each."""
        return {
            tag: at for tag, (at, incarnation) in self.asked.items()
            if incarnation == self.incarnation
        }  # fmt: skip


class CheckedRing(Ring):
    """A ring of such peers."""

    host_class = CheckedHost

    def __init__(self, scenario: RingScenario, chance: SeedTree, trace: Trace | None) -> None:
        network = Network(chance.stream("network"), scenario.link)
        super().__init__(network, chance, scenario.options)
        self.world.trace = trace
        self.machine_class = scenario.machine_class


class RingSimulation:
    """One run."""

    def __init__(self, scenario: RingScenario, trace: Trace | None = None) -> None:
        self.scenario = scenario
        chance = SeedTree(scenario.seed).under("run")
        self.ring = CheckedRing(scenario, chance, trace)
        self.world = self.ring.world
        self.counts: Counter[str] = Counter()
        self.members: set[str] = set()
        """The peers that should be in the ring."""
        self.wanted: dict[tuple[str, str], bytes] = {}
        """The entries that should be found, by name and owner."""
        self._lookups = 0
        self._begin()
        self._plan()

    # --- events ---------------------------------------------------------------------------------

    def _begin(self) -> None:
        scenario = self.scenario
        self.members |= set(scenario.peers)
        if scenario.assembled:
            self.ring.assemble(scenario.peers, scenario.contacts)
            return
        for name in scenario.peers:
            self.ring.join(name, scenario.contacts)
            self.world.run(self.world.now + SECOND // 5)

    def _plan(self) -> None:
        inflictor = Inflictor(self.world, self.scenario.link, self._boot)
        for planned in self.scenario.schedule:
            at_us = max(planned.at_us, self.world.now)
            if isinstance(planned, Fault):
                self.counts[planned.kind.value] += 1
                inflictor.plan([replace(planned, at_us=at_us)])
            elif isinstance(planned, Split):
                self.counts["split"] += 1
                self.world.at(at_us, self._split, planned.peers, self.world.network.cut)
                mended = max(at_us, planned.until_us)
                self.world.at(mended, self._split, planned.peers, self.world.network.mend)
            else:
                self.world.at(at_us, self._do, planned)

    def _boot(self, name: str) -> None:
        """Start a peer again with the registrations it had before."""
        if name in self.members:
            self.ring.join(name, self.scenario.contacts)
            for (under, owner), value in self.wanted.items():
                if owner == name:
                    self.ring.hosts[name].take(Registered(under, value))

    def _split(self, peers: tuple[str, ...], do: object) -> None:
        assert callable(do)
        others = [p for p in self.scenario.peers if p not in peers]
        for a in peers:
            for b in others:
                do(a, b)
                do(b, a)

    def _do(self, act: Act) -> None:
        peer = act.peer
        if act.what == JOIN:
            self.members.add(peer)
            self.ring.join(peer, self.scenario.contacts)
        if peer not in self.members:
            return
        self.counts[act.what] += 1
        host = self.ring.hosts[peer]
        if act.what == DEPART:
            self.members.discard(peer)
            self.wanted = {key: v for key, v in self.wanted.items() if key[1] != peer}
            host.take(Departed())
            host.crash()
        elif act.what == REGISTER:
            value = f"{peer} at {act.at_us}".encode()
            self.wanted[act.name, peer] = value
            host.take(Registered(act.name, value))
        elif act.what == LOOK_UP:
            self._ask(peer, act.name)
        elif self.wanted.pop((act.name, peer), None) is not None:
            host.take(Withdrawn(act.name))

    def _ask(self, peer: str, name: str) -> tuple[str, str]:
        """Look a name up, and fetch the entries under it."""
        self._lookups += 1
        tags = f"lookup {self._lookups} of {name}", f"fetch {self._lookups} of {name}"
        host = self._host(peer)
        host.asks(LookedUp(tags[0], name))
        host.asks(Fetched(tags[1], name))
        return tags

    def _host(self, peer: str) -> CheckedHost:
        host = self.ring.hosts[peer]
        assert isinstance(host, CheckedHost)
        return host

    # --- promises -------------------------------------------------------------------------------

    def run(self) -> list[Violation]:
        """Run to the end; report the violations."""
        found: list[Violation] = []
        while self.world.now < FAULTS_US and not found:
            self.world.run(self.world.now + SECOND)
            found = list(self._answers())
        self.world.network.heal()
        while not found and self.world.now < FAULTS_US + CALM_US:
            self.world.run(self.world.now + SECOND)
            found = list(self._answers())
            if self.world.now > FAULTS_US + SECOND and not self._disorder():
                break
        # Until every entry is registered at its responsible peer, and stale entries have expired.
        self.world.run(self.world.now + self.scenario.options.lasts_us + 2 * SECOND)
        found = found or [*self._disorder(), *self._all_found()]
        self.counts["messages"] += self.world.delivered
        return found

    def _answers(self, limit_us: int | None = None) -> Iterator[Violation]:
        """Every question is answered once, within a time that depends on the peers that may be
        asked.
        """
        options = self.scenario.options
        asked = len(self.ring.hosts) + ASKED * (options.successors + 1)
        lookup_us = options.tries * asked * options.answer_us
        for name in self.ring.hosts:
            host = self._host(name)
            for tag in host.unasked:
                yield Violation("once", f"{name} answers {tag} twice")
            if host.machine is None or host.paused:
                continue
            for tag, at_us in host.open_since().items():
                tries = 1 if tag.startswith("lookup") else options.tries
                if self.world.now - at_us > (limit_us or tries * lookup_us):
                    late_s = (self.world.now - at_us) / SECOND
                    yield Violation("answered", f"{tag} at {name} hangs for {late_s:.0f} s")

    def _order(self) -> list[str]:
        return sorted(self.members, key=key_of)

    def _machine(self, name: str) -> RingMachine:
        return self.ring.machine(name)

    def _disorder(self) -> list[Violation]:
        return [*self._neighbours(), *self._fingers()]

    def _neighbours(self) -> Iterator[Violation]:
        """Each peer knows its predecessor and its successors."""
        order, most = self._order(), self.scenario.options.successors
        for at, name in enumerate(order):
            table = self._machine(name).table
            behind = [order[(at + k) % len(order)] for k in range(1, len(order))][:most]
            if table.after != behind:
                yield Violation("neighbours", f"behind {name} come {table.after}, not {behind}")
            before = order[at - 1] if len(order) > 1 else None
            if table.before != before:
                yield Violation("neighbours", f"before {name} is {table.before}, not {before}")

    def _fingers(self) -> Iterator[Violation]:
        """Each finger points to the peer that is responsible for its place."""
        order = self._order()
        places = [key_of(name) for name in order]
        for name in order:
            table = self._machine(name).table
            for exponent in table.missing_fingers():
                right = order[bisect_left(places, table.finger_place(exponent)) % len(order)]
                there = table.finger(exponent) or name
                if there != right:
                    story = f"finger {exponent} of {name} leads to {there}, not {right}"
                    yield Violation("fingers", story)

    def _all_found(self) -> Iterator[Violation]:
        """Every lookup finds the responsible peer, and all entries of peers that are present."""
        asked = {(peer, name): self._ask(peer, name) for peer in self._order() for name in NAMES}
        self.world.run(self.world.now + ASKING_US)
        yield from self._answers(ASKING_US - 1)
        responsible = self.ring.all_responsible(NAMES)
        for (peer, name), (lookup, fetch) in asked.items():
            host, right = self._host(peer), responsible[name]
            self.counts["found"] += 1
            found, _ = host.found.get(lookup, ((), 0))
            if found[:1] != (right,):
                story = f"{peer} finds {found[:1]} responsible for {name}, not {right}"
                yield Violation("responsible", story)
            entries = host.kept.get(fetch) or ()
            there = {entry.owner: entry.value for entry in entries}
            wanted = {o: value for (under, o), value in self.wanted.items() if under == name}
            if there != wanted:
                yield Violation("kept", f"{peer} finds {there} under {name}, not {wanted}")
