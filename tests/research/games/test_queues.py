"""Queues with finite room: nothing is lost, the slowest holds up all others, the model agrees."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from australis.elasticity.cost import Module
from australis.elasticity.equilibrium import social_optimum
from australis.elasticity.game import Game
from australis.elasticity.generate import object_recognition, random_game
from australis.elasticity.graph import FlowGraph
from australis.elasticity.rounding import whole_cores
from australis.elasticity.service import Ideal, WithMinimum
from australis.kernel.errors import UserError
from research.games.queues import Queues
from research.games.trial import cooperative, selfish, with_queues


def row(*takes_s: float) -> Game:
    """Modules one after the other."""
    names = [f"m{n}" for n in range(len(takes_s))]
    graph = FlowGraph(names, dict.fromkeys(itertools.pairwise(names), 1.0))
    return Game.of(
        graph,
        *(Module(n, Ideal(t), 1.0, 0.01, 64) for n, t in zip(names, takes_s, strict=True)),
    )


def test_a_module_that_keeps_up_completes_what_comes() -> None:
    queues = Queues(row(1.0), {"m0": 4}, 10, Random(1))
    queues.arrive(0.5)
    found = queues.run(20_000)
    assert found.completed["m0"] == pytest.approx(40_000, rel=0.01)
    assert found.busy["m0"] == pytest.approx(0.5, rel=0.02)
    assert found.running_s["m0"] == pytest.approx(1.0, rel=0.01)
    assert found.every_s == pytest.approx(0.5, rel=0.01)


def test_the_slowest_holds_up_the_others() -> None:
    """Two seconds on one core in the middle: everybody has a result every two seconds."""
    game = row(0.1, 2.0, 0.1)
    queues = Queues(game, dict.fromkeys(game.modules, 1), 5, Random(1))
    queues.arrive(0.2)
    queues.run(100)
    found = queues.run(10_000)
    for done in found.completed.values():
        assert done == pytest.approx(5_000, rel=0.02)
    assert found.busy["m1"] == pytest.approx(1.0, abs=0.01)
    assert found.busy["m0"] == pytest.approx(0.05, rel=0.05)
    assert found.every_s == pytest.approx(0.2, rel=0.02), "what comes from outside is still seen"


@settings(max_examples=40)
@given(st.integers(0, 1 << 30), st.integers(2, 12), st.integers(1, 20))
def test_no_task_is_lost_and_no_queue_too_long(seed: int, size: int, buffer: int) -> None:
    rng = Random(seed)
    game = random_game(size, rng, "a")
    names = game.graph.modules
    queues = Queues(game, {n: rng.randint(1, game.modules[n].most) for n in names}, buffer, rng)
    queues.arrive(rng.uniform(0.1, 2.0))
    came: dict[str, int] = dict.fromkeys(names, 0)
    done: dict[str, int] = dict.fromkeys(names, 0)
    for _ in range(20):
        found = queues.run(rng.uniform(1, 60))
        for name in names:
            done[name] += found.completed[name]
            assert queues.waiting(name) <= buffer
        queues.give({n: rng.randint(1, game.modules[n].most) for n in names})
        queues.arrive(rng.uniform(0.1, 2.0))
    came = {name: done[name] + queues.inside(name) for name in names}
    into = sum(came[n] for n in names if n != game.graph.source)
    sent = sum(done[n] for n in names if game.graph.onward[n]) - queues.held
    assert into == sent


def test_cores_that_are_taken_away_finish_what_they_do() -> None:
    game = row(10.0)
    queues = Queues(game, {"m0": 8}, 50, Random(1))
    queues.arrive(0.5)
    queues.run(300)
    queues.give({"m0": 2})
    assert queues.working("m0") == 8
    queues.run(60)
    assert queues.working("m0") == 2


def test_service_times_are_those_of_the_model() -> None:
    """A core of four that hold each other up takes longer for a task than one alone."""
    graph = FlowGraph("a", {})
    service = WithMinimum(4.0, 6.0)
    game = Game.of(graph, Module("a", service, 1.0, 0.01, 8))
    queues = Queues(game, {"a": 4}, 10, Random(1))
    queues.arrive(0.1)
    found = queues.run(20_000)
    assert found.completed["a"] * service.time_s(4) == pytest.approx(20_000, rel=0.02)
    assert found.running_s["a"] == pytest.approx(4.0, rel=0.02), "as long as on one core"


def test_what_cannot_be_simulated_is_refused() -> None:
    with pytest.raises(UserError, match="room for at least one"):
        Queues(row(1.0), {"m0": 1}, 0, Random(1))
    arcs = {("a", "c"): 1.0, ("b", "c"): 1.0}
    graph = FlowGraph.joined("abc", arcs, {"a": 1.0, "b": 1.0})
    modules = [Module(name, Ideal(1.0), 1.0, 0.01, 8) for name in "abc"]
    game = Game.of(graph, *modules, every_s=0.5)
    with pytest.raises(UserError, match="queues need one"):
        Queues(game, dict.fromkeys(game.modules, 1), 5, Random(1))


@pytest.mark.parametrize("every_s", [0.4, 0.6, 0.9])
def test_the_model_agrees_with_large_queues(every_s: float) -> None:
    game = object_recognition().arriving(every_s)
    cores = whole_cores(game, social_optimum(game).degrees)
    queues = Queues(game, cores, 20, Random(2))
    queues.arrive(every_s)
    queues.run(600)
    found = queues.run(12_000)
    model = game.performance(cores)
    assert found.seconds / found.completed["recognizer"] == pytest.approx(model.pace_s, rel=0.03)
    for name, efficiency in model.efficiencies.items():
        if name != game.graph.source:
            assert found.busy[name] == pytest.approx(efficiency, rel=0.05)


def test_small_queues_cost_throughput() -> None:
    """Times vary by 30 %, so that without room everybody waits for everybody now and then."""
    load = [0.5] * 6
    large, small = (with_queues(cooperative, load, 1, size) for size in (50, 1))
    assert small.agreement < large.agreement <= 1.02


def test_strategies_decide_by_what_queues_measure() -> None:
    load = [0.9] * 3 + [0.5] * 9
    alone, together = with_queues(selfish, load, 1), with_queues(cooperative, load, 1)
    assert together.completed > 1.1 * alone.completed
    assert together.cost < alone.cost
    assert together.completed == with_queues(cooperative, load, 1).completed, "a seed decides"
