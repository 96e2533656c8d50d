"""Observations of servers and links: their use, and the cost of additional use.

Arrivals are Poisson as in `placement.model`: then two sums determine the waiting time in a queue,
and scouts carry few numbers.
"""

from __future__ import annotations

from math import inf

import msgspec
import numpy as np

from australis.placement.metric import Metric
from australis.placement.queries import Edge, Query
from australis.placement.use import Use
from australis.protocols.ants.chains import Array, Edges, Parts


class ServerObservation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An observation of a server."""

    name: str
    speed: float
    bound: float
    use: Use


class LinkObservation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An observation of a link."""

    latency_s: float
    s_per_byte: float
    use: Use

    @property
    def way(self) -> Way:
        """The delays on the link, as a path of one hop."""
        return Way(self.latency_s, self.s_per_byte, self.use.wait_s, 1)

    def used_by(self, edge: Edge) -> Use:
        """The use of the link by an edge: all its tuples have the same transmission time."""
        takes_s = edge.bytes * self.s_per_byte
        return Use(edge.rate * takes_s, edge.rate * takes_s**2, edge.weight)

    def takes_s(self, edge: Edge) -> float:
        """The weighted delay of a tuple that does not wait."""
        return edge.weight * (self.latency_s + edge.bytes * self.s_per_byte)


class Way(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The delays of tuples on consecutive links."""

    latency_s: float = 0.0
    s_per_byte: float = 0.0
    wait_s: float = 0.0
    hops: int = 0

    def delay_s(self, size: Array) -> Array:
        """The delays of tuples of these sizes."""
        return self.latency_s + self.wait_s + size * self.s_per_byte

    def then(self, other: Way) -> Way:
        """The concatenation of two paths."""
        return Way(
            self.latency_s + other.latency_s,
            self.s_per_byte + other.s_per_byte,
            self.wait_s + other.wait_s,
            self.hops + other.hops,
        )

    def costs(self, edges: Edges, metric: Metric) -> Array:
        """The cost of sending each edge of a chain on this path."""
        traffic = metric.traffic(1.0, self.latency_s, self.hops) * edges.rates * edges.bytes
        return metric.latency * edges.weights * self.delay_s(edges.bytes) + traffic


def used_by(query: Query, tasks: frozenset[str], speed: float) -> tuple[Use, float]:
    """The use of one server by some tasks of a query, and the weighted processing time of tuples;
    the hosts of the other tasks do not matter."""
    busy: dict[str, float] = {}
    own: dict[str, float] = {}
    use, served_s = Use(), 0.0
    for task in reversed(query.tasks):
        if task.name not in tasks:
            continue
        out = query.outgoing[task.name]
        behind = sum(edge.weight for edge in out)
        here = [edge for edge in out if edge.target in tasks]
        takes_s = task.work / speed
        busy[task.name] = takes_s + task.makes * sum(busy[e.target] for e in here)
        own[task.name] = takes_s + task.makes * sum(own[e.target] * e.weight / behind for e in here)
        for edge in query.incoming[task.name]:
            if edge.source not in tasks:
                took = busy[task.name]
                use = use.plus(Use(edge.rate * took, edge.rate * took**2 * 2, edge.weight))
                served_s += edge.weight * own[task.name]
    return use, served_s


def part_costs(
    parts: Parts, server: ServerObservation, alpha: float, metric: Metric, merges: bool = False
) -> Array:
    """The cost of each part of a chain on a server: its own latency there and its effect on that of
    others. Infinite if the load would exceed the server's bound or alpha.

    A part that `merges` is adjacent to tasks of its query that are there already: its tuples do not
    wait again.
    """
    use = server.use
    load = use.load + parts.load / server.speed
    second = use.second + parts.second / server.speed**2
    weight = use.weight + parts.side_weight + (0.0 if merges else parts.main_weight)
    fits = (load <= server.bound) & (load < alpha) & (load < 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        waits = second / (2 * (1 - load)) * weight
    latency = waits - use.waiting_s + parts.served / server.speed
    return np.where(fits, metric.latency * latency, inf)


def link_costs(link: LinkObservation, edges: Edges, metric: Metric) -> Array:
    """The cost of each edge of a chain on a link."""
    takes = edges.bytes * link.s_per_byte
    load = link.use.load + edges.rates * takes
    second = link.use.second + edges.rates * takes**2
    with np.errstate(divide="ignore", invalid="ignore"):
        waits = second / (2 * (1 - load)) * (link.use.weight + edges.weights)
    latency = waits - link.use.waiting_s + edges.weights * (link.latency_s + takes)
    traffic = metric.traffic(1.0, link.latency_s) * edges.rates * edges.bytes
    return np.where(load < 1, metric.latency * latency + traffic, inf)
