"""Servers and the links between them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from australis.kernel.errors import UserError
from australis.queueing.links import Wire

TYPICAL_BYTES = 1_000.0
"""The tuple size for which routes are chosen."""


@dataclass(frozen=True)
class Server:
    """A machine on which tasks may run."""

    name: str
    speed: float = 1.0
    """The units of work it performs per second."""
    bound: float = 1.0
    """The fraction of its capacity that may be used."""

    def __post_init__(self) -> None:
        if not 0 < self.speed < inf:
            raise UserError(f"should do more than no work, not {self.speed:g}", name=self.name)
        if not 0 < self.bound <= 1:
            raise UserError(f"has a load bound outside (0, 1]: {self.bound:g}", name=self.name)


class Network:
    """Servers, and a wire for each direction between neighbours."""

    def __init__(self, servers: Iterable[Server], links: Mapping[tuple[str, str], Wire]) -> None:
        self.servers: dict[str, Server] = {}
        for server in servers:
            if server.name in self.servers:
                raise UserError("is the name of two servers", name=server.name)
            self.servers[server.name] = server
        self.links = dict(links)
        found: dict[str, list[str]] = {name: [] for name in self.servers}
        for here, there in sorted(self.links):
            for end in (here, there):
                if end not in self.servers:
                    raise UserError("is at the end of a link but not a server", name=end)
            if here == there:
                raise UserError("has a link to itself", name=here)
            found[here].append(there)
        self._neighbours = {name: tuple(others) for name, others in found.items()}
        self._before: dict[str, dict[str, str]] = {}
        self._ways: dict[tuple[str, str], tuple[str, ...] | None] = {}
        self._latencies: dict[str, dict[str, float]] = {}

    @classmethod
    def both_ways(cls, servers: Iterable[Server], links: Mapping[tuple[str, str], Wire]) -> Network:
        """A network of links that are equal in both directions, each given once."""
        back = {(there, here): wire for (here, there), wire in links.items()}
        return cls(servers, {**links, **back})

    def neighbours(self, name: str) -> tuple[str, ...]:
        """The servers reachable over one link."""
        return self._neighbours[name]

    def way(self, here: str, there: str) -> tuple[str, ...] | None:
        """The servers on the fastest route between two servers of an idle network, both included;
        None if there is no route.

        >>> line = [Server(name) for name in "abc"]
        >>> wire = Wire(1e6, 0.001)
        >>> Network.both_ways(line, {("a", "b"): wire, ("b", "c"): wire}).way("a", "c")
        ('a', 'b', 'c')
        """
        if (here, there) not in self._ways:
            self._ways[here, there] = self._find(here, there)
        return self._ways[here, there]

    def _find(self, here: str, there: str) -> tuple[str, ...] | None:
        before = self._before.get(here)
        if before is None:
            before = self._before[here] = self._spread(here, TYPICAL_BYTES)[0]
        if there == here:
            return (here,)
        if there not in before:
            return None
        found = [there]
        while found[-1] != here:
            found.append(before[found[-1]])
        return tuple(reversed(found))

    def latencies_s(self, here: str) -> Mapping[str, float]:
        """The least latency to each other server, for an empty tuple that waits in no queue."""
        found = self._latencies.get(here)
        if found is None:
            found = self._latencies[here] = self._spread(here, 0.0)[1]
        return found

    def _spread(self, here: str, size: float) -> tuple[dict[str, str], dict[str, float]]:
        """The predecessor of each server on the fastest route from this one, and the latencies."""
        before: dict[str, str] = {}
        took = {here: 0.0}
        heap = [(0.0, here)]
        done = set()
        while heap:
            so_far, name = heapq.heappop(heap)
            if name in done:
                continue
            done.add(name)
            for other in self._neighbours[name]:
                wire = self.links[name, other]
                new = so_far + wire.latency_s + size / wire.bytes_per_s
                if new < took.get(other, inf):
                    took[other], before[other] = new, name
                    heapq.heappush(heap, (new, other))
        return before, took
