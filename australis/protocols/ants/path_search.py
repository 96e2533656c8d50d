"""The best servers for a chain on the path of a scout.

The paper's scouts move tasks between adjacent servers on their way back if that is better. Here
scouts carry their observations and find the best of all placements on their path by dynamic
programming: the cost of tasks on one server does not depend on the other servers
(`placement.model`), so that the best placement of the first tasks up to one server is part of the
best placement up to the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf

import msgspec
import numpy as np
import numpy.typing as npt

from australis.placement.metric import LATENCY, Metric
from australis.protocols.ants.chains import Array, Chain, Edges, Parts, Pull
from australis.protocols.ants.observations import (
    LinkObservation,
    ServerObservation,
    Way,
    link_costs,
    part_costs,
)

Ints = npt.NDArray[np.int_]
Routes = dict[tuple[str, str], tuple[str, ...]]


class Detour(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A server beside the path, and the paths there and back."""

    server: ServerObservation
    path: tuple[str, ...]
    """The path from the stop to the server, both included."""
    there: Way
    back: Way


class Stop(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A server on a scout's path."""

    server: ServerObservation
    onward: LinkObservation | None
    """The link by which the scout left, if it did not end here."""
    detours: tuple[Detour, ...] = ()
    """Servers beside the path that can be reached from here."""
    far: tuple[tuple[str, float], ...] = ()
    """The known distances in seconds to servers that pull the chain."""


@dataclass(frozen=True)
class Found:
    """A placement of a chain on a path."""

    hosts: dict[str, str]
    routes: Routes
    cost: float
    least: float
    """A lower bound on the cost: no other load, and every server as fast as the fastest."""
    pulled: float = 0.0
    """The additional cost of the flows to servers that pull the chain."""


@dataclass(frozen=True)
class _Step:
    """One step of the dynamic program: more tasks may be placed on one server."""

    at: int
    """The index of the stop of the step, or to which its detour returns."""
    came: Ints
    """The number of tasks placed before the step, by the number placed after it."""
    detour: Detour | None = None
    left: Ints | None = None
    """For a detour: the step in which the path was left, by the number of tasks placed before."""


@dataclass
class _Entry:
    """The cheapest paths to a server beside the path, by the number of tasks placed before."""

    costs: Array
    left: Ints


def best_along(
    chain: Chain,
    parts: Parts,
    stops: Sequence[Stop],
    alpha: float = 1.0,
    greed: int | None = None,
    metric: Metric = LATENCY,
    pulls: Sequence[Pull] = (),
) -> Found | None:
    """The best placement of a chain on the servers on and beside a path, with at most `greed` tasks
    on one server and loads below alpha; None if there is none."""
    greed = greed or len(chain.tasks)
    pulls = _measurable(pulls, stops)
    found = _PrefixCosts(chain, parts, stops, alpha, greed, metric, pulls).find()
    if found is not None and not _together(chain, found):
        # A server beside the path was visited twice, and its load was counted in two parts.
        straight = [msgspec.structs.replace(stop, detours=()) for stop in stops]
        found = _PrefixCosts(chain, parts, straight, alpha, greed, metric, pulls).find()
    return found


def _measurable(pulls: Sequence[Pull], stops: Sequence[Stop]) -> list[Pull]:
    """The pulls whose server's distance every stop knows: others would seem to be near."""
    known = [dict(stop.far) for stop in stops]
    return [pull for pull in pulls if all(pull.server in far for far in known)]


def _together(chain: Chain, found: Found) -> bool:
    """Whether the tasks on each server are consecutive."""
    hosts = [found.hosts[task] for task in chain.tasks]
    return len([host for host, _ in itertools.groupby(hosts)]) == len(set(hosts))


class _PrefixCosts:
    """The least cost of placing the first tasks, by their number, stop by stop."""

    def __init__(
        self,
        chain: Chain,
        parts: Parts,
        stops: Sequence[Stop],
        alpha: float,
        greed: int,
        metric: Metric,
        pulls: Sequence[Pull] = (),
    ) -> None:
        self._chain = chain
        self._parts = parts
        self._stops = stops
        self._alpha = alpha
        self._size = len(chain.tasks)
        self._allowed = _allowed(self._size, greed)
        self._metric = metric
        self._pulls = pulls
        self._edges = Edges.of(chain)
        self._costs = np.full(self._size + 1, inf)
        self._costs[0] = 0.0
        self._steps: list[_Step] = []
        self._entries: dict[str, _Entry] = {}
        self._away_s: dict[tuple[str, str], float] = {}
        self._outs: dict[tuple[str, int], tuple[int, Detour]] = {}
        """The stop and the detour for a server beside the path, by its name and step."""

    def find(self) -> Found | None:
        chain, stops = self._chain, self._stops
        on_the_way = {stop.server.name for stop in stops}
        for at, stop in enumerate(stops):
            merges = (at == 0 and chain.splits) or (at == len(stops) - 1 and chain.joins)
            if chain.tasks:
                here = part_costs(self._parts, stop.server, self._alpha, self._metric, merges)
                came = self._place(self._costs[:-1], here + self._pulled(stop))
                self._steps.append(_Step(at, came))
                for detour in stop.detours:
                    if detour.server.name not in on_the_way:
                        self._turn_off(at, stop, detour)
            if stop.onward is not None:
                self._costs = self._costs + link_costs(stop.onward, self._edges, self._metric)
        cost = float(self._costs[-1])
        if not cost < inf:
            return None
        hosts, routes = self._retrace()
        pulled = sum(
            pull.costs * self._away_s[hosts[chain.tasks[pull.task]], pull.server]
            for pull in self._pulls
        )
        return Found(hosts, routes, cost - pulled, self._least(), pulled)

    def _pulled(self, stop: Stop, detour: Detour | None = None) -> Array:
        """The cost of the flows to pulling servers, for every first and last task on a server; for
        a detour by way of its stop."""
        each = np.zeros(self._size)
        server = stop.server.name if detour is None else detour.server.name
        more_s = 0.0 if detour is None else detour.back.latency_s
        far = dict(stop.far)
        for pull in self._pulls:
            away_s = 0.0 if pull.server == server else far[pull.server] + more_s
            self._away_s[server, pull.server] = away_s
            each[pull.task] += pull.costs * away_s
        sums = np.concatenate([[0.0], np.cumsum(each)])
        return np.asarray(sums[None, 1:] - sums[:-1, None])

    def _place(self, before: Array, costs: Array) -> Ints:
        """Place more tasks or none on one server; return the numbers placed before."""
        came = np.arange(self._size + 1)
        # Only consecutive tasks, at most `greed` of them.
        total = np.where(self._allowed, before[:, None] + costs, inf)
        first = np.argmin(total, axis=0)
        best = total[first, np.arange(self._size)]
        better = best < self._costs[1:]
        self._costs = np.concatenate([self._costs[:1], np.where(better, best, self._costs[1:])])
        came[1:][better] = first[better]
        return came

    def _turn_off(self, at: int, stop: Stop, detour: Detour) -> None:
        """Place tasks on a server beside the path, left here or earlier, and return here."""
        name, position = detour.server.name, len(self._steps)
        ways = self._costs + detour.there.costs(self._edges, self._metric)
        known = self._entries.get(name)
        if known is None:
            known = self._entries[name] = _Entry(ways, np.full(self._size + 1, position))
        else:
            better = ways < known.costs
            known.costs = np.where(better, ways, known.costs)
            known.left = np.where(better, position, known.left)
        self._outs[name, position] = at, detour
        beside = part_costs(self._parts, detour.server, self._alpha, self._metric)
        back = detour.back.costs(self._edges, self._metric)
        beside = beside + self._pulled(stop, detour)
        came = self._place(known.costs[:-1], beside + back[None, 1:])
        self._steps.append(_Step(at, came, detour, known.left))

    def _retrace(self) -> tuple[dict[str, str], Routes]:
        """The hosts of all tasks, and the routes between them."""
        chain = self._chain
        ends = (chain.source, *chain.tasks, chain.target)
        names = [stop.server.name for stop in self._stops]
        hosts: dict[str, str] = {}
        routes: Routes = {}
        position, done = len(self._steps), self._size
        to = len(names) - 1
        """The index of the stop to which the next edge leads."""
        onward: tuple[str, ...] = ()
        """The servers that follow that stop on the edge's route."""
        while done:
            position -= 1
            step = self._steps[position]
            before = int(step.came[done])
            if before == done:
                continue
            edge = ends[done], ends[done + 1]
            if step.detour is None:
                host = names[step.at]
                routes[edge] = (*names[step.at : to + 1], *onward)
                to, onward = step.at, ()
            else:
                assert step.left is not None
                host = step.detour.server.name
                back = tuple(reversed(step.detour.path[1:]))
                routes[edge] = (*back, *names[step.at : to + 1], *onward)
                position = int(step.left[before])
                to, out = self._outs[host, position]
                onward = out.path[1:]
            hosts |= dict.fromkeys(chain.tasks[before:done], host)
            done = before
        routes[ends[0], ends[1]] = (*names[: to + 1], *onward)
        return hosts, routes

    def _least(self) -> float:
        speeds = [stop.server.speed for stop in self._stops]
        speeds += [detour.server.speed for stop in self._stops for detour in stop.detours]
        links = [stop.onward for stop in self._stops if stop.onward is not None]
        way = Way(sum(link.latency_s for link in links), hops=len(links))
        cheapest = float(way.costs(self._edges, self._metric).min())
        served_s = float(self._parts.served[0, -1]) if self._size else 0.0
        return self._metric.latency * served_s / max(speeds) + cheapest


@lru_cache(maxsize=256)
def _allowed(size: int, greed: int) -> npt.NDArray[np.bool_]:
    ones = np.ones((size, size), dtype=bool)
    return np.triu(ones) & np.tril(ones, greed - 1)
