"""The trails of a cell: its visiting routing ants, and their pheromones (ants 3.3 to 3.5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from random import Random

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect, Send
from australis.protocols.ants.events import AntOptions, Queue
from australis.protocols.ants.messages import Homing, Hop, Routing
from australis.protocols.ants.pheromones import Trips, Vector

TYPICAL_TRAFFIC = 30_000.0
"""The assumed bytes per second of a query on a link, if traffic counts."""
MAX_STEPS = 64
"""The number of cells after which an ant is lost."""


Towards = Callable[[str], str | None]


class Trails:
    """Vectors and trip statistics by destination."""

    def __init__(
        self,
        name: str,
        neighbours: Sequence[str],
        rng: Random,
        options: AntOptions,
        towards: Towards = lambda destination: None,
    ) -> None:
        self._name = name
        self.towards = towards
        """Returns the next hop of the network's route to a destination, if it is known."""
        self._neighbours = tuple(neighbours)
        self._rng = rng
        self._options = options
        self.vectors: dict[str, Vector] = {}
        self.trips: dict[str, Trips] = {}
        self._used_us: dict[str, int] = {}

    # --- vectors ------------------------------------------------------------------------------

    def vector(self, destination: str, now: int) -> Vector:
        """The vector for a destination; initially uniform, but a neighbour leads to itself."""
        self._used_us[destination] = now
        found = self.vectors.get(destination)
        if found is None:
            found = self.vectors[destination] = Vector(self._neighbours)
            if destination in self._neighbours:
                found.reinforce(destination, 0.5)
        return found

    def next(self, destination: str, visited: Collection[str], now: int) -> str:
        """The next hop of an ant: an unvisited neighbour if there is one."""
        fresh = [name for name in self._neighbours if name not in visited]
        return self.vector(destination, now).choose(self._rng, fresh or self._neighbours)

    def expire(self, now: int) -> None:
        """Forget destinations that no ant has used recently."""
        for destination, used in list(self._used_us.items()):
            if now - used > self._options.expiry_us:
                del self._used_us[destination]
                self.vectors.pop(destination, None)
                self.trips.pop(destination, None)

    # --- routing ants ---------------------------------------------------------------------------

    def send(
        self, destination: str, number: int, now: int, beside: tuple[str, ...] = ()
    ) -> list[Effect]:
        """Send routing ants to a destination."""
        ant = Routing(destination, (), self._name, now, beside=beside)
        return [Queue(ant) for _ in range(number)]

    def arrived(self, ant: Routing, now: int) -> list[Effect]:
        """Receive a routing ant, which goes on, turns round, or is dropped after a long cycle."""
        took_us = self._measure(now - ant.since_us)
        hops, age_us = (*ant.hops, Hop(ant.at, took_us)), ant.age_us + took_us
        visited = [hop.cell for hop in hops]
        if self._name in visited:
            start = visited.index(self._name)
            if 2 * sum(hop.took_us for hop in hops[start:]) > age_us:
                return []
            hops = hops[:start]
        if self._name == ant.destination:
            return self._home(ant.destination, hops, self._name, 0)
        if ant.steps >= MAX_STEPS:
            return []
        further = Routing(ant.destination, hops, self._name, now, age_us, ant.steps + 1, ant.beside)
        return [Queue(further)]

    def _measure(self, took_us: int) -> int:
        """The weight of a hop: its duration, and its traffic if that counts too."""
        metric = self._options.metric
        by_time = metric.latency + metric.usage * TYPICAL_TRAFFIC
        return int(by_time * took_us + metric.bandwidth * TYPICAL_TRAFFIC * SECOND)

    def go_on(self, ant: Routing, now: int) -> list[Effect]:
        """Send a routing ant that has passed the queue to the next cell."""
        if not self._neighbours:
            return []
        visited = {self._name, *(hop.cell for hop in ant.hops)}
        return [Send(self.next(ant.destination, visited, now), ant)]

    def _home(
        self, destination: str, hops: tuple[Hop, ...], next_: str, took_us: int
    ) -> list[Effect]:
        if not hops:
            return []
        return [Send(hops[-1].cell, Homing(destination, hops, next_, took_us))]

    def homing(self, ant: Homing, now: int) -> tuple[list[Effect], bool]:
        """Receive a returning ant and its pheromone; return whether it is at its origin, too."""
        took_us = ant.took_us + ant.hops[-1].took_us
        self._learn(ant.destination, ant.next, took_us / SECOND, now)
        left = ant.hops[:-1]
        return self._home(ant.destination, left, self._name, took_us), not left

    def _learn(self, destination: str, next_: str, took_s: float, now: int) -> None:
        vector = self.vector(destination, now)
        trips = self.trips.setdefault(destination, Trips())
        good = trips.good(took_s)
        trips.add(took_s)
        if good and next_ in self._neighbours:
            r = self._options.reinforcement * trips.best_s / max(took_s, 1e-9)
            vector.reinforce(next_, min(1.0, r))

    def discourage(self, destination: str, next_: str, now: int) -> None:
        """Lower the probability of a neighbour that led to a failure."""
        if next_ in self._neighbours:
            self.vector(destination, now).discourage(next_, self._options.reinforcement)
