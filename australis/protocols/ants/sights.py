"""What is seen of servers and links: how much they are used, and what more would cost.

Tuples come at random (Poisson arrivals), as in `placement.model`: then the wait in a queue follows
from two sums alone, and scouts carry few numbers.
"""

from __future__ import annotations

from math import inf

import msgspec
import numpy as np

from australis.placement.metric import Metric
from australis.placement.queries import Edge, Query
from australis.placement.use import Use
from australis.protocols.ants.chains import Array, Edges, Parts


class ServerSight(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A server."""

    name: str
    speed: float
    bound: float
    use: Use


class LinkSight(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A link."""

    latency_s: float
    s_per_byte: float
    use: Use

    @property
    def way(self) -> Way:
        """What a tuple meets on it."""
        return Way(self.latency_s, self.s_per_byte, self.use.wait_s, 1)

    def used_by(self, edge: Edge) -> Use:
        """What an edge does to it: all its tuples take the same time."""
        takes_s = edge.bytes * self.s_per_byte
        return Use(edge.rate * takes_s, edge.rate * takes_s**2, edge.weight)

    def takes_s(self, edge: Edge) -> float:
        """How long a tuple is under way that does not wait, as often as it counts."""
        return edge.weight * (self.latency_s + edge.bytes * self.s_per_byte)


class Way(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What tuples meet on some links in a row."""

    latency_s: float = 0.0
    s_per_byte: float = 0.0
    wait_s: float = 0.0
    hops: int = 0

    def delay_s(self, size: Array) -> Array:
        """How long tuples of these sizes take."""
        return self.latency_s + self.wait_s + size * self.s_per_byte

    def then(self, other: Way) -> Way:
        """One way after the other."""
        return Way(
            self.latency_s + other.latency_s,
            self.s_per_byte + other.s_per_byte,
            self.wait_s + other.wait_s,
            self.hops + other.hops,
        )

    def costs(self, edges: Edges, metric: Metric) -> Array:
        """What it costs to send each edge of a chain this way."""
        traffic = metric.traffic(1.0, self.latency_s, self.hops) * edges.rates * edges.bytes
        return metric.latency * edges.weights * self.delay_s(edges.bytes) + traffic


def used_by(query: Query, tasks: frozenset[str], speed: float) -> tuple[Use, float]:
    """What some tasks of a query do to one server, and how long they work on their tuples, each as
    often as it counts. Where the other tasks are does not matter."""
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
    parts: Parts, server: ServerSight, alpha: float, metric: Metric, merges: bool = False
) -> Array:
    """What each part of a chain would cost on a server: its own latency there, and what it adds to
    that of others. Infinite where the server would be used beyond its bound or alpha.

    A part that `merges` follows, or is followed by, tasks of its query that are there already: its
    tuples do not wait once more.
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


def link_costs(link: LinkSight, edges: Edges, metric: Metric) -> Array:
    """What each edge of a chain costs on a link."""
    takes = edges.bytes * link.s_per_byte
    load = link.use.load + edges.rates * takes
    second = link.use.second + edges.rates * takes**2
    with np.errstate(divide="ignore", invalid="ignore"):
        waits = second / (2 * (1 - load)) * (link.use.weight + edges.weights)
    latency = waits - link.use.waiting_s + edges.weights * (link.latency_s + takes)
    traffic = metric.traffic(1.0, link.latency_s) * edges.rates * edges.bytes
    return np.where(load < 1, metric.latency * latency + traffic, inf)
