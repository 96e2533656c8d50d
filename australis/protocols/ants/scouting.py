"""Scouting ants at a cell: they observe, go on, turn round, and report (ants 3.7)."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from australis.kernel.durations import MILLISECOND
from australis.kernel.machine import Effect, Send, SetTimer
from australis.placement.queries import Query
from australis.protocols.ants.chains import Chain, Parts, chains, parts
from australis.protocols.ants.distances import Distances
from australis.protocols.ants.events import AntOptions, Queue
from australis.protocols.ants.messages import Goal, Report, Reporting, Scout
from australis.protocols.ants.path_search import Found, Stop, best_along
from australis.protocols.ants.scents import Scents
from australis.protocols.ants.server_state import ServerState
from australis.protocols.ants.trails import MAX_STEPS, Trails

WAIT = "wait"
WAIT_US = 300 * MILLISECOND
"""The time for which a scout waits for missing distances."""
MAX_FAILED = 256
"""The maximum number of paths for which failed scouts are remembered."""


@lru_cache(maxsize=512)
def chain_of(query: Query, number: int) -> tuple[Chain, Parts]:
    """A chain of a query and its parts."""
    chain = chains(query)[number]
    return chain, parts(chain)


class Scouting:
    """The scouting ants at one cell."""

    def __init__(
        self,
        name: str,
        ground: ServerState,
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
        """The greeds of failed scouts, by path."""
        self._waiting: list[Scout] = []
        """Scouts that wait for the distances of servers."""
        self.evaluations = 0
        """The number of waiting times computed."""

    def arrived(self, ant: Scout, now: int) -> list[Effect]:
        """Receive a scout, which observes this cell and waits for missing distances if needed."""
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
        """Turn a scout round at its destination, or put it into the server's queue."""
        if self._name == ant.destination:
            return self._turn(ant, now)
        return [Queue(ant)] if ant.steps <= MAX_STEPS else []

    def measured(self, now: int, patient: bool = True) -> list[Effect]:
        """Resume waiting scouts whose distances are known, or all of them if not `patient`."""
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
        """Send a scout that has passed the queue to the next cell."""
        visited = {stop.server.name for stop in ant.stops}
        to = self._trails.towards(ant.destination) if ant.straight else None
        if to is None:
            to = self._trails.next(ant.destination, visited, now)
        onward = self._ground.link(to, but=ant.goal.query.name)
        last = msgspec.structs.replace(ant.stops[-1], onward=onward)
        ant = msgspec.structs.replace(ant, stops=(*ant.stops[:-1], last))
        return [Send(to, ant)]

    def _turn(self, ant: Scout, now: int) -> list[Effect]:
        """Compute the best placement at the destination and send the scout back with it."""
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
            if len(self._failed) >= MAX_FAILED and path not in self._failed:
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
        """Send a scout to the next cell on its way back."""
        to = ant.path[-1] if ant.path else self._name
        return [Send(to, ant)]

    def returning(self, ant: Reporting, now: int) -> list[Effect] | None:
        """Receive a scout on its way back; None if it has reached its origin."""
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
