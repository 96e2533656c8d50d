"""Searches that know everything: the optimum is one, and nobody is better."""

from __future__ import annotations

from itertools import product
from math import inf
from random import Random

import pytest

from australis.kernel.errors import UserError
from australis.placement import generate
from australis.placement.model import Books, Placement
from australis.placement.network import Network, Server
from australis.placement.queries import Consumer, Producer, Query, Task
from research.ants.search import at_random, cost_of, descent, local_search, optimum


def made(seed: int, servers: int, tasks: int, rate: float = 30.0) -> tuple[Query, Books]:
    """A query, and books with another one already."""
    rng = Random(seed)
    network = generate.transit_stub(servers, rng)
    books = Books(network)
    other = generate.query("other", network, 3, rng, rate)
    books.add(other, Placement(at_random(other, books, rng)))
    return generate.query("q", network, tasks, rng, rate), books


@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_what_trying_everything_finds(seed: int) -> None:
    query, books = made(seed, servers=5, tasks=4, rate=60.0)
    names = [task.name for task in query.tasks]
    best = min(
        cost_of(query, dict(zip(names, hosts, strict=True)), books)
        for hosts in product(books.network.servers, repeat=len(names))
    )
    hosts, cost = optimum(query, books)
    assert cost == pytest.approx(best)
    assert cost_of(query, hosts, books) == pytest.approx(cost)


@pytest.mark.parametrize("seed", range(6))
def test_nobody_is_better_than_the_optimum(seed: int) -> None:
    query, books = made(seed, servers=8, tasks=5)
    _, best = optimum(query, books)
    _, near = local_search(query, books, Random(seed))
    fixed = [(one, placement) for one, placement, _ in books.placed.values()]
    _, far, evaluations = descent([query], books.network, Random(seed), fixed=fixed)
    chance = cost_of(query, at_random(query, books, Random(seed)), books)
    assert best <= near + 1e-12 <= 1.02 * best + 1e-9
    assert best <= far + 1e-12 < inf
    assert best <= chance + 1e-12
    assert evaluations > 0


def test_what_fits_nowhere_is_said() -> None:
    network = Network([Server("a", 1.0, 0.5)], {})
    query = Query(
        "q", (Producer("p", "a", 10.0),), (Task("f", ("p",), 0.1),), (Consumer("c", "a", "f"),)
    )
    for search in (optimum, lambda q, b: at_random(q, b, Random(1))):
        with pytest.raises(UserError, match="'q' fits nowhere"):
            search(query, Books(network))
