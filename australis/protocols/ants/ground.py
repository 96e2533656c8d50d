"""The ground of a cell: its server and links, and what runs or is held there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from australis.placement.metric import LATENCY, Metric
from australis.placement.network import Server
from australis.placement.queries import Query
from australis.placement.use import Use
from australis.protocols.ants.messages import Share
from australis.protocols.ants.sights import LinkSight, ServerSight, used_by
from australis.queueing.links import Wire


@dataclass
class _Part:
    """A share that is held or kept."""

    share: Share
    query: Query
    until_us: int
    runs: bool
    use: Use
    links: dict[str, Use]


class Ground:
    """What one cell knows for sure."""

    def __init__(self, server: Server, links: Mapping[str, Wire], metric: Metric = LATENCY) -> None:
        self.server = server
        self._metric = metric
        self.links = {
            name: LinkSight(wire.latency_s, 1 / wire.bytes_per_s, Use())
            for name, wire in links.items()
        }
        self._parts: dict[tuple[str, int], _Part] = {}
        self._others = Use()
        """What uses the server besides."""
        self._uses: dict[str, Use] = {}
        """How the server is used without one query, as far as it was asked for since it changed,"""
        self._links: dict[tuple[str, str], LinkSight] = {}
        """and links."""

    # --- what is seen -----------------------------------------------------------------------

    def busy_with(self, use: Use) -> None:
        """What uses the server besides queries has changed."""
        self._others = use
        self._changed()

    def here(
        self, but: str = "", query: Query | None = None, tasks: frozenset[str] = frozenset()
    ) -> ServerSight:
        """The server, without what it has of a query, but with these tasks of it."""
        use = self._uses.get(but)
        if use is None:
            use = self._uses[but] = self._sum(but)
        if query is not None and tasks:
            use = use.plus(used_by(query, tasks, self.server.speed)[0])
        return ServerSight(self.server.name, self.server.speed, self.server.bound, use)

    def link(self, to: str, but: str = "") -> LinkSight:
        """A link, without what it has of a query."""
        found = self._links.get((to, but))
        if found is None:
            bare = self.links[to]
            use = bare.use
            for (name, _), part in self._parts.items():
                if name != but and to in part.links:
                    use = use.plus(part.links[to])
            found = LinkSight(bare.latency_s, bare.s_per_byte, use)
            self._links[to, but] = found
        return found

    def _sum(self, but: str) -> Use:
        use = self._others
        for (name, _), part in self._parts.items():
            if name != but:
                use = use.plus(part.use)
        return use

    def _changed(self) -> None:
        self._uses.clear()
        self._links.clear()

    # --- shares -----------------------------------------------------------------------------

    def fits(self, query: Query, share: Share) -> bool:
        """Whether there is room for a share of a query, in place of all other versions."""
        use, _ = used_by(query, frozenset(share.tasks), self.server.speed)
        load = self.here(but=query.name).use.load + use.load
        if share.tasks and (load > self.server.bound or load >= 1):
            return False
        links = self._sent(query, share).items()
        return all(self.link(to, but=query.name).use.load + sent.load < 1 for to, sent in links)

    def cost(self, query: Query, share: Share) -> float:
        """What a share of a query costs, in place of all other versions; it may never end."""
        use, latency_s = used_by(query, frozenset(share.tasks), self.server.speed)
        latency_s += self.here(but=query.name).use.costs_s(use)
        for to, sent in self._sent(query, share).items():
            latency_s += self.link(to, but=query.name).use.costs_s(sent)
        traffic = 0.0
        edges = {(e.source, e.target): e for e in query.edges}
        for to, source, target in share.sends:
            link, edge = self.links[to], edges[source, target]
            latency_s += link.takes_s(edge)
            traffic += self._metric.traffic(edge.rate * edge.bytes, link.latency_s)
        return self._metric.latency * latency_s + traffic

    def _sent(self, query: Query, share: Share) -> dict[str, Use]:
        edges = {(e.source, e.target): e for e in query.edges}
        found: dict[str, Use] = {}
        for to, source, target in share.sends:
            use = self.links[to].used_by(edges[source, target])
            found[to] = found.get(to, Use()).plus(use)
        return found

    def hold(self, query: Query, version: int, share: Share, until_us: int) -> None:
        """Hold room for a share."""
        use, _ = used_by(query, frozenset(share.tasks), self.server.speed)
        known = self._parts.get((query.name, version))
        runs = known is not None and known.runs
        sent = self._sent(query, share)
        self._parts[query.name, version] = _Part(share, query, until_us, runs, use, sent)
        self._changed()

    def measured(self, query: Query) -> None:
        """What a query does has changed."""
        for (name, version), part in list(self._parts.items()):
            if name == query.name and set(part.share.tasks) <= set(query.task):
                self.hold(query, version, part.share, part.until_us)

    def keep(self, name: str, version: int, until_us: int) -> float | None:
        """Run a share until then; what it costs, or None if it is not there."""
        part = self._parts.get((name, version))
        if part is None:
            return None
        part.runs, part.until_us = True, until_us
        return self.cost(part.query, part.share)

    def release(self, name: str, version: int) -> None:
        """Let a share go."""
        if self._parts.pop((name, version), None) is not None:
            self._changed()

    def expire(self, now: int) -> None:
        """Let everything go that nobody has asked for in time."""
        for key, part in list(self._parts.items()):
            if part.until_us <= now:
                del self._parts[key]
                self._changed()

    def running(self) -> dict[tuple[str, int], tuple[Query, tuple[str, ...]]]:
        """Each share that runs here, by query and version: the query and the tasks of it."""
        parts = self._parts.items()
        return {key: (part.query, part.share.tasks) for key, part in parts if part.runs}

    @property
    def load(self) -> float:
        """How much of the server's time is used by what runs or is held."""
        return self.here().use.load
