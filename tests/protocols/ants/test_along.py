"""Scouts' arithmetic: the same as the model that knows everything, and the best along a way."""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise
from math import inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from australis.placement import generate
from australis.placement.model import Books, Placement, footprint
from australis.placement.use import Use
from australis.protocols.ants.chains import chains, parts
from australis.protocols.ants.observations import LinkObservation, ServerObservation, Way, used_by
from australis.protocols.ants.path_search import Detour, Stop, best_along
from australis.protocols.ants.pheromones import Trips, Vector
from australis.queueing.links import Wire
from research.ants.search import at_random


def seen(books: Books, spot) -> Use:  # type: ignore[no-untyped-def]
    return books.use(spot)


def server_seen(books: Books, name: str) -> ServerObservation:
    server = books.network.servers[name]
    return ServerObservation(name, server.speed, server.bound, seen(books, name))


def link_seen(books: Books, link: tuple[str, str]) -> LinkObservation:
    wire: Wire = books.network.links[link]
    return LinkObservation(wire.latency_s, 1 / wire.bytes_per_s, seen(books, link))


def way_seen(books: Books, path: tuple[str, ...]) -> Way:
    found = Way()
    for link in pairwise(path):
        found = found.then(link_seen(books, link).way)
    return found


def busy(seed: int, tasks: int, linear: bool = False):  # type: ignore[no-untyped-def]
    """A query for a network on which others run."""
    rng = Random(seed)
    network = generate.transit_stub(rng.randint(5, 12), rng)
    books = Books(network)
    for n in range(3):
        other = generate.query(f"o{n}", network, 4, rng)
        books.add(other, Placement(at_random(other, books, rng)))
    while True:
        query = generate.query("q", network, tasks, rng)
        if not linear or len(chains(query)) == 1:
            return query, books


def stops_on(books: Books, path: tuple[str, ...]) -> list[Stop]:
    links = [link_seen(books, link) for link in pairwise(path)]
    return [
        Stop(server_seen(books, name), link)
        for name, link in zip(path, [*links, None], strict=True)
    ]


@pytest.mark.parametrize("seed", range(25))
def test_the_best_along_a_way_is_what_trying_everything_finds(seed: int) -> None:
    query, books = busy(seed, 4, linear=True)
    (chain,) = chains(query)
    path = books.network.way(query.producers[0].at, query.consumers[0].at)
    assert path
    found = best_along(chain, parts(chain), stops_on(books, path))
    best = inf
    for at in combinations_with_replacement(range(len(path)), len(chain.tasks)):
        hosts = {task: path[i] for task, i in zip(chain.tasks, at, strict=True)}
        made = footprint(query, Placement(hosts), books.network)
        assert made is not None
        best = min(best, books.cost_s(made))
    if found is None:
        assert best == inf
        return
    assert found.cost == pytest.approx(best)
    made = footprint(query, Placement(found.hosts, found.routes), books.network)
    assert made is not None
    assert books.cost_s(made) == pytest.approx(found.cost)
    assert found.least <= found.cost


@pytest.mark.parametrize("seed", range(25))
def test_detours_cost_what_was_said_and_lead_somewhere(seed: int) -> None:
    query, books = busy(seed, 5, linear=True)
    network = books.network
    (chain,) = chains(query)
    path = network.way(query.producers[0].at, query.consumers[0].at)
    assert path
    plain = stops_on(books, path)
    stops = [
        Stop(
            stop.server,
            stop.onward,
            tuple(
                Detour(
                    server_seen(books, other),
                    network.way(stop.server.name, other) or (),
                    way_seen(books, network.way(stop.server.name, other) or ()),
                    way_seen(books, network.way(other, stop.server.name) or ()),
                )
                for other in network.servers
                if other not in path
            ),
        )
        for stop in plain
    ]
    without = best_along(chain, parts(chain), plain)
    found = best_along(chain, parts(chain), stops)
    assert found is not None
    assert without is None or found.cost <= without.cost + 1e-12
    ends = {chain.source: path[0], chain.target: path[-1], **found.hosts}
    for (here, there), route in found.routes.items():
        assert (route[0], route[-1]) == (ends[here], ends[there])
        assert all(link in network.links for link in pairwise(route))
    made = footprint(query, Placement(found.hosts, found.routes), network)
    assert made is not None
    # What a detour adds to the waits of others on its links is not seen by a scout.
    assert books.cost_s(made) == pytest.approx(found.cost, rel=0.1)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 9))
def test_a_server_alone_knows_what_tasks_do_to_it(seed: int, tasks: int) -> None:
    query, books = busy(seed, tasks)
    hosts = at_random(query, books, Random(seed))
    found = footprint(query, Placement(hosts), books.network)
    assert found is not None
    served = 0.0
    for server in set(hosts.values()):
        there = frozenset(task for task, host in hosts.items() if host == server)
        use, own = used_by(query, there, books.network.servers[server].speed)
        wanted = found.uses[server]
        assert use.load == pytest.approx(wanted.load)
        assert use.wait_s == pytest.approx(wanted.wait_s)
        assert use.weight == pytest.approx(wanted.weight)
        served += own
    assert served <= found.fixed_s + 1e-12


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 12))
def test_chains_have_every_task_once_and_begin_and_end_where_something_is(
    seed: int, tasks: int
) -> None:
    query, _ = busy(seed, tasks)
    placed: set[str] = set()
    for at, chain in enumerate(chains(query)):
        assert not placed & set(chain.tasks)
        ends = {chain.source, chain.target}
        assert ends <= placed | set(query.pinned)
        assert at or ends <= set(query.pinned), "the first leads from end to end"
        assert len(chain.edges) == len(chain.tasks) + 1
        placed |= set(chain.tasks)
    assert placed == set(query.task)


@given(
    st.integers(1, 8),
    st.lists(st.tuples(st.booleans(), st.integers(0, 7), st.floats(0, 1)), max_size=40),
)
def test_probabilities_sum_to_one(size: int, happened: list[tuple[bool, int, float]]) -> None:
    names = [f"n{n}" for n in range(size)]
    vector = Vector(names)
    for good, at, r in happened:
        (vector.reinforce if good else vector.discourage)(names[at % size], r)
        parts_of = [vector.probability(name) for name in names]
        assert sum(parts_of) == pytest.approx(1.0)
        assert min(parts_of) > 0


def test_trips_that_became_longer_count_as_good_again_after_a_while() -> None:
    trips = Trips()
    for _ in range(100):
        trips.add(1.0)
    assert not trips.good(3.0)
    for _ in range(200):
        trips.add(3.0)
    assert trips.good(3.0)
