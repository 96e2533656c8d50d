"""Reuse: what is left of a query, how old what it takes is, and which tasks make the same."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from australis.kernel.errors import UserError
from australis.placement import generate
from australis.placement.model import Books, Placement
from australis.placement.network import Network, Server
from australis.placement.queries import Consumer, Producer, Query, Task
from australis.placement.reuse import Tap, age_s, reduced, used
from australis.queueing.links import Wire
from australis.sim.ants.checked import made_of


def joined(name: str = "q", does: str = "join") -> Query:
    """Two producers, a task behind each, one that joins them, and one behind it."""
    return Query(
        name,
        (Producer("p", "a", 10.0, stream="left"), Producer("r", "b", 10.0, stream="right")),
        (
            Task("f", ("p",), 0.001, does="clean"),
            Task("g", ("r",), 0.001, does="clean"),
            Task("j", ("f", "g"), 0.001, does=does),
            Task("t", ("j",), 0.001, does="top"),
        ),
        (Consumer("c", "d", "t"), Consumer("e", "a", "f")),
    )


def tap(task: str, at: str = "b", age: float = 0.5) -> Tap:
    return Tap(task, at, "other", 1, task, age)


def test_what_leads_only_to_a_task_that_is_taken_over_is_not_needed() -> None:
    left = reduced(joined(), {"j": tap("j")})
    assert [t.name for t in left.tasks] == ["f", "t"]  # somebody else takes f
    assert [p.name for p in left.producers] == ["p", "j"]
    assert left.pinned["j"] == "b"


def test_the_weights_and_rates_of_what_is_left_are_as_before() -> None:
    query = joined()
    left = reduced(query, {"j": tap("j")})
    before = {(e.source, e.target): e for e in query.edges}
    for edge in left.edges:
        assert edge.rate == pytest.approx(before[edge.source, edge.target].rate)
    for edge in (*left.outgoing["j"], *left.outgoing["t"], *left.outgoing["f"]):
        assert edge.weight == pytest.approx(before[edge.source, edge.target].weight)
    # What leads to j through f is counted with j now.
    assert left.outgoing["p"][0].weight == pytest.approx(1 / 3)
    assert left.signatures["t"] == query.signatures["t"]


def test_taps_behind_other_taps_are_not_used() -> None:
    taps = {"f": tap("f"), "g": tap("g"), "j": tap("j")}
    assert set(used(joined(), taps)) == {"f", "j"}
    whole = {"t": tap("t"), "f": tap("f")}
    assert reduced(joined(), whole).tasks == ()


def test_nothing_is_left_out_without_taps() -> None:
    assert reduced(joined(), {}) is not None
    assert reduced(joined(), {}) == joined()


def test_what_is_taken_over_is_as_old_as_it_would_be_made_here() -> None:
    servers = [Server(name) for name in "abd"]
    wires = {("a", "b"): Wire(1e8, 0.010), ("b", "d"): Wire(1e8, 0.020)}
    network = Network.both_ways(servers, wires)
    query = replace(joined(), consumers=(Consumer("c", "d", "t"),))
    placement = Placement({"f": "a", "g": "b", "j": "b", "t": "d"})
    books = Books(network)
    books.add(query, placement)
    age = age_s(query, "j", placement, books)
    left = reduced(replace(query, name="r"), {"j": tap("j", "b", age)})
    alone = Books(network)
    alone.add(left, Placement({"t": "d"}))
    # But for what it waits at d, where nobody else is now.
    assert alone.latency_s("r") == pytest.approx(books.latency_s("q"), rel=1e-3)


def test_tasks_are_the_same_if_they_do_the_same_with_the_same() -> None:
    one = joined().signatures
    assert one["f"] != one["g"]  # the same of something else
    assert one["j"] != joined(does="merge").signatures["j"]
    assert one["t"] != joined(does="merge").signatures["t"]
    assert one == joined("other").signatures


def test_what_has_no_name_is_nobody_elses() -> None:
    query = joined()
    private = replace(query, producers=(replace(query.producers[0], stream=""), query.producers[1]))
    assert set(private.signatures) == {"r", "g"}


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_signatures_are_equal_just_where_what_is_made_is(first: int, second: int) -> None:
    network = generate.transit_stub(8, Random(1))
    one = generate.similar("a", network, 4, Random(first))
    other = generate.similar("b", network, 4, Random(second))
    for here, signature in one.signatures.items():
        for there, its in other.signatures.items():
            assert (signature == its) == (made_of(one, here) == made_of(other, there))


def test_a_consumer_of_another_consumer_is_refused() -> None:
    with pytest.raises(UserError, match="which puts nothing out"):
        Query(
            "q", (Producer("p", "a", 1.0),), (), (Consumer("c", "a", "p"), Consumer("d", "a", "c"))
        )
