"""Applications as chains of components, and the processors they wait for.

A component has a queue of tuples and runs at one peer; a peer works for the components that have
something to do in turn, a tuple at a time. Its load is the number of those components, as an
operating system counts whoever is ready to run. As on PlanetLab others work there too: their
processes are always ready to run, and get their turn.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

from australis.kernel.durations import MILLISECOND, SECOND
from australis.sim.world import World

HOP_US = 30 * MILLISECOND
"""From one peer to another."""


@dataclass
class Application:
    """A chain of components with a source; every tuple goes through all of them."""

    name: str
    chain: list[Component] = field(default_factory=list)
    per_s: float = 0.0


@dataclass
class Component:
    """An operator at work for some applications, at one peer at a time."""

    name: str
    operator: str
    host: str
    applications: list[Application] = field(default_factory=list)


@dataclass
class _Tuple:
    application: Application
    born_us: int
    stage: int = 0


@dataclass(frozen=True)
class Mark:
    """A moment, and for how long each had had something to do by then."""

    at_us: int
    others_us: float
    ready_us: dict[str, int]

    def load_since(self, before: Mark) -> float:
        """How many had something to do at a time since then, on average."""
        span = max(1, self.at_us - before.at_us)
        others = (self.others_us - before.others_us) / span
        return others + sum(self.part_since(before, component) for component in self.ready_us)

    def part_since(self, before: Mark, component: str) -> float:
        """What one component adds to that."""
        span = max(1, self.at_us - before.at_us)
        return (self.ready_us.get(component, 0) - before.ready_us.get(component, 0)) / span


class Processor:
    """What works at one peer, and how much waits for it."""

    def __init__(self, work: Work, name: str, speed: float) -> None:
        self.name = name
        self.speed = speed
        self._work = work
        self.others = 0.0
        """So many processes of others are ready to run."""
        self._queues: dict[str, deque[_Tuple]] = {}
        self._turn: deque[str] = deque()
        self._busy = False
        self._counted_us = work.world.now
        self._others_us = 0.0
        self._ready_us: dict[str, int] = {}
        """For how long each component has had something to do."""

    def _count(self) -> None:
        now = self._work.world.now
        passed = now - self._counted_us
        self._others_us += self.others * passed
        for component in self._turn:
            self._ready_us[component] = self._ready_us.get(component, 0) + passed
        self._counted_us = now

    def mark(self) -> Mark:
        """How things stand now; between two of them lies a load."""
        self._count()
        return Mark(self._counted_us, self._others_us, dict(self._ready_us))

    @property
    def waiting(self) -> int:
        """Tuples that are here."""
        return sum(map(len, self._queues.values()))

    def share(self, others: float) -> None:
        """Others have so much to do here from now on."""
        self._count()
        self.others = others

    def take(self, component: Component, one: _Tuple) -> None:
        """A tuple arrives."""
        queue = self._queues.setdefault(component.name, deque())
        if not queue:
            self._count()
            self._turn.append(component.name)
        queue.append(one)
        if not self._busy:
            self._next()

    def _next(self) -> None:
        if not self._turn:
            self._busy = False
            return
        self._busy = True
        component = self._turn[0]
        one = self._queues[component][0]
        operator = one.application.chain[one.stage].operator
        took = self._work.costs_us[operator] / self.speed
        took *= self._work.rng.expovariate(1.0)
        took *= 1 + self.others / len(self._turn)
        self._work.world.at(self._work.world.now + round(took), self._done)

    def _done(self) -> None:
        if self._work.processors.get(self.name) is not self:
            return  # the peer has failed
        component = self._turn[0]
        one = self._queues[component].popleft()
        self._count()
        self._turn.popleft()
        if self._queues[component]:
            self._turn.append(component)
        self._work.forward(one)
        self._next()


class Work:
    """All applications, where their components run, and what came of their tuples."""

    def __init__(self, world: World, rng: Random, costs_us: dict[str, float]) -> None:
        self.world = world
        self.rng = rng
        self.costs_us = costs_us
        self.processors: dict[str, Processor] = {}
        self.components: dict[str, Component] = {}
        self.applications: list[Application] = []
        self.delays_us: list[int] = []
        """From its source to its receiver, of each tuple that was delivered."""
        self.transfers = 0
        self._from_us = 0
        self.lost = 0
        """Tuples that found nobody where they were sent."""

    def start(self, application: Application) -> None:
        """Let a source begin."""
        self._emit_later(application)

    def begin_counting(self) -> None:
        """Forget what came out so far."""
        self.delays_us.clear()
        self.transfers = self.lost = 0
        self._from_us = self.world.now

    def _emit_later(self, application: Application) -> None:
        wait_us = round(self.rng.expovariate(max(application.per_s, 1e-9)) * SECOND)
        self.world.at(self.world.now + wait_us, self._emit, application)

    def _emit(self, application: Application) -> None:
        self._send(_Tuple(application, self.world.now))
        self._emit_later(application)

    def _send(self, one: _Tuple) -> None:
        self.transfers += 1
        self.world.at(self.world.now + HOP_US, self._arrive, one)

    def _arrive(self, one: _Tuple) -> None:
        component = one.application.chain[one.stage]
        processor = self.processors.get(component.host)
        if processor is None:
            self.lost += 1
        else:
            processor.take(component, one)

    def forward(self, one: _Tuple) -> None:
        """A component is done with a tuple."""
        one.stage += 1
        if one.stage < len(one.application.chain):
            self._send(one)
        else:
            if one.born_us >= self._from_us:
                self.delays_us.append(self.world.now - one.born_us)

    def at(self, peer: str) -> list[Component]:
        """What runs at a peer."""
        return [c for c in self.components.values() if c.host == peer]

    def readers(self, component: Component) -> tuple[str, ...]:
        """Peers that read what a component writes."""
        found = set()
        for application in component.applications:
            for before, after in zip(application.chain, application.chain[1:], strict=False):
                if before is component:
                    found.add(after.host)
        return tuple(sorted(found))
