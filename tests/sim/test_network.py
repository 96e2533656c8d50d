"""Links: latency, order, loss, duplication and cuts."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from australis.sim.network import Link, Network


def network(**link: object) -> Network:
    plain: dict[str, object] = {"latency_us": 10, "jitter_us": 0}
    return Network(Random(1), Link(**(plain | link)))  # type: ignore[arg-type]


def test_a_message_takes_the_links_latency() -> None:
    assert network().deliveries("a", "b", 100) == [110]


def test_jitter_adds_less_than_its_bound() -> None:
    net = network(jitter_us=50, in_order=False)
    times = [net.deliveries("a", "b", 0)[0] for _ in range(200)]
    assert min(times) >= 10
    assert max(times) < 60
    assert len(set(times)) > 10


def test_a_slow_link_adds_a_delay_of_its_own() -> None:
    net = network()
    net.link("a", "b").extra_us = 500
    assert net.deliveries("a", "b", 0) == [510]
    assert net.deliveries("b", "a", 0) == [10]


@given(st.lists(st.integers(0, 30), min_size=2), st.integers(0, 2**32))
def test_messages_on_one_link_keep_their_order(steps: list[int], seed: int) -> None:
    net = Network(Random(seed), Link(latency_us=10, jitter_us=100))
    now, arrivals = 0, []
    for step in steps:
        now += step
        arrivals += net.deliveries("a", "b", now)
    assert arrivals == sorted(arrivals)


def test_a_link_that_is_told_so_does_not_keep_their_order() -> None:
    net = network(jitter_us=1_000, in_order=False)
    arrivals = [net.deliveries("a", "b", now)[0] for now in range(50)]
    assert arrivals != sorted(arrivals)


def test_links_do_not_hold_each_other_up() -> None:
    net = network()
    net.link("a", "b").extra_us = 500
    net.deliveries("a", "b", 0)
    assert net.deliveries("a", "c", 1) == [11]


def test_a_lossy_link_loses_its_share() -> None:
    net = network(loss=0.3)
    lost = [net.deliveries("a", "b", 0) for _ in range(1_000)].count([])
    assert net.lost == lost
    assert 200 < lost < 400


@pytest.mark.parametrize(("loss", "arrives"), [(0.0, 1), (1.0, 0)])
def test_all_or_nothing(loss: float, arrives: int) -> None:
    assert len(network(loss=loss).deliveries("a", "b", 0)) == arrives


def test_a_repeated_message_arrives_again_later() -> None:
    assert network(duplicate=1.0).deliveries("a", "b", 0) == [10, 20]
    net = network(duplicate=0.5)
    assert {len(net.deliveries("a", "b", 0)) for _ in range(50)} == {1, 2}


def test_a_cut_lets_nothing_through_one_way() -> None:
    net = network()
    net.cut("a", "b")
    assert net.deliveries("a", "b", 0) == []
    assert net.deliveries("b", "a", 0) == [10]
    assert net.lost == 1


def test_cuts_are_counted() -> None:
    net = network()
    net.cut("a", "b")
    net.cut("a", "b")
    net.mend("a", "b")
    assert net.deliveries("a", "b", 0) == [], "one fault still holds it"
    net.mend("a", "b")
    assert net.deliveries("a", "b", 0) == [10]


def test_a_link_has_the_defaults_but_its_own_state() -> None:
    net = network(loss=0.25, in_order=False)
    link = net.link("a", "b")
    assert (link.latency_us, link.loss, link.in_order) == (10, 0.25, False)
    link.loss = 0.0
    assert net.link("a", "b").loss == 0.0
    assert net.link("b", "a").loss == 0.25


def test_links_that_lose_nothing_draw_nothing_for_it() -> None:
    """So that a fault on one link changes no chance of another before it begins."""
    one, other = Network(Random(5), Link(10, 50)), Network(Random(5), Link(10, 50))
    other.link("x", "y").loss = 0.5
    assert [one.deliveries("a", "b", n) for n in range(9)] == [
        other.deliveries("a", "b", n) for n in range(9)
    ]
