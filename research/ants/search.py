"""Placements with global knowledge: the optimum, random choice, steepest descent, local search.

All of them choose servers; between servers tuples take the network's own routes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from random import Random

from australis.kernel.errors import UserError
from australis.placement.model import Books, Footprint, Placement, footprint
from australis.placement.network import Network
from australis.placement.queries import Query

TRIES = 1_000
"""The number of random tries before it gives up."""
Hosts = dict[str, str]


def cost_of(query: Query, hosts: Mapping[str, str], books: Books) -> float:
    """The cost of a placement of a query, beside the placed ones."""
    found = footprint(query, Placement(hosts), books.network)
    return inf if found is None else books.cost_s(found)


# --- random choice -------------------------------------------------------------------------------


def at_random(query: Query, books: Books, rng: Random) -> Hosts:
    """A random server for each task, such that all of them fit."""
    names = sorted(books.network.servers)
    for _ in range(TRIES):
        hosts = {task.name: rng.choice(names) for task in query.tasks}
        if cost_of(query, hosts, books) < inf:
            return hosts
    raise UserError("fits nowhere, as far as chance can tell", name=query.name)


# --- the optimum ---------------------------------------------------------------------------------


def optimum(query: Query, books: Books, known: Hosts | None = None) -> tuple[Hosts, float]:
    """The optimal servers beside placed queries: every choice that could be better is tried.

    A partial placement costs at least its tasks' own cost and the remaining way to the consumers,
    since waits only grow with further tasks. Partial placements worse than the best so far are
    skipped.
    """
    return _Optimum(query, books, known).find()


class _Optimum:
    def __init__(self, query: Query, books: Books, known: Hosts | None) -> None:
        self._query = query
        self._books = books
        self._network = books.network
        self._fastest = max(server.speed for server in books.network.servers.values())
        self._ends = self._consumers_behind()
        self._rest = self._least_work()
        self._shrinks = self._least_tuples()
        self._best: Hosts = dict(known or {})
        self._cost = cost_of(query, known, books) if known else inf
        self._hosts: Hosts = {}

    def find(self) -> tuple[Hosts, float]:
        self._place(0)
        if self._cost == inf:
            raise UserError("fits nowhere", name=self._query.name)
        return self._best, self._cost

    def _place(self, at: int) -> None:
        query = self._query
        if at == len(query.tasks):
            cost = cost_of(query, self._hosts, self._books)
            if cost < self._cost:
                self._cost, self._best = cost, dict(self._hosts)
            return
        name = query.tasks[at].name
        bounds = []
        for server in self._network.servers:
            self._hosts[name] = server
            bound = self._bound()
            if bound < self._cost:
                bounds.append((bound, server))
        for bound, server in sorted(bounds):
            if bound >= self._cost:
                break
            self._hosts[name] = server
            self._place(at + 1)
        del self._hosts[name]

    def _bound(self) -> float:
        """A lower bound on the cost of the placed tasks, with all tasks that follow them."""
        part = partial(self._query, self._hosts, self._network)
        if part is None:
            return inf
        total = self._books.cost_s(part)
        if total == inf or len(self._hosts) == len(self._query.tasks):
            return total
        for edge in self._query.edges:
            here = self._hosts.get(edge.source) or self._query.pinned.get(edge.source)
            if here is None or edge.target in self._hosts:
                continue
            far = self._network.latencies_s(here)
            away = min(far.get(end, inf) for end in self._ends[edge.target])
            work_s = self._shrinks.get(edge.source, 1.0) * self._rest.get(edge.target, 0.0)
            total += edge.weight * (away + work_s)
        return total

    def _consumers_behind(self) -> dict[str, frozenset[str]]:
        found = {c.name: frozenset([c.at]) for c in self._query.consumers}
        for task in reversed(self._query.tasks):
            out = self._query.outgoing[task.name]
            found[task.name] = frozenset().union(*(found[edge.target] for edge in out))
        return found

    def _least_work(self) -> dict[str, float]:
        """A lower bound on the processing time of a tuple from each task on."""
        found: dict[str, float] = {}
        for task in reversed(self._query.tasks):
            out = self._query.outgoing[task.name]
            behind = min(found.get(edge.target, 0.0) for edge in out)
            found[task.name] = task.work / self._fastest + min(1.0, task.makes) * behind
        return found

    def _least_tuples(self) -> dict[str, float]:
        """A lower bound on the tuples left behind each task, per tuple that entered a server."""
        found: dict[str, float] = {}
        for task in self._query.tasks:
            before = min(found.get(source, 1.0) for source in task.inputs)
            found[task.name] = min(1.0, task.makes) * before
        return found


def partial(query: Query, hosts: Mapping[str, str], network: Network) -> Footprint | None:
    """The footprint of the tasks that have a server."""
    tasks = tuple(task for task in query.tasks if task.name in hosts)
    if len(tasks) == len(query.tasks):
        return footprint(query, Placement(hosts), network)
    return footprint(_Part(query, tasks), Placement(hosts), network)  # type: ignore[arg-type]


class _Part:
    """Some tasks of a query, in the form that `footprint` expects."""

    def __init__(self, query: Query, tasks: tuple) -> None:  # type: ignore[type-arg]
        there = {task.name for task in tasks}
        self.producers = query.producers
        self.tasks = tasks
        self.pinned = query.pinned
        self.outgoing = query.outgoing
        self.edges = tuple(edge for edge in query.edges if edge.target in there)


# --- descent ---------------------------------------------------------------------------------------


@dataclass
class _Sea:
    """Several queries on one network, moved task by task."""

    books: Books
    queries: Sequence[Query]
    hosts: dict[str, Hosts]

    def cost_s(self) -> float:
        """The sum of all latencies."""
        return self.books.mean_latency_s() * len(self.books.placed)

    def without(self, query: Query) -> None:
        self.books.remove(query.name)

    def with_(self, query: Query) -> None:
        self.books.add(query, Placement(self.hosts[query.name]))


def descent(
    queries: Sequence[Query],
    network: Network,
    rng: Random,
    starts: int = 3,
    fixed: Sequence[tuple[Query, Placement]] = (),
    good_enough_s: float = 0.0,
) -> tuple[dict[str, Hosts], float, int]:
    """Steepest descent from random starts: repeat the best single move of a task until none helps.

    Returns the servers, the sum of latencies (without those of `fixed`), and the number of waits
    computed.
    """
    best: tuple[dict[str, Hosts], float] = ({}, inf)
    evaluations = 0
    for _ in range(starts):
        books = Books(network)
        for query, placement in fixed:
            books.add(query, placement)
        before = books.mean_latency_s() * len(books.placed)
        sea = _Sea(books, queries, {})
        for query in queries:
            sea.hosts[query.name] = at_random(query, books, rng)
            sea.with_(query)
        while _steepest(sea) and sea.cost_s() - before > good_enough_s:
            pass
        cost = sea.cost_s() - before
        evaluations += books.evaluations
        if cost < best[1]:
            best = sea.hosts, cost
        if cost <= good_enough_s:
            break
    return best[0], best[1], evaluations


def _steepest(sea: _Sea) -> bool:
    """Make the best single move; return whether there was one."""
    gains: list[tuple[float, Query, str, str]] = []
    for query in sea.queries:
        sea.without(query)
        hosts = sea.hosts[query.name]
        now = cost_of(query, hosts, sea.books)
        for task in query.tasks:
            here = hosts[task.name]
            for server in sea.books.network.servers:
                if server != here:
                    hosts[task.name] = server
                    gain = now - cost_of(query, hosts, sea.books)
                    if gain > 1e-12:
                        gains.append((gain, query, task.name, server))
            hosts[task.name] = here
        sea.with_(query)
    if not gains:
        return False
    _, query, task_name, server = max(gains, key=lambda g: g[0])
    sea.without(query)
    sea.hosts[query.name][task_name] = server
    sea.with_(query)
    return True


# --- local search ------------------------------------------------------------------------------------


def local_search(
    query: Query,
    books: Books,
    rng: Random,
    known: Sequence[Hosts] = (),
    kicks: int = 20,
    nearby: int = 24,
) -> tuple[Hosts, float]:
    """Near the optimum for queries too large for it: tasks move alone and together, with kicks.

    It considers fast servers close to the routes between producers and consumers.
    """
    servers = _likely(query, books.network, nearby)
    best: Hosts = {}
    cost = inf
    starts = [dict(hosts) for hosts in known] or [at_random(query, books, rng)]
    starts += [dict.fromkeys((t.name for t in query.tasks), server) for server in servers[:3]]
    for start in starts:
        hosts, found = _settle(query, start, books, servers)
        if found < cost:
            best, cost = hosts, found
    for _ in range(kicks):
        kicked = dict(best)
        for name in rng.sample(sorted(kicked), min(len(kicked), rng.randint(2, 4))):
            kicked[name] = rng.choice(servers)
        hosts, found = _settle(query, kicked, books, servers)
        if found < cost - 1e-12:
            best, cost = hosts, found
    if cost == inf:
        raise UserError("fits nowhere, as far as a search can tell", name=query.name)
    return best, cost


def improve(books: Books, rng: Random, rounds: int, kicks: int = 0, nearby: int = 16) -> None:
    """Place one query after the other anew beside the others, until the cost changes little."""
    before = inf
    for _ in range(rounds):
        for name, (query, placement, _) in list(books.placed.items()):
            books.remove(name)
            hosts, _ = local_search(query, books, rng, [dict(placement.hosts)], kicks, nearby)
            books.add(query, Placement(hosts))
        if books.mean_latency_s() > 0.999 * before:
            return
        before = books.mean_latency_s()


def _settle(
    query: Query, hosts: Hosts, books: Books, servers: Sequence[str]
) -> tuple[Hosts, float]:
    """Make every move of one task, or of neighbouring ones on one server, that helps."""
    cost = cost_of(query, hosts, books)
    moved = True
    while moved:
        moved = False
        for group in _groups(query, hosts):
            for server in servers:
                tried = {**hosts, **dict.fromkeys(group, server)}
                if tried == hosts:
                    continue
                found = cost_of(query, tried, books)
                if found < cost - 1e-12:
                    hosts, cost, moved = tried, found, True
    return hosts, cost


def _groups(query: Query, hosts: Hosts) -> Iterator[tuple[str, ...]]:
    """Tasks that move together: each alone, and those that follow each other on one server."""
    for task in query.tasks:
        yield (task.name,)
    for task in query.tasks:
        group = [task.name]
        for other in query.tasks:
            together = hosts[other.name] == hosts[task.name] and other.name not in group
            if together and any(source in group for source in other.inputs):
                group.append(other.name)
                yield tuple(group)


def _likely(query: Query, network: Network, most: int) -> list[str]:
    """The servers with a small detour, relative to their speed."""
    producers = [network.latencies_s(p.at) for p in query.producers]
    consumers = [c.at for c in query.consumers]
    work = sum(task.work for task in query.tasks)

    def detour(name: str) -> float:
        there = min(far.get(name, inf) for far in producers)
        back = min(network.latencies_s(name).get(at, inf) for at in consumers)
        return there + back + work / network.servers[name].speed

    return sorted(network.servers, key=lambda name: (detour(name), name))[:most]
