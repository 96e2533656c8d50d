"""Pheromones and routing ants, sentence by sentence; each name ends with its section of ants."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocols.ants.hand import Cell, only, queued, row, sent

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.machine import Send
from australis.protocols.ants.events import Dequeued, Queue
from australis.protocols.ants.messages import Homing, Hop, Routing
from australis.protocols.ants.pheromones import LEAST, Trips, Vector
from australis.protocols.ants.trails import MAX_STEPS

MS = MILLISECOND


def probabilities(cell: Cell, destination: str = "e") -> dict[str, float]:
    """What a cell knows of the way to a destination."""
    vector = cell.machine.trails.vector(destination, cell.now)
    return {name: vector.probability(name) for name in cell.machine.ground.links}


def ant(
    cell: Cell, *hops: tuple[str, int], at: str = "a", age_ms: int = 0, to: str = "e"
) -> Routing:
    """A routing ant that left `at` ten milliseconds ago."""
    behind = tuple(Hop(name, ms * MS) for name, ms in hops)
    return Routing(to, behind, at, cell.now - 10 * MS, age_ms * MS)


# --- vectors ---------------------------------------------------------------------------------


def test_at_first_all_neighbours_are_equally_likely_3_3() -> None:
    assert probabilities(Cell("b", row(1, 1, 1, 1, 1))) == {"a": 0.5, "c": 0.5}


def test_a_neighbour_is_the_way_to_itself() -> None:
    assert probabilities(Cell("b"), "c")["c"] == 0.75


@given(st.integers(2, 6), st.floats(0, 1))
def test_one_is_reinforced_and_all_others_decay_3_5(size: int, r: float) -> None:
    """Expressions 1 and 2."""
    names = [f"n{i}" for i in range(size)]
    vector = Vector(names)
    before = 1 / size
    vector.reinforce("n0", r)
    floor = LEAST / size
    if before * (1 - r) > floor:
        assert vector.probability("n0") == pytest.approx(before + r * (1 - before))
        for other in names[1:]:
            assert vector.probability(other) == pytest.approx(before * (1 - r))


def test_small_probabilities_grow_more_than_large_ones_3_5() -> None:
    vector = Vector(["a", "b"])
    vector.reinforce("a", 0.6)
    small, large = vector.probability("b"), vector.probability("a")
    grown = Vector(["a", "b"])
    grown.reinforce("a", 0.6)
    grown.reinforce("b", 0.1)
    vector.reinforce("a", 0.1)
    assert grown.probability("b") / small > vector.probability("a") / large


def test_no_neighbour_is_ever_quite_forgotten() -> None:
    vector = Vector(["a", "b", "c"])
    for _ in range(1_000):
        vector.reinforce("a", 0.5)
    assert vector.probability("b") == pytest.approx(LEAST / 3, rel=0.02)
    vector.discourage("a", 1.0)
    assert vector.probability("a") > 0


def test_a_discouraged_neighbour_leaves_its_part_to_the_others_3_7() -> None:
    vector = Vector(["a", "b", "c"])
    vector.discourage("a", 0.5)
    assert vector.probability("a") == pytest.approx(0.5 / 2.5)
    assert vector.probability("b") == vector.probability("c") == pytest.approx(1 / 2.5)
    alone = Vector(["a"])
    alone.discourage("a", 1.0)
    assert alone.probability("a") == 1.0


def test_the_next_hop_is_chosen_as_likely_as_the_vector_says_3_4() -> None:
    vector = Vector(["a", "b"])
    vector.reinforce("a", 0.5)
    rng = Random(3)
    counts = Counter(vector.choose(rng, ["a", "b"]) for _ in range(4_000))
    assert counts["a"] / 4_000 == pytest.approx(0.75, abs=0.03)


def test_mean_and_variance_of_trips_are_kept_3_3() -> None:
    trips, took = Trips(), [1.0, 2.0, 4.0, 1.0]
    for one in took:
        trips.add(one)
    assert trips.mean_s == pytest.approx(sum(took) / 4)
    assert trips.variance > 0
    assert trips.best_s == 1.0


def test_a_trip_is_good_up_to_a_confidence_interval_above_the_mean_3_5() -> None:
    trips = Trips()
    assert trips.good(1.0), "the first two are, whatever they took"
    for took in (1.0, 1.2, 0.8):
        trips.add(took)
    assert trips.good(1.05)
    assert not trips.good(1.5)


# --- on the way ------------------------------------------------------------------------------


def test_a_leader_releases_so_many_ants_which_wait_like_tuples_3_4() -> None:
    cell = Cell("a")
    first = Routing("e", (), "a", cell.now)
    assert cell.machine.trails.send("e", 3, cell.now) == 3 * [Queue(first)]


def test_an_ant_goes_to_a_neighbour_it_has_not_visited_3_4() -> None:
    cell = Cell("b", row(1, 1, 1, 1, 1))
    for _ in range(20):
        assert only(cell.take(Dequeued(ant(cell, ("a", 1), at="b"))))[0] == "c"


def test_it_goes_to_any_neighbour_if_it_has_visited_all_3_4() -> None:
    cell = Cell("b", row(1, 1, 1, 1, 1))
    gone = {only(cell.take(Dequeued(ant(cell, ("c", 1), ("a", 1), at="b"))))[0] for _ in range(40)}
    assert gone == {"a", "c"}


def test_it_records_how_long_each_hop_took_and_waits_at_the_tail_of_the_queue_3_4() -> None:
    cell = Cell("b", row(1, 1, 1, 1, 1))
    effects = cell.hears("a", ant(cell))
    assert effects == [Queue(Routing("e", (Hop("a", 10 * MS),), "b", cell.now, 10 * MS, 1))]


def test_a_cycle_is_removed_from_its_memory_3_4() -> None:
    cell = Cell("b", row(1, 1, 1, 1, 1))
    back = ant(cell, ("a", 25), ("b", 10), at="c", age_ms=35)
    (further,) = queued(cell.hears("c", back))
    assert further.hops == (Hop("a", 25 * MS),)
    assert further.age_us == 45 * MS, "its age is not forgotten"


def test_it_is_destroyed_if_the_cycle_is_longer_than_half_its_age_3_4() -> None:
    cell = Cell("b", row(1, 1, 1, 1, 1))
    assert cell.hears("c", ant(cell, ("a", 10), ("b", 10), at="c", age_ms=20)) == []


def test_it_is_destroyed_if_it_has_come_by_too_many_cells() -> None:
    cell = Cell("b", row(1, 1, 1, 1, 1))
    lost = Routing("e", (), "a", cell.now, steps=MAX_STEPS)
    assert cell.hears("a", lost) == []


def test_at_its_destination_it_turns_round_3_4() -> None:
    cell = Cell("e", row(1, 1, 1, 1, 1))
    hops = (Hop("a", 1 * MS), Hop("d", 10 * MS))
    assert cell.hears("d", ant(cell, ("a", 1), at="d")) == [Send("d", Homing("e", hops, "e", 0))]


# --- on the way back -------------------------------------------------------------------------


def test_on_its_way_back_it_passes_the_queue_and_leaves_its_pheromone_3_5() -> None:
    cell = Cell("b", row(1, 1, 1, 1, 1))
    homing = Homing("e", (Hop("a", 5 * MS), Hop("b", 10 * MS)), "c", 20 * MS)
    effects = cell.hears("c", homing)
    assert effects == [Send("a", Homing("e", (Hop("a", 5 * MS),), "b", 30 * MS))]
    r = cell.machine.options.reinforcement
    assert probabilities(cell) == pytest.approx({"a": 0.5 * (1 - r), "c": 0.5 * (1 - r) + r})
    trips = cell.machine.trails.trips["e"]
    assert (trips.number, trips.mean_s) == (1, 0.03)


def test_back_home_it_dies_3_5() -> None:
    cell = Cell("a", row(1, 1, 1))
    assert cell.hears("b", Homing("c", (Hop("a", 5 * MS),), "b", 20 * MS)) == []
    assert cell.machine.trails.trips["c"].mean_s == 0.025


def test_a_shorter_trip_reinforces_more_and_a_bad_one_not_at_all_3_5() -> None:
    def after(*took_ms: int) -> float:
        cell = Cell("b", row(1, 1, 1, 1, 1))
        for _ in range(10):
            cell.hears("a", Homing("e", (Hop("b", 0),), "a", 20 * MS))
        for took in took_ms:
            cell.hears("c", Homing("e", (Hop("b", 0),), "c", took * MS))
        return probabilities(cell)["c"]

    nothing = after()
    assert after(10) > nothing
    assert after(2) == after(10), "none counts for more than one as good as the best"
    assert after(40) == pytest.approx(nothing)


def test_half_as_good_as_the_best_reinforces_half_as_much_3_5() -> None:
    cell = Cell("b", row(1, 1, 1, 1, 1))
    trails = cell.machine.trails
    trails.trips["e"] = Trips(mean_s=0.1, variance=0.01, best_s=0.05, number=50)
    cell.hears("c", Homing("e", (Hop("b", 0),), "c", 100 * MS))
    best_s = trails.trips["e"].best_s
    r = trails._options.reinforcement * best_s / 0.1
    assert probabilities(cell)["c"] == pytest.approx(0.5 + r * 0.5)


def test_a_vector_nobody_uses_is_destroyed_3_5() -> None:
    cell = Cell("b", row(1, 1, 1, 1, 1))
    cell.hears("c", Homing("e", (Hop("b", 0),), "c", 20 * MS))
    trails, expiry_us = cell.machine.trails, cell.machine.options.expiry_us
    trails.expire(cell.now + expiry_us)
    assert set(trails.vectors) == set(trails.trips) == {"e"}
    trails.expire(cell.now + expiry_us + 1)
    assert trails.vectors == trails.trips == {}


def test_a_server_without_neighbours_sends_nobody_anywhere() -> None:
    cell = Cell("a", row(1))
    assert sent(cell.machine.trails.go_on(Routing("e", (), "a", cell.now), cell.now)) == []
    assert cell.now % SECOND == 0
