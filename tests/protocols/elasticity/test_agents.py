"""Agents find what one would find who knows everything, with the messages that the paper counts."""

from __future__ import annotations

from random import Random

import pytest
from elasticity.games import games
from hypothesis import given, settings
from hypothesis import strategies as st

from australis.elasticity.equilibrium import best_equilibrium, social_optimum
from australis.elasticity.game import Game
from australis.elasticity.generate import object_recognition, random_game
from australis.elasticity.gossip import push_sum
from australis.elasticity.incentives import cooperate
from australis.elasticity.rounding import whole_cores
from australis.kernel.durations import MILLISECOND, SECOND
from australis.protocols.elasticity.events import ElasticityOptions
from australis.sim.elasticity.simulation import ElasticitySimulation
from australis.sim.network import Link

EXACT = 1e-9
SLOW = Link(latency_us=200 * MILLISECOND, jitter_us=100 * MILLISECOND)


def per_exchange(game: Game) -> int:
    """Everybody tells every neighbour something: 2 |A|."""
    return 2 * len(game.graph.arcs)


# --- everybody for itself -------------------------------------------------------------------------


@settings(max_examples=100)
@given(games(1, 12), st.integers(0, 1 << 30))
def test_agents_find_the_best_equilibrium(game: Game, seed: int) -> None:
    """Proposition 4.17, with messages that take their time."""
    floor = ElasticitySimulation(game, seed=seed)
    floor.run()
    found = best_equilibrium(game)
    assert floor.degrees() == pytest.approx(dict(found.degrees), rel=EXACT)
    assert game.performance(floor.degrees()).efficient
    ideal = {name: module.ideal_degree() for name, module in game.modules.items()}
    assert any(n == pytest.approx(ideal[name], rel=EXACT) for name, n in floor.degrees().items())
    assert len(floor.last("pace_s")) == 1


@settings(max_examples=50)
@given(games(1, 12))
def test_as_many_messages_as_the_paper_says(game: Game) -> None:
    """D times 2 |A| in a step (games 4.3)."""
    floor = ElasticitySimulation(game)
    floor.run(2)
    each = game.graph.diameter * per_exchange(game)
    assert dict(floor.messages) == ({"Proposal": 2 * each} if each else {})


def test_thirty_messages_for_figure_10() -> None:
    floor = ElasticitySimulation(object_recognition().arriving(0.3))
    floor.run()
    assert dict(floor.messages) == {"Proposal": 30}


def test_cores_are_whole_and_set_once() -> None:
    game = object_recognition().arriving(0.3)
    floor = ElasticitySimulation(game)
    floor.run(3)
    wanted = whole_cores(game, best_equilibrium(game).degrees)
    assert {name: host.settled[-1].cores for name, host in floor.hosts.items()} == wanted
    assert wanted["recognizer"] == 21
    for name, host in floor.hosts.items():
        assert host.changes == ([wanted[name]] if wanted[name] != 1 else [])
        assert [told.step for told in host.settled] == [1, 2, 3]


# --- with incentives ----------------------------------------------------------------------------------


@settings(max_examples=50)
@given(games(1, 9), st.sampled_from([0.05, 0.1, 0.3]), st.integers(2, 25))
def test_agents_cooperate_as_one_would_who_knows_everything(
    game: Game, increment: float, rounds: int
) -> None:
    floor = ElasticitySimulation(game, ElasticityOptions(rounds=rounds, increment=increment))
    floor.run()
    found = cooperate(game, increment, rounds)
    assert floor.degrees() == pytest.approx(dict(found.profile.degrees), rel=EXACT)
    assert floor.last("rounds") == {found.rounds}
    incentives = {name: host.settled[-1].incentive for name, host in floor.hosts.items()}
    assert incentives == pytest.approx(dict(found.incentives), rel=EXACT)
    for cost in floor.last("cost"):
        assert cost == pytest.approx(found.profile.cost, rel=EXACT)


@settings(max_examples=50)
@given(games(2, 9))
def test_messages_along_a_tree(game: Game) -> None:
    """In each round D times 2 |A| and up and down the tree (games 5.2)."""
    floor = ElasticitySimulation(game, ElasticityOptions(rounds=20))
    floor.run()
    (rounds,) = floor.last("rounds")
    assert isinstance(rounds, int)
    below = len(game.modules) - 1
    assert dict(floor.messages) == {
        "Proposal": rounds * game.graph.diameter * per_exchange(game),
        "Partial": rounds * below,
        "Total": rounds * below,
    }


def test_the_application_of_the_paper_cooperates() -> None:
    game = object_recognition().arriving(0.3)
    floor = ElasticitySimulation(game, ElasticityOptions(rounds=50))
    floor.run()
    assert floor.degrees() == pytest.approx(dict(social_optimum(game).degrees), rel=EXACT)
    assert floor.hosts["recognizer"].settled[-1].cores == 32


# --- push-sum ---------------------------------------------------------------------------------------------


def test_push_sum_with_fifteen_exchanges_is_within_two_percent() -> None:
    """Figure 17a, by agents; and what they learn is what is worked out without messages."""
    game = object_recognition().arriving(0.9)
    floor = ElasticitySimulation(game, ElasticityOptions(rounds=3, gossip=15))
    floor.run()
    assert floor.last("round") == {1}, "with few arrivals there is nothing to cooperate for"
    expected = push_sum(game.graph, game.costs(best_equilibrium(game).degrees), 15)
    total = best_equilibrium(game).cost
    for name, host in floor.hosts.items():
        assert host.settled[-1].cost == pytest.approx(expected[name], rel=EXACT)
        assert host.settled[-1].cost == pytest.approx(total, rel=0.02)


def test_messages_of_push_sum() -> None:
    """As many in each exchange as in each of Find-PNE; at last all say that it is enough."""
    game = object_recognition().arriving(0.9)
    floor = ElasticitySimulation(game, ElasticityOptions(rounds=9, gossip=15), Link(jitter_us=0))
    floor.run()
    assert floor.last("rounds") == {2}
    assert dict(floor.messages) == {"Proposal": 2 * 30, "Share": 2 * 150, "Enough": 10}


def test_push_sum_leads_close_to_where_a_tree_does() -> None:
    game = object_recognition().arriving(0.3)
    floor = ElasticitySimulation(game, ElasticityOptions(rounds=50, gossip=15))
    floor.run()
    assert game.total(floor.degrees()) == pytest.approx(social_optimum(game).cost, rel=0.03)


@pytest.mark.parametrize("rounds", [2, 3, 5])
def test_when_rounds_run_out_the_last_that_all_went_on_from_stands(rounds: int) -> None:
    """Whether the last one was better each would have to judge for itself."""
    game = object_recognition().arriving(0.3)
    floor = ElasticitySimulation(game, ElasticityOptions(rounds=rounds, gossip=15))
    floor.run()
    assert floor.last("rounds") == {rounds}
    assert floor.last("round") == {rounds - 1}
    found = cooperate(game, 0.1, rounds - 1)
    assert floor.degrees() == pytest.approx(dict(found.profile.degrees), rel=EXACT)


@settings(max_examples=50)
@given(games(2, 9), st.integers(1, 4), st.integers(2, 12))
def test_agents_that_estimate_badly_still_end_together(
    game: Game, gossip: int, rounds: int
) -> None:
    """One, two or three exchanges say little; all the same everybody stops in the same round."""
    floor = ElasticitySimulation(game, ElasticityOptions(rounds=rounds, gossip=gossip))
    floor.run()
    assert len(floor.last("round")) == 1
    assert len(floor.last("pace_s")) == 1
    assert game.performance(floor.degrees()).efficient
    assert game.total(floor.degrees()) >= social_optimum(game).cost * (1 - EXACT)


# --- clocks and networks -------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(games(2, 9), st.integers(0, 1 << 30))
def test_late_messages_change_nothing(game: Game, seed: int) -> None:
    """Slow links, out of order, some messages twice, and clocks that differ by up to two seconds."""
    link = Link(latency_us=300_000, jitter_us=900_000, duplicate=0.2, in_order=False)
    patient = ElasticityOptions(rounds=4, resend_us=2 * SECOND, deadline_us=250 * SECOND)
    floor = ElasticitySimulation(game, patient, link, seed, skew_us=2 * SECOND)
    floor.run()
    found = cooperate(game, 0.1, 4)
    assert floor.degrees() == pytest.approx(dict(found.profile.degrees), rel=EXACT)


def test_a_hundred_modules_on_slow_links() -> None:
    """It takes many seconds, but as long as something comes nobody asks for it."""
    game = random_game(100, Random(4))
    floor = ElasticitySimulation(game, ElasticityOptions(resend_us=SECOND), SLOW)
    floor.run()
    found = best_equilibrium(game)
    assert floor.degrees() == pytest.approx(dict(found.degrees), rel=EXACT)
    took_us = max(host.ended_us[-1] for host in floor.hosts.values()) - floor.options.step_us
    assert took_us > 4 * SECOND
    assert set(floor.messages) == {"Proposal"}
