"""Networks, queries and colonies that the ant experiments share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from australis.placement import generate
from australis.placement.model import Books, Placement
from australis.placement.network import Network
from australis.placement.queries import Query
from australis.protocols.ants.events import AntOptions
from australis.sim.ants.simulation import AntsSimulation
from research.ants.search import Hosts, at_random, improve

APART_S = 0.5
"""The interval between submissions of queries."""
DEVIATIONS = (
    "The paper gives neither the rates and sizes of its tuples nor the classes of its machines and"
    " links. Here machines do 1, 2 or 4 units of work a second, a task takes 1 to 5 ms of the slowest,"
    " links take 1 ms inside a stub and 2 to 15 ms between.",
    "The latency of a query is the mean over its flows from a producer to a consumer. Placements of all"
    " sides are judged by the same model (`placement.model`), which knows every server and link.",
    "Scouts find the best placement along their way and beside it by what they have seen, where the"
    " paper's place tasks greedily and then move them between adjacent servers.",
    "The plots are not in the stored text: what is compared is what the prose says of them.",
)


@dataclass(frozen=True)
class Instance:
    """A network and queries."""

    network: Network
    queries: tuple[Query, ...]


def instance(
    seed: int,
    servers: int,
    queries: int,
    tasks: tuple[int, int],
    rate: float,
    work: float = 1.0,
) -> Instance:
    """Draw a random network with queries."""
    rng = Random(seed)
    network = generate.transit_stub(servers, rng)
    made = tuple(
        generate.query(f"q{n}", network, rng.randint(*tasks), rng, rate, work)
        for n in range(queries)
    )
    return Instance(network, made)


def colony_on(
    one: Instance, seed: int, options: AntOptions | None = None, apart_s: float = APART_S
) -> AntsSimulation:
    """A colony that has placed all queries, or as many as it could."""
    colony = AntsSimulation(one.network, seed, options)
    colony.settle()
    for query in one.queries:
        colony.submit(query)
        colony.run(apart_s)
    colony.run_until_placed()
    return colony


def random_books(one: Instance, rng: Random) -> Books:
    """The books of the queries at random servers."""
    books = Books(one.network)
    for query in one.queries:
        books.add(query, Placement(at_random(query, books, rng)))
    return books


def best_known(
    one: Instance, starts: Sequence[dict[str, Hosts]], rng: Random, rounds: int = 3
) -> Books:
    """The best of several placements, improved query by query."""
    best: Books | None = None
    for start in starts:
        books = Books(one.network)
        for query in one.queries:
            books.add(query, Placement(start[query.name]))
        improve(books, rng, rounds)
        if best is None or books.mean_latency_s() < best.mean_latency_s():
            best = books
    assert best is not None
    return best
