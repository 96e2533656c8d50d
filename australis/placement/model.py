"""The cost of a placement: latencies of queries that share servers and links (ants 3.6, 3.7).

The latency of a query is the mean over its flows from a producer to a consumer. A tuple waits in
the queue of a server once and is then processed by all consecutive tasks of its query there;
between servers it takes the links of its route. Servers on a route that run none of its tasks do
not process it.

The effect of a query on each server and link is its *footprint*: their utilisation, and a weight,
the fraction of its flows that wait there. `Books` add footprints up. The sum of all latencies is
then a sum over servers and links of waiting time times weight, plus the part without waiting: so a
server alone can compute what another task there would cost all queries, and a path can add up the
costs of its servers.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from australis.placement.network import Network
from australis.placement.queries import Edge, Query
from australis.placement.use import NOTHING, Use

Spot = str | tuple[str, str]
"""A server, or a directed link from one server to another."""


@dataclass(frozen=True)
class Placement:
    """The hosts of a query's tasks, and the routes of its tuples between servers."""

    hosts: Mapping[str, str]
    routes: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """The route of an edge, both ends included; the network's route where none is given."""

    def route(self, edge: Edge, query: Query, network: Network) -> tuple[str, ...] | None:
        """The servers on the route of an edge."""
        given = self.routes.get((edge.source, edge.target))
        if given is not None:
            return given
        here = self.hosts.get(edge.source) or query.pinned[edge.source]
        there = self.hosts.get(edge.target) or query.pinned[edge.target]
        return network.way(here, there)


@dataclass(frozen=True)
class Footprint:
    """The effect of a query on servers and links."""

    uses: Mapping[Spot, Use]
    fixed_s: float
    """The part of its latency that is not waiting."""


def footprint(query: Query, placement: Placement, network: Network) -> Footprint | None:
    """The effect of a query with a placement; None if an edge has no route."""
    hosts = placement.hosts
    servers = network.servers
    occupied: dict[str, float] = {}
    """The time for which a tuple that enters at a task occupies the server."""
    served: dict[str, float] = {}
    """The time for which a tuple's own flow is processed there, averaged over its branches."""
    for task in reversed(query.tasks):
        here = hosts[task.name]
        takes_s = task.work / servers[here].speed
        out = query.outgoing[task.name]
        behind = sum(edge.weight for edge in out)
        busy = own = 0.0
        for edge in out:
            if hosts.get(edge.target) == here:
                busy += occupied[edge.target]
                own += served[edge.target] * edge.weight / behind
        occupied[task.name] = takes_s + task.makes * busy
        served[task.name] = takes_s + task.makes * own
    uses: dict[Spot, Use] = {}
    ages_s = {producer.name: producer.age_s for producer in query.producers}
    fixed_s = sum(edge.weight * ages_s.get(edge.source, 0.0) for edge in query.edges)
    for edge in query.edges:
        there = hosts.get(edge.target)
        if there is not None and hosts.get(edge.source) == there:
            continue
        route = placement.route(edge, query, network)
        if route is None:
            return None
        for link in itertools.pairwise(route):
            wire = network.links[link]
            takes_s = edge.bytes / wire.bytes_per_s  # constant transmission times
            load = edge.rate * takes_s
            use = Use(load, load * takes_s, edge.weight)
            uses[link] = uses[link].plus(use) if link in uses else use
            fixed_s += edge.weight * (wire.latency_s + takes_s)
        if there is None:
            continue
        takes_s = occupied[edge.target]
        load = edge.rate * takes_s
        use = Use(load, 2 * load * takes_s, edge.weight)  # exponential service times
        uses[there] = uses[there].plus(use) if there in uses else use
        fixed_s += edge.weight * served[edge.target]
    return Footprint(uses, fixed_s)


class Books:
    """The sum of the footprints of all placed queries on a network."""

    def __init__(self, network: Network, others: Mapping[Spot, Use] | None = None) -> None:
        self.network = network
        self.others = dict(others or {})
        """The use of servers and links by load other than queries."""
        self.placed: dict[str, tuple[Query, Placement, Footprint]] = {}
        self.evaluations = 0
        """The number of waiting times computed."""
        self._uses = dict(self.others)

    def use(self, spot: Spot) -> Use:
        """The use of a server or link."""
        return self._uses.get(spot, NOTHING)

    def add(self, query: Query, placement: Placement) -> bool:
        """Place a query; return False and change nothing if an edge has no route."""
        found = footprint(query, placement, self.network)
        if found is None:
            return False
        self.placed[query.name] = query, placement, found
        for spot, use in found.uses.items():
            self._uses[spot] = self.use(spot).plus(use)
        return True

    def remove(self, name: str) -> None:
        """Remove a query."""
        _, _, found = self.placed.pop(name)
        for spot, use in found.uses.items():
            left = self._uses[spot].minus(use)
            if left.weight > 1e-12:
                self._uses[spot] = left
            elif spot in self.others:
                self._uses[spot] = self.others[spot]
            else:
                del self._uses[spot]

    def cost_s(self, found: Footprint) -> float:
        """The cost of another query: its latency, and its effect on the latency of the placed ones.

        It is infinite if a server would exceed its bound or a link its capacity.
        """
        total = found.fixed_s
        for spot, use in found.uses.items():
            self.evaluations += 1
            if isinstance(spot, str) and not self.fits(spot, use):
                return inf
            total += self.use(spot).costs_s(use)
        return total

    def fits(self, server: str, more: Use) -> bool:
        """Whether a server can take more load within its bound."""
        load = self.use(server).load + more.load
        return load < 1 and load <= self.network.servers[server].bound + 1e-12

    def latency_s(self, name: str) -> float:
        """The latency of a placed query."""
        _, _, found = self.placed[name]
        waits = sum(
            use.weight * self.use(spot).wait_s for spot, use in found.uses.items() if use.weight
        )
        return found.fixed_s + waits

    def mean_latency_s(self) -> float:
        """The mean latency of all placed queries."""
        if not self.placed:
            return 0.0
        return sum(self.latency_s(name) for name in self.placed) / len(self.placed)
