"""Colonies whose queries have tasks in common, and tasks that remember something."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from australis.placement import generate
from australis.placement.network import Network, Server
from australis.placement.queries import Consumer, Producer, Query, Task
from australis.protocols.ants.events import AntOptions
from australis.queueing.links import Wire
from australis.sim.ants.broken import Forgets
from australis.sim.ants.simulation import AntsSimulation


def network() -> Network:
    """A row of servers, the fast ones in the middle."""
    names = "abcd"
    servers = [Server(n, speed) for n, speed in zip(names, (1.0, 4.0, 4.0, 1.0), strict=True)]
    wires = {(h, t): Wire(12.5e6, 0.005) for h, t in pairwise(names)}
    return Network.both_ways(servers, wires)


def query(name: str, last: str = "", to: str = "d", state_bytes: float = 0.0) -> Query:
    """Two tasks that all have in common, and one of its own."""
    return Query(
        name,
        (Producer(f"{name}.p", "a", 40.0, stream="packets"),),
        (
            Task(f"{name}.f", (f"{name}.p",), 0.010, does="filter"),
            Task(f"{name}.g", (f"{name}.f",), 0.010, does="count", state_bytes=state_bytes),
            Task(f"{name}.h", (f"{name}.g",), 0.010, does=last),
        ),
        (Consumer(f"{name}.c", to, f"{name}.h"),),
    )


def placed(*queries: Query, reuse: bool = True, **options: float) -> AntsSimulation:
    colony = AntsSimulation(network(), options=AntOptions(reuse=reuse, **options))  # type: ignore[arg-type]
    colony.settle()
    for one in queries:
        colony.submit(one)
        assert colony.run_until_placed()
        colony.run(5)
    return colony


def load(colony: AntsSimulation) -> float:
    books = colony.books()
    return sum(books.use(name).load for name in colony.ground.servers)


def test_what_another_query_makes_is_not_made_again() -> None:
    colony = placed(query("one"), query("two"))
    assert colony.taps["one"] == {}
    assert {task: tap.of for task, tap in colony.taps["two"].items()} == {"two.g": "one.g"}
    assert set(colony.placements["two"].hosts) == {"two.h"}
    alone = placed(query("one"), query("two"), reuse=False)
    assert alone.taps["two"] == {}
    assert load(colony) < 0.75 * load(alone)
    assert colony.books().mean_latency_s() <= 1.02 * alone.books().mean_latency_s()


def test_a_query_that_is_all_there_only_needs_the_way_to_its_consumer() -> None:
    colony = placed(query("one", "top"), query("two", "top"))
    assert colony.placements["two"].hosts == {}
    assert set(colony.taps["two"]) == {"two.h"}
    before = load(placed(query("one", "top")))
    assert load(colony) == pytest.approx(before)


def test_the_latency_of_what_is_taken_over_counts() -> None:
    one, two = query("one", "top"), query("two", "top")
    colony = placed(one, two)
    colony.measure_ages()
    books = colony.books()
    assert books.latency_s("two") == pytest.approx(books.latency_s("one"), rel=0.05)


def test_who_takes_from_a_query_that_ends_has_something_else_before_it_does() -> None:
    colony = placed(query("one"), query("two"))
    gaps = []
    colony.withdraw("one")
    for _ in range(80):
        colony.run(0.5)
        gaps.append("two" not in colony.placements)
    assert not any(gaps)
    assert set(colony.placements["two"].hosts) == {"two.f", "two.g", "two.h"}
    left = {key[0] for host in colony.hosts.values() for key in host.cell.ground.running()}
    assert left == {"two"}


def test_who_takes_from_a_server_that_crashes_is_placed_anew() -> None:
    colony = placed(query("one"), query("two"))
    colony.crash(colony.taps["two"]["two.g"].at)
    colony.run(60)
    colony.heal()
    colony.run(60)
    assert set(colony.placements) == {"one", "two"}
    for name in colony.placements:
        for tap in colony.taps[name].values():
            running = colony.hosts[tap.at].cell.ground.running()
            assert tap.of in running[tap.query, tap.version].share.tasks


def test_only_earlier_queries_are_taken_from() -> None:
    rng = Random(4)
    ground = generate.transit_stub(12, rng)
    colony = AntsSimulation(ground, options=AntOptions(beta=1.02))
    colony.settle()
    for n in range(8):
        colony.submit(generate.similar(f"q{n}", ground, 4, rng, rate=10.0, streams=1, kinds=1))
        colony.run(3)
    colony.run(120)
    for name in colony.placements:
        for tap in colony.taps[name].values():
            assert colony.submitted_us[tap.query] < colony.submitted_us[name]
    assert sum(bool(taps) for taps in colony.taps.values()) >= 4


def test_tasks_take_along_what_they_remember() -> None:
    colony = placed(query("one", state_bytes=25e6))
    host = colony.placements["one"].hosts["one.g"]
    colony.disturb(host, 0.9, 0.05)
    moved_after = 0.0
    while colony.placements["one"].hosts["one.g"] == host and moved_after < 200:
        colony.run(0.5)
        moved_after += 0.5
    assert colony.placements["one"].hosts["one.g"] != host
    assert colony.forgot == []
    other = AntsSimulation(network(), cell_class=Forgets)
    other.settle()
    other.submit(query("one", state_bytes=25e6))
    assert other.run_until_placed()
    other.disturb(other.placements["one"].hosts["one.g"], 0.9, 0.05)
    other.run(200)
    assert other.forgot


@pytest.mark.parametrize("whose", ["leader", "task"])
def test_a_query_goes_on_when_a_cell_comes_back(whose: str) -> None:
    colony = placed(query("one"))
    version = colony.versions["one"]
    cell = "a" if whose == "leader" else colony.placements["one"].hosts["one.g"]
    colony.crash(cell)
    colony.run(1)
    colony.start(cell)
    colony.run(15)
    assert colony.versions["one"] == version
    running = [key for host in colony.hosts.values() for key in host.cell.ground.running()]
    assert set(running) == {("one", version)}


def test_a_query_that_is_changed_may_take_from_others() -> None:
    colony = placed(query("one"), query("two"))
    colony.submit(replace(query("two", "top")))
    colony.run(30)
    assert set(colony.placements) == {"one", "two"}
