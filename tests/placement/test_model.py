"""What placements cost: beside queues worked out by hand, and books that add up."""

from __future__ import annotations

from math import inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queueing.known import mm1_wait_s

from australis.kernel.errors import UserError
from australis.placement import generate
from australis.placement.model import Books, Placement, footprint
from australis.placement.network import Network, Server
from australis.placement.queries import Consumer, Producer, Query, Task
from australis.placement.use import Use
from australis.queueing.flows import Demand, Flow
from australis.queueing.links import Wire
from research.ants.search import at_random

FREE = Wire(1e12, 0.0)
LINE = Network.both_ways(
    [Server("a", 1.0), Server("b", 2.0), Server("c", 1.0)],
    {("a", "b"): Wire(1e6, 0.010), ("b", "c"): Wire(1e6, 0.020)},
)
CHAIN = Query(
    "q",
    (Producer("p", "a", 10.0, 1_000.0),),
    (Task("f", ("p",), 0.020, 0.5, 2_000.0), Task("g", ("f",), 0.030, 1.0, 500.0)),
    (Consumer("z", "c", "g"),),
)


def latency(query: Query, hosts: dict[str, str], network: Network = LINE) -> float:
    books = Books(network)
    assert books.add(query, Placement(hosts))
    return books.latency_s(query.name)


def on_link(rate: float, size: float, way_s: float) -> float:
    """A link of 1 MB/s with one flow: M/D/1."""
    takes = size / 1e6
    load = rate * takes
    return load / (1 - load) * takes / 2 + takes + way_s


def test_both_tasks_on_one_server() -> None:
    """A tuple waits once, and half of them need the second task too."""
    service = (0.020 + 0.5 * 0.030) / 2.0
    expected = (
        on_link(10.0, 1_000.0, 0.010)
        + mm1_wait_s(10.0, service)
        + service
        + on_link(5.0, 500.0, 0.020)
    )
    assert latency(CHAIN, {"f": "b", "g": "b"}) == pytest.approx(expected)


def test_tasks_on_two_servers_wait_twice() -> None:
    expected = (
        mm1_wait_s(10.0, 0.020)
        + 0.020
        + on_link(5.0, 2_000.0, 0.010)
        + on_link(5.0, 2_000.0, 0.020)
        + mm1_wait_s(5.0, 0.030)
        + 0.030
    )
    assert latency(CHAIN, {"f": "a", "g": "c"}) == pytest.approx(expected)


def test_the_latency_is_the_mean_over_flows() -> None:
    """Two producers, one far away: half the flows come from there."""
    joined = Query(
        "q",
        (Producer("near", "b", 1.0), Producer("far", "a", 1.0)),
        (Task("j", ("near", "far"), 0.001),),
        (Consumer("z", "b", "j"),),
    )
    wire = Wire(1e12, 0.010)
    network = Network.both_ways([Server("a"), Server("b")], {("a", "b"): wire})
    wait = mm1_wait_s(2.0, 0.001)
    assert latency(joined, {"j": "b"}, network) == pytest.approx(0.005 + wait + 0.001, rel=1e-3)


def test_another_query_makes_everybody_wait() -> None:
    books = Books(LINE)
    other = Query(
        "other",
        (Producer("p2", "b", 20.0),),
        (Task("h", ("p2",), 0.040),),
        (Consumer("z2", "b", "h"),),
    )
    books.add(other, Placement({"h": "b"}))
    alone = books.latency_s("other")
    found = footprint(CHAIN, Placement({"f": "b", "g": "b"}), LINE)
    assert found is not None
    cost = books.cost_s(found)
    books.add(CHAIN, Placement({"f": "b", "g": "b"}))
    assert books.latency_s("other") > alone
    added = books.latency_s("q") + books.latency_s("other") - alone
    assert cost == pytest.approx(added)


def test_a_server_beyond_its_bound_costs_everything() -> None:
    network = Network([Server("a", 1.0, bound=0.3)], {})
    query = Query(
        "q",
        (Producer("p", "a", 10.0),),
        (Task("f", ("p",), 0.031),),
        (Consumer("z", "a", "f"),),
    )
    found = footprint(query, Placement({"f": "a"}), network)
    assert found is not None
    assert Books(network).cost_s(found) == inf


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000))
def test_books_add_up(seed: int) -> None:
    """Costs one after the other are the sum of all latencies, and what goes leaves nothing."""
    rng = Random(seed)
    network = generate.transit_stub(rng.randint(4, 15), rng)
    books = Books(network)
    total = 0.0
    queries = [generate.query(f"q{n}", network, rng.randint(1, 7), rng, 5.0) for n in range(4)]
    for query in queries:
        placement = Placement(at_random(query, books, rng))
        found = footprint(query, placement, network)
        assert found is not None
        total += books.cost_s(found)
        books.add(query, placement)
    assert books.mean_latency_s() * 4 == pytest.approx(total)
    first = books.latency_s("q0")
    for name in ("q3", "q2", "q1"):
        books.remove(name)
    assert books.latency_s("q0") <= first
    books.remove("q0")
    assert all(books.use(spot).load < 1e-9 for spot in (*network.servers, *network.links))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 100_000), st.integers(1, 14))
def test_random_queries_have_flows_that_add_up(seed: int, tasks: int) -> None:
    rng = Random(seed)
    network = generate.transit_stub(rng.randint(2, 30), rng)
    query = generate.query("q", network, tasks, rng)
    assert len(query.tasks) == tasks
    into = sum(edge.weight for c in query.consumers for edge in query.incoming[c.name])
    out = sum(edge.weight for p in query.producers for edge in query.outgoing[p.name])
    assert into == pytest.approx(1.0)
    assert out == pytest.approx(1.0)
    for task in query.tasks:
        came = sum(edge.weight for edge in query.incoming[task.name])
        assert came == pytest.approx(sum(e.weight for e in query.outgoing[task.name]))
    for end in query.pinned.values():
        assert all(network.way(end, other) for other in query.pinned.values())


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Producer("p", "a", -1.0), "has a rate of -1 at p, not above 0"),
        (lambda: Producer("p", "a", 1.0, 0.0), "has tuples of 0 bytes out of p, not above 0"),
    ],
)
def test_producers_that_cannot_be(make, says: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError, match=says):
        Query("q", (make(),), (Task("f", ("p",), 1.0),), (Consumer("c", "a", "f"),))


@pytest.mark.parametrize(
    ("tasks", "says"),
    [
        ((Task("f", ("x",), 1.0),), "has a task f that takes x, which is not before it"),
        ((Task("f", (), 1.0),), "has a task without inputs, f"),
        ((Task("f", ("p",), 0.0),), "has a task f with no work or no tuples"),
        ((Task("p", ("p",), 1.0),), "has two of the name p"),
        (
            (Task("f", ("p",), 1.0), Task("g", ("p",), 1.0)),
            "has no consumer of what g emits",
        ),
    ],
)
def test_tasks_that_cannot_be(tasks: tuple[Task, ...], says: str) -> None:
    with pytest.raises(UserError, match=says):
        Query("q", (Producer("p", "a", 1.0),), tasks, (Consumer("c", "a", "f"),))


@given(st.lists(st.tuples(st.floats(0.01, 20), st.floats(0.001, 0.01)), min_size=1, max_size=5))
def test_uses_say_what_the_queueing_model_says(flows: list[tuple[float, float]]) -> None:
    made = [Flow(rate, service_s) for rate, service_s in flows]
    use = Use()
    for flow in made:
        use = use.plus(Use.of(flow, 0.5))
    whole = Demand.total(made)
    assert use.load == pytest.approx(whole.load)
    assert use.wait_s == pytest.approx(whole.wait_s)
    assert use.weight == pytest.approx(len(made) / 2)


def test_networks_that_cannot_be() -> None:
    with pytest.raises(UserError, match="'a' is the name of two servers"):
        Network([Server("a"), Server("a")], {})
    with pytest.raises(UserError, match="'b' is at the end of a link but not a server"):
        Network([Server("a")], {("a", "b"): FREE})
    with pytest.raises(UserError, match="'a' has a load bound outside"):
        Server("a", bound=1.5)
