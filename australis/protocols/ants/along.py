"""The best servers for a chain along a way that a scout has gone.

The paper's scouts move tasks between adjacent servers on their way back if that is better. Ours
carry what they have seen, and find the best of all placements along their way at once: what tasks
cost on one server does not depend on the others (`placement.model`), so that the best for the
first tasks up to one server is part of the best up to the next.
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
from australis.protocols.ants.sights import (
    LinkSight,
    ServerSight,
    Way,
    link_costs,
    part_costs,
)

Ints = npt.NDArray[np.int_]
Routes = dict[tuple[str, str], tuple[str, ...]]


class Detour(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A server beside the way, and how to get there and back."""

    server: ServerSight
    path: tuple[str, ...]
    """From the stop to it, both included."""
    there: Way
    back: Way


class Stop(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A server a scout came by."""

    server: ServerSight
    onward: LinkSight | None
    """The link it left by, if it did not end here,"""
    detours: tuple[Detour, ...] = ()
    """and what else could be reached from here."""
    far: tuple[tuple[str, float], ...] = ()
    """Servers the chain should be near, and how many seconds away they are, as far as is known."""


@dataclass(frozen=True)
class Found:
    """A placement of a chain along a way."""

    hosts: dict[str, str]
    routes: Routes
    cost: float
    least: float
    """Nothing on this way could cost less, were nobody else there and every server the fastest."""
    pulled: float = 0.0
    """What it would cost besides to reach the servers it should be near."""


@dataclass(frozen=True)
class _Step:
    """Some more tasks may be placed on one server; by how many are placed then:"""

    at: int
    """the stop it is at, or comes back to,"""
    came: Ints
    """how many were placed before."""
    detour: Detour | None = None
    left: Ints | None = None
    """For a server beside the way, by how many were placed before: after which step it left the way."""


@dataclass
class _Entry:
    """The best ways so far to a server beside the way, by how many tasks are placed before."""

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
    """The best placement of a chain on the servers of a way and beside it, with at most `greed` tasks
    on one of them and loads below alpha; None if there is none."""
    greed = greed or len(chain.tasks)
    pulls = _measurable(pulls, stops)
    found = _Along(chain, parts, stops, alpha, greed, metric, pulls).find()
    if found is not None and not _together(chain, found):
        # A server beside the way was left and come back to, and its load was counted in two parts.
        straight = [msgspec.structs.replace(stop, detours=()) for stop in stops]
        found = _Along(chain, parts, straight, alpha, greed, metric, pulls).find()
    return found


def _measurable(pulls: Sequence[Pull], stops: Sequence[Stop]) -> list[Pull]:
    """Those to servers of which every stop knows how far they are: else whoever does not looks near."""
    known = [dict(stop.far) for stop in stops]
    return [pull for pull in pulls if all(pull.server in far for far in known)]


def _together(chain: Chain, found: Found) -> bool:
    """Whether the tasks on each server follow each other."""
    hosts = [found.hosts[task] for task in chain.tasks]
    return len([host for host, _ in itertools.groupby(hosts)]) == len(set(hosts))


class _Along:
    """The costs of having placed so many tasks (by index), stop by stop."""

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
        """The stop and way out of those that left for a server after a step."""

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
        """What it costs, for every first and last task on a server, to reach what the chain should be
        near; from beside the way by way of the stop."""
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
        """Place some more tasks, or none, on one server; how many were placed before."""
        came = np.arange(self._size + 1)
        # From the first task to the last, and not too many.
        total = np.where(self._allowed, before[:, None] + costs, inf)
        first = np.argmin(total, axis=0)
        best = total[first, np.arange(self._size)]
        better = best < self._costs[1:]
        self._costs = np.concatenate([self._costs[:1], np.where(better, best, self._costs[1:])])
        came[1:][better] = first[better]
        return came

    def _turn_off(self, at: int, stop: Stop, detour: Detour) -> None:
        """To a server beside the way, from here or from an earlier stop, and back to here."""
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
        """Which tasks were placed where, and the routes between them."""
        chain = self._chain
        ends = (chain.source, *chain.tasks, chain.target)
        names = [stop.server.name for stop in self._stops]
        hosts: dict[str, str] = {}
        routes: Routes = {}
        position, done = len(self._steps), self._size
        to = len(names) - 1
        """Where on the way the next edge leads to,"""
        onward: tuple[str, ...] = ()
        """and further."""
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
