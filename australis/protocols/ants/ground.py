"""The ground of a cell: its server and links, and what runs or is held there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from australis.placement.metric import LATENCY, Metric
from australis.placement.network import Server
from australis.placement.queries import Query
from australis.placement.reuse import Tap, reduced_like
from australis.placement.use import Use
from australis.protocols.ants.messages import Rank, Share
from australis.protocols.ants.sights import LinkSight, ServerSight, used_by
from australis.queueing.links import Wire


@dataclass
class Part:
    """A share that is held or kept."""

    share: Share
    query: Query
    until_us: int
    runs: bool
    use: Use
    links: dict[str, Use]
    rank: Rank
    remembers: tuple[tuple[str, str], ...]
    ends: bool = False
    """Whether it is there for others only, who are to look for something else."""
    fetched: set[str] = field(default_factory=set)
    """Tasks that have what they remember, of those that come from elsewhere."""


class Ground:
    """What one cell knows for sure."""

    def __init__(self, server: Server, links: Mapping[str, Wire], metric: Metric = LATENCY) -> None:
        self.server = server
        self._metric = metric
        self.links = {
            name: LinkSight(wire.latency_s, 1 / wire.bytes_per_s, Use())
            for name, wire in links.items()
        }
        self._parts: dict[tuple[str, int], Part] = {}
        self._others = Use()
        """What uses the server besides."""
        self._ages_s: dict[tuple[str, str], float] = {}
        """How old what a task of a query puts out is then."""
        self._uses: dict[str, Use] = {}
        """How the server is used without one query, as far as it was asked for since it changed,"""
        self._links: dict[tuple[str, str], LinkSight] = {}
        """and links."""

    # --- what is seen -----------------------------------------------------------------------

    def busy_with(self, use: Use) -> None:
        """What uses the server besides queries has changed."""
        self._others = use
        self._changed()

    def aged(self, name: str, task: str, age_s: float) -> None:
        """How old what a task here puts out is has been measured."""
        self._ages_s[name, task] = age_s

    def here(
        self, but: str = "", query: Query | None = None, tasks: frozenset[str] = frozenset()
    ) -> ServerSight:
        """The server, without what it has of a query (unless that is there for others by now), but with
        these tasks of it."""
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
                if (name != but or part.ends) and to in part.links:
                    use = use.plus(part.links[to])
            found = LinkSight(bare.latency_s, bare.s_per_byte, use)
            self._links[to, but] = found
        return found

    def _sum(self, but: str) -> Use:
        use = self._others
        for (name, _), part in self._parts.items():
            if name != but or part.ends:
                use = use.plus(part.use)
        return use

    def _changed(self) -> None:
        self._uses.clear()
        self._links.clear()

    # --- shares -----------------------------------------------------------------------------

    def fits(self, query: Query, share: Share, beside: int | None = None) -> bool:
        """Whether there is room for a share of a query, in place of all other versions, or beside all
        but one; and what it takes from other queries is there."""
        if not all(self._runs(tap) for tap in share.taps):
            return False
        use, _ = used_by(query, frozenset(share.tasks), self.server.speed)
        load = self.here(but=query.name).use.load + use.load
        old = [
            part
            for (name, version), part in self._parts.items()
            if name == query.name and beside is not None and version != beside and not part.ends
        ]
        load += sum(part.use.load for part in old)
        if share.tasks and (load > self.server.bound or load >= 1):
            return False
        for to, sent in self._sent(query, share).items():
            more = sum(part.links[to].load for part in old if to in part.links)
            if self.link(to, but=query.name).use.load + more + sent.load >= 1:
                return False
        return True

    def cost(self, query: Query, share: Share) -> float:
        """What a share of a query costs, in place of all other versions; it may never end."""
        use, latency_s = used_by(query, frozenset(share.tasks), self.server.speed)
        latency_s += self.here(but=query.name).use.costs_s(use)
        for to, sent in self._sent(query, share).items():
            latency_s += self.link(to, but=query.name).use.costs_s(sent)
        for tap in share.taps:
            age_s = self._ages_s.get((tap.query, tap.of), tap.age_s)
            latency_s += age_s * sum(edge.weight for edge in query.outgoing[tap.task])
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

    def hold(
        self,
        query: Query,
        version: int,
        share: Share,
        until_us: int,
        rank: Rank,
        remembers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Hold room for a share."""
        use, _ = used_by(query, frozenset(share.tasks), self.server.speed)
        sent = self._sent(query, share)
        known = self._parts.get((query.name, version))
        if known is not None:
            known.query, known.until_us, known.use, known.links = query, until_us, use, sent
        else:
            part = Part(share, query, until_us, False, use, sent, rank, remembers)
            self._parts[query.name, version] = part
        self._changed()

    def hold_on(self, name: str, version: int, until_us: int) -> set[str] | None:
        """Hold a share for longer; the tasks that have what they remember, or None if it is not
        there."""
        part = self._parts.get((name, version))
        if part is None:
            return None
        part.until_us = until_us
        return part.fetched

    def fetched(self, name: str, version: int, task: str) -> None:
        """What a task remembers has come."""
        part = self._parts.get((name, version))
        if part is not None:
            part.fetched.add(task)

    def measured(self, query: Query) -> None:
        """What a query does has changed."""
        for (name, version), part in list(self._parts.items()):
            if name == query.name and set(part.share.tasks) <= set(query.task):
                left = reduced_like(query, part.query)
                self.hold(left, version, part.share, part.until_us, part.rank)

    def keep(self, name: str, version: int, until_us: int) -> float | None:
        """Run a share until then; what it costs, or None if it is not there."""
        part = self._parts.get((name, version))
        if part is None or not all(self._runs(tap) for tap in part.share.taps):
            return None
        part.runs, part.until_us = True, until_us
        return self.cost(part.query, part.share)

    def release(self, name: str, version: int, until_us: int | None = None) -> None:
        """Let a share go, now or at a moment."""
        part = self._parts.get((name, version))
        if part is None:
            return
        if until_us is not None:
            part.ends, part.until_us = True, min(part.until_us, until_us)
            return
        del self._parts[name, version]
        self._changed()

    def expire(self, now: int) -> None:
        """Let everything go that nobody has asked for in time."""
        for key, part in list(self._parts.items()):
            if part.until_us <= now:
                del self._parts[key]
                self._changed()

    # --- what queries take from each other -----------------------------------------------------

    def offers(self, query: Query, rank: Rank) -> tuple[Tap, ...]:
        """Tasks of earlier queries that make what tasks of a query are to make."""
        wanted = {query.signatures[n]: n for n in query.task if n in query.signatures}
        if not wanted:
            return ()
        return tuple(
            Tap(wanted[signature], self.server.name, name, version, task, age_s, part.remembers)
            for (name, version), part in self._parts.items()
            if part.runs and not part.ends and part.rank < rank and name != query.name
            for task in part.share.tasks
            if (signature := part.query.signatures.get(task)) in wanted
            and (age_s := self._ages_s.get((name, task))) is not None
        )

    def is_tapped(self, name: str, version: int) -> bool:
        """Whether another query takes what a share makes."""
        return any(
            (tap.query, tap.version) == (name, version)
            for part in self._parts.values()
            for tap in part.share.taps
        )

    def ends_soon(self, name: str, version: int, by_us: int) -> bool:
        """Whether what a share takes from others may be gone by then."""
        part = self._parts.get((name, version))
        taps = part.share.taps if part is not None else ()
        sources = [self._parts.get((tap.query, tap.version)) for tap in taps]
        return any(source is None or source.ends or source.until_us < by_us for source in sources)

    def _runs(self, tap: Tap) -> bool:
        part = self._parts.get((tap.query, tap.version))
        return part is not None and part.runs and tap.of in part.share.tasks

    # --- what is known from outside ------------------------------------------------------------

    def running(self) -> dict[tuple[str, int], Part]:
        """Each share that runs here, by query and version."""
        return {key: part for key, part in self._parts.items() if part.runs}

    @property
    def load(self) -> float:
        """How much of the server's time is used by what runs or is held."""
        return self.here().use.load
