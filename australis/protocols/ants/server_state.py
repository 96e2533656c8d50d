"""The state of a cell's server: its load and links, and the shares that run or are held there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from australis.placement.metric import LATENCY, Metric
from australis.placement.network import Server
from australis.placement.queries import Query
from australis.placement.reuse import Tap, reduced_like
from australis.placement.use import Use
from australis.protocols.ants.messages import Rank, Share
from australis.protocols.ants.observations import LinkObservation, ServerObservation, used_by
from australis.queueing.links import Wire


@dataclass
class Part:
    """A share that is held or runs."""

    share: Share
    query: Query
    until_us: int
    runs: bool
    use: Use
    links: dict[str, Use]
    rank: Rank
    remembers: tuple[tuple[str, str], ...]
    ends: bool = False
    """Whether it remains only for other queries, which have to find another source."""
    fetched: set[str] = field(default_factory=set)
    """Tasks whose state has arrived, of those that move here."""


class ServerState:
    """The local state that one cell knows for certain."""

    def __init__(self, server: Server, links: Mapping[str, Wire], metric: Metric = LATENCY) -> None:
        self.server = server
        self._metric = metric
        self.links = {
            name: LinkObservation(wire.latency_s, 1 / wire.bytes_per_s, Use())
            for name, wire in links.items()
        }
        self._parts: dict[tuple[str, int], Part] = {}
        self._others = Use()
        """The use of the server by load other than queries."""
        self._ages_s: dict[tuple[str, str], float] = {}
        """The age of the tuples that a task of a query emits."""
        self._uses: dict[str, Use] = {}
        """The use of the server without one query, cached until it changes."""
        self._links: dict[tuple[str, str], LinkObservation] = {}
        """The use of links without one query, cached until it changes."""

    # --- observations ----------------------------------------------------------------------

    def busy_with(self, use: Use) -> None:
        """Set the use of the server by load other than queries."""
        self._others = use
        self._changed()

    def aged(self, name: str, task: str, age_s: float) -> None:
        """Set the measured age of the tuples that a task here emits."""
        self._ages_s[name, task] = age_s

    def here(
        self, but: str = "", query: Query | None = None, tasks: frozenset[str] = frozenset()
    ) -> ServerObservation:
        """The server without the shares of the query `but` (except those that remain for others),
        and with these tasks of `query`."""
        use = self._uses.get(but)
        if use is None:
            use = self._uses[but] = self._sum(but)
        if query is not None and tasks:
            use = use.plus(used_by(query, tasks, self.server.speed)[0])
        return ServerObservation(self.server.name, self.server.speed, self.server.bound, use)

    def link(self, to: str, but: str = "") -> LinkObservation:
        """A link without the shares of the query `but`, except those that remain for others."""
        found = self._links.get((to, but))
        if found is None:
            bare = self.links[to]
            use = bare.use
            for (name, _), part in self._parts.items():
                if (name != but or part.ends) and to in part.links:
                    use = use.plus(part.links[to])
            found = LinkObservation(bare.latency_s, bare.s_per_byte, use)
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
        """Whether there is room for a share of a query in place of its other versions, or in
        addition to all but version `beside`; and whether the tasks it reuses run here."""
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
        """The cost of a share of a query in place of its other versions, which may be infinite."""
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
        """Hold a share for longer; return the tasks whose state has arrived, or None without it."""
        part = self._parts.get((name, version))
        if part is None:
            return None
        part.until_us = until_us
        return part.fetched

    def fetched(self, name: str, version: int, task: str) -> None:
        """Note that the state of a task has arrived."""
        part = self._parts.get((name, version))
        if part is not None:
            part.fetched.add(task)

    def measured(self, query: Query) -> None:
        """Apply new measurements of a query to its shares."""
        for (name, version), part in list(self._parts.items()):
            if name == query.name and set(part.share.tasks) <= set(query.task):
                left = reduced_like(query, part.query)
                self.hold(left, version, part.share, part.until_us, part.rank)

    def keep(self, name: str, version: int, until_us: int) -> float | None:
        """Run a share until a deadline; return its cost, or None if it cannot run."""
        part = self._parts.get((name, version))
        if part is None or not all(self._runs(tap) for tap in part.share.taps):
            return None
        part.runs, part.until_us = True, until_us
        return self.cost(part.query, part.share)

    def release(self, name: str, version: int, until_us: int | None = None) -> None:
        """Release a share, now or at a deadline."""
        part = self._parts.get((name, version))
        if part is None:
            return
        if until_us is not None:
            part.ends, part.until_us = True, min(part.until_us, until_us)
            self._changed()
            return
        del self._parts[name, version]
        self._changed()

    def expire(self, now: int) -> None:
        """Release all shares whose deadline has passed."""
        for key, part in list(self._parts.items()):
            if part.until_us <= now:
                del self._parts[key]
                self._changed()

    # --- reuse ---------------------------------------------------------------------------------

    def offers(self, query: Query, rank: Rank) -> tuple[Tap, ...]:
        """Tasks of earlier queries with the same results as tasks of a query."""
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
        """Whether another query reuses a task of a share."""
        return any(
            (tap.query, tap.version) == (name, version)
            for part in self._parts.values()
            for tap in part.share.taps
        )

    def ends_soon(self, name: str, version: int, by_us: int) -> bool:
        """Whether a task that a share reuses may be gone by a deadline."""
        part = self._parts.get((name, version))
        taps = part.share.taps if part is not None else ()
        sources = [self._parts.get((tap.query, tap.version)) for tap in taps]
        return any(source is None or source.ends or source.until_us < by_us for source in sources)

    def _runs(self, tap: Tap) -> bool:
        part = self._parts.get((tap.query, tap.version))
        return part is not None and part.runs and tap.of in part.share.tasks

    # --- views ---------------------------------------------------------------------------------

    def running(self) -> dict[tuple[str, int], Part]:
        """Each share that runs here, by query and version."""
        return {key: part for key, part in self._parts.items() if part.runs}

    @property
    def load(self) -> float:
        """The utilisation of the server by everything that runs or is held."""
        return self.here().use.load
