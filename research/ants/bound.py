"""A bound: no placement of a query has a shorter latency, whatever else runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from australis.kernel.errors import UserError
from australis.placement.network import Network
from australis.placement.queries import Edge, Query

Array = npt.NDArray[np.float64]


def least_latency_s(query: Query, network: Network) -> float:
    """The latency of a query if tuples never waited and links took no time but their latency.

    The best servers are then computed exactly, from the ends of the query inwards: for every server
    of a task, the part of the query beyond it is placed optimally by itself. So there must be a
    single path between any two tasks, whatever the direction.

    On one server, tasks behind a task that drops tuples process fewer tuples: the bound assumes
    this lower rate everywhere.
    """
    return _Bound(query, network).find()


class _Bound:
    def __init__(self, query: Query, network: Network) -> None:
        self._query = query
        self._servers = sorted(network.servers)
        far = [
            [network.latencies_s(a).get(b, np.inf) for b in self._servers] for a in self._servers
        ]
        self._far = np.array(far)
        self._speeds = np.array([network.servers[name].speed for name in self._servers])
        self._seldom = _as_seldom(query)
        if len(query.edges) >= len(query.pinned) + len(query.tasks):
            raise UserError("has tasks that are reached in two ways", name=query.name)

    def find(self) -> float:
        ages_s = {producer.name: producer.age_s for producer in self._query.producers}
        aged = sum(edge.weight * ages_s.get(edge.source, 0.0) for edge in self._query.edges)
        root = self._query.tasks[0].name
        return float(self._beyond(root, None).min()) + aged

    def _beyond(self, name: str, came: Edge | None) -> Array:
        """The cost of a task or end and all beyond it, by its server, as seen from an edge."""
        cost = self._own(name)
        edges = (*self._query.incoming.get(name, ()), *self._query.outgoing.get(name, ()))
        for edge in edges:
            if edge is came:
                continue
            if edge.source == name:
                ways = edge.weight * self._far + self._beyond(edge.target, edge)[None, :]
                cost = cost + ways.min(axis=1)
            else:
                ways = edge.weight * self._far + self._beyond(edge.source, edge)[:, None]
                cost = cost + ways.min(axis=0)
        return cost

    def _own(self, name: str) -> Array:
        if name in self._query.pinned:
            return np.where(np.array(self._servers) == self._query.pinned[name], 0.0, np.inf)
        weight = sum(edge.weight for edge in self._query.incoming[name])
        work = self._query.task[name].work * self._seldom[name]
        return np.asarray(weight * work / self._speeds)


def _as_seldom(query: Query) -> dict[str, float]:
    """A lower bound on how often each task works, per tuple that arrives at its server."""
    found: dict[str, float] = {}
    for task in query.tasks:
        before = [query.task[s].makes * found[s] for s in task.inputs if s in found]
        found[task.name] = min([1.0, *before])
    return found
