"""Applications as chains of components, and the processors they wait for.

A component has a queue of tuples and runs at one peer; a peer serves the components with queued
tuples in turn, a tuple at a time. Its load is the number of those components, as an operating
system counts processes that are ready to run. As on PlanetLab, processes of other users run there
too: they are always ready to run, and get their turn.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

from australis.kernel.durations import MILLISECOND, SECOND
from australis.sim.world import World

HOP_US = 30 * MILLISECOND
"""The latency between two peers."""


@dataclass
class Application:
    """A chain of components with a source; every tuple passes all of them."""

    name: str
    chain: list[Component] = field(default_factory=list)
    per_s: float = 0.0


@dataclass
class Component:
    """An operator that works for some applications, at one peer at a time."""

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
    """The busy time of each component up to a moment."""

    at_us: int
    others_us: float
    ready_us: dict[str, int]

    def load_since(self, before: Mark) -> float:
        """The average number of busy components since then."""
        span = max(1, self.at_us - before.at_us)
        others = (self.others_us - before.others_us) / span
        return others + sum(self.part_since(before, component) for component in self.ready_us)

    def part_since(self, before: Mark, component: str) -> float:
        """The contribution of one component to that average."""
        span = max(1, self.at_us - before.at_us)
        return (self.ready_us.get(component, 0) - before.ready_us.get(component, 0)) / span


class Processor:
    """The processor of one peer, with its queues."""

    def __init__(self, work: Work, name: str, speed: float) -> None:
        self.name = name
        self.speed = speed
        self._work = work
        self.others = 0.0
        """The number of other users' processes that are ready to run."""
        self._queues: dict[str, deque[_Tuple]] = {}
        self._turn: deque[str] = deque()
        self._busy = False
        self._counted_us = work.world.now
        self._others_us = 0.0
        self._ready_us: dict[str, int] = {}
        """How long each component has had queued tuples."""

    def _count(self) -> None:
        now = self._work.world.now
        passed = now - self._counted_us
        self._others_us += self.others * passed
        for component in self._turn:
            self._ready_us[component] = self._ready_us.get(component, 0) + passed
        self._counted_us = now

    def mark(self) -> Mark:
        """The present busy times; the load is the average between two marks."""
        self._count()
        return Mark(self._counted_us, self._others_us, dict(self._ready_us))

    @property
    def waiting(self) -> int:
        """The tuples queued here."""
        return sum(map(len, self._queues.values()))

    def share(self, others: float) -> None:
        """Set the number of other users' processes."""
        self._count()
        self.others = others

    def take(self, component: Component, one: _Tuple) -> None:
        """Queue a tuple that arrives."""
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
    """All applications, the peers of their components, and their delivered tuples."""

    def __init__(self, world: World, rng: Random, costs_us: dict[str, float]) -> None:
        self.world = world
        self.rng = rng
        self.costs_us = costs_us
        self.processors: dict[str, Processor] = {}
        self.components: dict[str, Component] = {}
        self.applications: list[Application] = []
        self.delays_us: list[int] = []
        """The delay of each delivered tuple from its source to its receiver."""
        self.transfers = 0
        self._from_us = 0
        self.lost = 0
        """The number of tuples sent to a peer that no longer ran the component."""

    def start(self, application: Application) -> None:
        """Start a source."""
        self._emit_later(application)

    def begin_counting(self) -> None:
        """Discard the counts up to now."""
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
        """Pass a tuple on from a component that has processed it."""
        one.stage += 1
        if one.stage < len(one.application.chain):
            self._send(one)
        else:
            if one.born_us >= self._from_us:
                self.delays_us.append(self.world.now - one.born_us)

    def at(self, peer: str) -> list[Component]:
        """The components at a peer."""
        return [c for c in self.components.values() if c.host == peer]

    def readers(self, component: Component) -> tuple[str, ...]:
        """The peers that read a component's output."""
        found = set()
        for application in component.applications:
            for before, after in zip(application.chain, application.chain[1:], strict=False):
                if before is component:
                    found.add(after.host)
        return tuple(sorted(found))
