"""Incentives move the equilibrium towards the social optimum (games 5); sums by gossip."""

from __future__ import annotations

from dataclasses import replace

import pytest
from elasticity.games import games
from hypothesis import given, settings
from hypothesis import strategies as st

from australis.elasticity.cost import Module
from australis.elasticity.equilibrium import best_equilibrium, social_optimum
from australis.elasticity.game import Game
from australis.elasticity.generate import object_recognition
from australis.elasticity.gossip import push_sum
from australis.elasticity.graph import FlowGraph
from australis.elasticity.incentives import cooperate, raised
from australis.elasticity.service import Ideal
from australis.kernel.errors import UserError
from australis.protocols.elasticity.events import ElasticityOptions
from australis.sim.elasticity.simulation import ElasticitySimulation


@settings(max_examples=100)
@given(games(1), st.floats(0.01, 1.0), st.integers(1, 60))
def test_cooperation_never_costs_more(game: Game, increment: float, rounds: int) -> None:
    found = cooperate(game, increment, rounds)
    assert found.first == best_equilibrium(game)
    assert found.profile.cost <= found.first.cost
    assert found.profile.cost >= social_optimum(game).cost * (1 - 1e-12)
    assert found.rounds <= rounds
    assert game.performance(found.profile.degrees).efficient
    assert found.profile.cost == pytest.approx(game.total(found.profile.degrees))
    for name, incentive in found.incentives.items():
        assert 0 <= incentive <= game.modules[name].core_price


@settings(max_examples=100)
@given(games(1), st.floats(0.01, 0.5))
def test_what_stands_is_the_best_equilibrium_with_its_incentives(
    game: Game, increment: float
) -> None:
    """The propositions hold for the game with incentives too (games 5.1)."""
    found = cooperate(game, increment, 40)
    again = best_equilibrium(game, found.incentives)
    assert again.degrees == pytest.approx(dict(found.profile.degrees), rel=1e-12)


def test_modules_that_are_equally_slow_up_to_an_error_of_arithmetic_are_both_paid() -> None:
    """0.1 + 0.2 is not 0.3: one of two equal branches alone would never make all together faster."""
    arcs = {
        ("s", "a"): 0.1,
        ("s", "b"): 0.2,
        ("s", "y"): 0.3,
        ("s", "z"): 0.4,
        ("a", "x"): 1.0,
        ("b", "x"): 1.0,
    }
    graph = FlowGraph("sabxyz", arcs)
    assert graph.ratios["x"] != graph.ratios["y"]
    dear = [Module(name, Ideal(20.0), 0.2, 0.02, 64) for name in "xy"]
    cheap = [Module(name, Ideal(0.1), 1.0, 0.001, 64) for name in "sabz"]
    game = Game.of(graph, *cheap, *dear, every_s=0.05)
    found = cooperate(game, 0.05, 400)
    assert best_equilibrium(game).cost > 1.05 * social_optimum(game).cost
    assert found.profile.cost == pytest.approx(social_optimum(game).cost, rel=0.02)
    floor = ElasticitySimulation(game, ElasticityOptions(newest=1.0, increment=0.05, rounds=400))
    floor.run()
    assert floor.degrees() == pytest.approx(dict(found.profile.degrees), rel=1e-9)


def test_one_round_is_everybody_for_itself() -> None:
    """Algorithm 2 as printed would apply no cores at all then."""
    game = object_recognition().arriving(0.3)
    found = cooperate(game, rounds=1)
    assert found.profile == found.first
    assert found.rounds == 1


def test_a_round_that_was_the_last_and_better_stands() -> None:
    """Algorithm 2 as printed would apply the one before."""
    game = object_recognition().arriving(0.3)
    assert cooperate(game, rounds=3).profile.cost < cooperate(game, rounds=2).profile.cost
    assert cooperate(game, rounds=2).profile.cost < cooperate(game, rounds=1).profile.cost


def test_smaller_steps_come_closer_and_take_more_rounds() -> None:
    """Figure 16, without limits that would be reached anyway."""
    given = object_recognition()
    free = {name: replace(module, most=500) for name, module in given.modules.items()}
    game = Game(given.graph, free)
    best = social_optimum(game).cost
    found = [cooperate(game, increment, 10_000) for increment in (0.4, 0.1, 0.01, 0.001)]
    over = [played.profile.cost / best - 1 for played in found]
    rounds = [played.rounds for played in found]
    assert rounds == sorted(rounds)
    assert rounds[0] < rounds[-1]
    assert over[-1] <= min(over[:-1]) + 1e-12
    assert over[-1] < 1e-4


def test_the_application_of_the_paper_reaches_its_limit() -> None:
    """With many arrivals the recognizer takes all 32 cores, and the others follow (figure 13)."""
    found = cooperate(object_recognition().arriving(0.3), 0.1, 50)
    assert found.profile.degrees["recognizer"] == pytest.approx(32)
    assert found.incentives["recognizer"] > found.incentives["edge-detector"] > 0
    assert found.incentives["denoiser-1"] == found.incentives["denoiser-2"] == 0
    assert found.profile.cost == pytest.approx(
        social_optimum(object_recognition().arriving(0.3)).cost
    )


def test_few_arrivals_need_no_incentives() -> None:
    found = cooperate(object_recognition().arriving(0.9), 0.1, 50)
    assert found.rounds == 2
    assert set(found.incentives.values()) == {0.0}
    assert found.profile == found.first


def test_an_incentive_as_high_as_the_price_takes_all_that_helps() -> None:
    module = object_recognition().modules["recognizer"]
    price = module.core_price
    assert raised(module, 0.95 * price, 0.1) == price
    assert module.ideal_degree(price) == module.ideal_degree(0.999999 * price) == 32


@pytest.mark.parametrize(("increment", "rounds"), [(0.0, 5), (-0.1, 5), (1.5, 5), (0.1, 0)])
def test_rounds_that_lead_nowhere(increment: float, rounds: int) -> None:
    with pytest.raises(UserError, match=r"'increment' is|'rounds' should be"):
        cooperate(object_recognition(), increment, rounds)


# --- push-sum -------------------------------------------------------------------------------------------


def worst(iterations: int) -> float:
    """The largest error of anybody in the paper's application, as a part of the sum."""
    game = object_recognition().arriving(0.3)
    costs = game.costs(best_equilibrium(game).degrees)
    total = sum(costs.values())
    estimates = push_sum(game.graph, costs, iterations).values()
    return max(abs(estimate / total - 1) for estimate in estimates)


def test_fifteen_exchanges_are_within_two_percent() -> None:
    """Figure 17a."""
    assert worst(15) < 0.02
    assert worst(15) < worst(5) < worst(1)


@settings(max_examples=30)
@given(games(1, 8))
def test_push_sum_ends_at_the_sum(game: Game) -> None:
    costs = game.costs(best_equilibrium(game).degrees)
    exact = pytest.approx(sum(costs.values()), rel=1e-6)
    assert all(estimate == exact for estimate in push_sum(game.graph, costs, 500).values())
