"""Scouting ants at a cell: they look, go on, turn round, and report (ants 3.7)."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from australis.kernel.durations import MILLISECOND
from australis.kernel.machine import Effect, Send, SetTimer
from australis.placement.queries import Query
from australis.protocols.ants.along import Found, Stop, best_along
from australis.protocols.ants.chains import Chain, Parts, chains, parts
from australis.protocols.ants.distances import Distances
from australis.protocols.ants.events import AntOptions, Queue
from australis.protocols.ants.ground import Ground
from australis.protocols.ants.messages import Goal, Report, Reporting, Scout
from australis.protocols.ants.scents import Scents
from australis.protocols.ants.trails import MOST_STEPS, Trails

WAIT = "wait"
WAIT_US = 300 * MILLISECOND
"""So long a scout waits to hear how far some servers are."""
MOST_FAILED = 256
"""Scouts that failed are remembered for so many ways."""


@lru_cache(maxsize=512)
def chain_of(query: Query, number: int) -> tuple[Chain, Parts]:
    """A chain of a query, and what its parts do."""
    chain = chains(query)[number]
    return chain, parts(chain)


class Scouting:
    """What scouts do at one cell."""

    def __init__(
        self,
        name: str,
        ground: Ground,
        trails: Trails,
        scents: Scents,
        distances: Distances,
        options: AntOptions,
    ) -> None:
        self._name = name
        self._ground = ground
        self._trails = trails
        self._scents = scents
        self._distances = distances
        self._options = options
        self._failed: dict[tuple[str, ...], set[int]] = {}
        """How greedy those were that failed, by the way they came."""
        self._waiting: list[Scout] = []
        """Those that want to know how far some servers are."""
        self.evaluations = 0
        """How often the wait in a queue was worked out."""

    def arrived(self, ant: Scout, now: int) -> list[Effect]:
        """One comes by: it looks around, and waits its turn or turns round."""
        stops = ant.stops
        visited = [stop.server.name for stop in stops]
        if self._name in visited:
            stops = stops[: visited.index(self._name)]
        stops = (*stops, self._look(ant.goal))
        asks = self._distances.ask((pull.server for pull in ant.goal.pulls), now)
        taps = ant.taps
        if ant.goal.rank is not None:
            offers = self._ground.offers(ant.goal.query, ant.goal.rank)
            taps = tuple(dict.fromkeys((*taps, *offers)))
        ant = msgspec.structs.replace(ant, stops=stops, steps=ant.steps + 1, taps=taps)
        if len(stops[-1].far) < len({pull.server for pull in ant.goal.pulls}):
            self._waiting.append(ant)
            return [*asks, SetTimer(WAIT, now + WAIT_US)]
        return [*asks, *self._looked(ant, now)]

    def _looked(self, ant: Scout, now: int) -> list[Effect]:
        """One has seen what there is to see here."""
        if self._name == ant.destination:
            return self._turn(ant, now)
        return [Queue(ant)] if ant.steps <= MOST_STEPS else []

    def measured(self, now: int, patient: bool = True) -> list[Effect]:
        """A server has answered how far it is, or those who wait for that will wait no longer."""
        waited, self._waiting = self._waiting, []
        effects: list[Effect] = []
        for ant in waited:
            servers = dict.fromkeys(pull.server for pull in ant.goal.pulls)
            far = self._distances.of(servers)
            if patient and len(far) < len(servers):
                self._waiting.append(ant)
                continue
            last = msgspec.structs.replace(ant.stops[-1], far=far)
            ant = msgspec.structs.replace(ant, stops=(*ant.stops[:-1], last))
            effects += self._looked(ant, now)
        return effects

    def _look(self, goal: Goal) -> Stop:
        planned = frozenset(t for t, host in goal.hosts.items() if host == self._name)
        here = self._ground.here(goal.query.name, goal.query, planned)
        far = self._distances.of(dict.fromkeys(pull.server for pull in goal.pulls))
        return Stop(here, None, self._scents.detours(), far)

    def go_on(self, ant: Scout, now: int) -> list[Effect]:
        """One has waited its turn: on to the next cell."""
        visited = {stop.server.name for stop in ant.stops}
        to = self._trails.towards(ant.destination) if ant.straight else None
        if to is None:
            to = self._trails.next(ant.destination, visited, now)
        onward = self._ground.link(to, but=ant.goal.query.name)
        last = msgspec.structs.replace(ant.stops[-1], onward=onward)
        ant = msgspec.structs.replace(ant, stops=(*ant.stops[:-1], last))
        return [Send(to, ant)]

    def _turn(self, ant: Scout, now: int) -> list[Effect]:
        """It is at its destination: it makes up its mind and goes back."""
        chain, its_parts = chain_of(ant.goal.query, ant.goal.chain)
        path = tuple(stop.server.name for stop in ant.stops)
        size = len(chain.tasks)
        servers = sum(1 + len(stop.detours) for stop in ant.stops)
        self.evaluations += servers * size * (size + 1) // 2 + len(ant.stops) * (size + 1)
        metric = self._options.metric
        found = best_along(
            chain, its_parts, ant.stops, ant.alpha, ant.greed, metric, ant.goal.pulls
        )
        if found is None and not ant.taps:
            if len(self._failed) >= MOST_FAILED and path not in self._failed:
                del self._failed[next(iter(self._failed))]  # the oldest
            greeds = self._failed.setdefault(path, set())
            greeds.add(ant.greed)
            if len(greeds) < self._options.failures_told:
                return []
            del self._failed[path]
        report = _report(chain, found) if found is not None else None
        goal = ant.goal.query.name, ant.goal.version, ant.goal.chain
        back = Reporting(goal, ant.number, ant.destination, path[:-1], self._name, report, ant.taps)
        return self.back(back)

    def back(self, ant: Reporting) -> list[Effect]:
        """On to the next cell on the way back."""
        to = ant.path[-1] if ant.path else self._name
        return [Send(to, ant)]

    def returning(self, ant: Reporting, now: int) -> list[Effect] | None:
        """One comes by on its way back; None if it is at home here."""
        if not ant.path:
            return None
        if ant.report is None and not ant.taps:
            self._trails.discourage(ant.destination, ant.come_by, now)
        left = msgspec.structs.replace(ant, path=ant.path[:-1], come_by=self._name)
        return self.back(left) if left.path else None


def _report(chain: Chain, found: Found) -> Report:
    ends = (*chain.tasks, chain.target)
    routes = {
        there: found.routes[here, there]
        for here, there in zip((chain.source, *chain.tasks), ends, strict=True)
        if (here, there) in found.routes
    }
    return Report(found.hosts, routes, found.cost, found.least, found.pulled)
