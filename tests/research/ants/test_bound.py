"""The bound lies below the optimum, and is reached where nobody waits."""

from __future__ import annotations

from random import Random

import pytest

from australis.kernel.errors import UserError
from australis.placement import generate
from australis.placement.model import Books
from australis.placement.network import Network, Server
from australis.placement.queries import Consumer, Producer, Query, Task
from australis.queueing.links import Wire
from research.ants.bound import least_latency_s
from research.ants.search import optimum


@pytest.mark.parametrize("seed", range(12))
def test_no_placement_is_better_than_the_bound(seed: int) -> None:
    rng = Random(seed)
    network = generate.transit_stub(7, rng)
    query = generate.query("q", network, rng.randint(2, 5), rng)
    _, best = optimum(query, Books(network))
    bound = least_latency_s(query, network)
    assert 0.3 * best < bound <= best


def test_the_bound_is_the_latency_where_nobody_waits() -> None:
    network = Network.both_ways(
        [Server("a"), Server("b", 4.0), Server("c")],
        {("a", "b"): Wire(1e12, 0.010), ("b", "c"): Wire(1e12, 0.020)},
    )
    query = Query(
        "q", (Producer("p", "a", 1e-6),), (Task("f", ("p",), 0.100),), (Consumer("z", "c", "f"),)
    )
    assert least_latency_s(query, network) == pytest.approx(0.030 + 0.100 / 4)


def test_a_task_that_is_reached_in_two_ways_is_refused() -> None:
    network = generate.transit_stub(5, Random(1))
    at = min(network.servers)
    query = Query(
        "q",
        (Producer("p", at, 1.0),),
        (Task("f", ("p",), 0.1), Task("g", ("f",), 0.1), Task("h", ("f", "g"), 0.1)),
        (Consumer("z", at, "h"),),
    )
    with pytest.raises(UserError, match="reached in two ways"):
        least_latency_s(query, network)
