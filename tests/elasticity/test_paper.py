"""Lemmas and propositions of games 4.2 and 4.3, over random graphs and the service times of figure 3.

Degrees are at most n0 (figures 3b, 3c) and at most what a module may have.
"""

from __future__ import annotations

from random import Random

import pytest
from elasticity.games import (
    dominates,
    gain,
    games,
    ideal_degrees,
    others_s,
    some_degrees,
    wanted_paces,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from australis.elasticity.equilibrium import best_equilibrium
from australis.elasticity.game import Game
from australis.elasticity.generate import random_game

seeds = st.integers(0, 1 << 30)
NOTHING = 1e-9
"""Nobody changes its mind for such a part of what it pays."""


def some_pace(game: Game, rng: Random) -> float:
    """A pace that limits allow, mostly not far from what somebody wants."""
    slowest = max(wanted_paces(game).values())
    return rng.uniform(game.least_pace_s, 1.5 * slowest)


@settings(max_examples=100)
@given(games(), seeds)
def test_the_best_response_is_the_lesser_of_ideal_and_needed(game: Game, seed: int) -> None:
    """Whatever the others do, nothing else costs less (proposition 4.6)."""
    degrees = some_degrees(game, Random(seed))
    for name, module in game.modules.items():
        best = module.best_response(others_s(game, degrees, name))
        cost = game.costs({**degrees, name: best})[name]
        for n in range(1, 60):
            other = {**degrees, name: module.limit * n / 59}
            assert cost <= game.costs(other)[name] * (1 + NOTHING)


@settings(max_examples=100)
@given(games(), seeds)
def test_who_has_cores_to_spare_gives_them_back(game: Game, seed: int) -> None:
    """So a profile that is no efficiency vector is no equilibrium (lemma 4.8)."""
    degrees = some_degrees(game, Random(seed))
    found = game.performance(degrees)
    name = min(found.efficiencies, key=found.efficiencies.__getitem__)
    assume(found.efficiencies[name] < 0.99)
    best = game.modules[name].best_response(others_s(game, degrees, name))
    assert best < degrees[name]
    assert game.costs({**degrees, name: best})[name] < game.costs(degrees)[name]


@settings(max_examples=100)
@given(games(), seeds)
def test_best_responses_in_turn_end_in_an_equilibrium(game: Game, seed: int) -> None:
    """It is an efficiency vector (4.8) and nobody has more than its ideal number of cores (4.10)."""
    degrees = some_degrees(game, Random(seed))
    for _ in range(2):
        for name, module in game.modules.items():
            degrees[name] = module.best_response(others_s(game, degrees, name))
    assert game.performance(degrees).efficient
    assert gain(game, degrees) <= NOTHING
    ideal = ideal_degrees(game)
    assert all(degrees[name] <= ideal[name] for name in degrees)


@settings(max_examples=100)
@given(games(), seeds)
def test_efficiency_vectors_up_to_the_ideal_are_equilibria_and_no_others(
    game: Game, seed: int
) -> None:
    """Propositions 4.9 and 4.10."""
    pace_s = some_pace(game, Random(seed))
    degrees, ideal = game.at_pace(pace_s), ideal_degrees(game)
    assert game.performance(degrees).efficient
    if all(degrees[name] <= ideal[name] * (1 + NOTHING) for name in degrees):
        assert gain(game, degrees) <= NOTHING
    elif any(degrees[name] > ideal[name] * 1.05 for name in degrees):
        assert gain(game, degrees) > NOTHING


@settings(max_examples=100)
@given(games(), seeds)
def test_pareto_optimal_profiles_are_efficiency_vectors(game: Game, seed: int) -> None:
    """What is none is dominated by the one of the same pace (lemma 4.12)."""
    degrees = some_degrees(game, Random(seed))
    found = game.performance(degrees)
    assume(min(found.efficiencies.values()) < 0.99)
    assert dominates(game, game.at_pace(found.pace_s), degrees)


@settings(max_examples=100)
@given(games(), seeds)
def test_efficiency_vectors_are_in_order(game: Game, seed: int) -> None:
    """Of two, one has more cores everywhere (lemma 4.13); the pace says which."""
    rng = Random(seed)
    one, other = sorted((some_pace(game, rng), some_pace(game, rng)))
    assume(other > one * 1.001)
    fast, slow = game.at_pace(one), game.at_pace(other)
    assert all(fast[name] > slow[name] for name in fast)
    for degrees, pace_s in ((fast, one), (slow, other)):
        assert game.performance(degrees).pace_s == pytest.approx(pace_s, rel=1e-9)


@settings(max_examples=100)
@given(games(), seeds)
def test_pareto_optimal_is_what_is_neither_all_below_nor_all_above_the_ideal(
    game: Game, seed: int
) -> None:
    """Proposition 4.14, and that nothing else is."""
    rng = Random(seed)
    pace_s = some_pace(game, rng)
    wanted = wanted_paces(game).values()
    assume(all(abs(pace_s / pace - 1) > 1e-3 for pace in wanted))
    degrees = game.at_pace(pace_s)
    rivals = [some_pace(game, rng) for _ in range(40)]
    rivals += [pace for pace in wanted if pace >= game.least_pace_s]
    dominated = [rival for rival in rivals if dominates(game, game.at_pace(rival), degrees)]
    if min(wanted) <= pace_s <= max(wanted):
        assert not dominated
        assert not any(dominates(game, some_degrees(game, rng), degrees) for _ in range(20))
    else:
        assert dominated


@settings(max_examples=100)
@given(games(), seeds)
def test_the_best_equilibrium_is_pareto_optimal(game: Game, seed: int) -> None:
    """It is one, somebody has its ideal number of cores, and nothing dominates it (4.15)."""
    rng = Random(seed)
    found = best_equilibrium(game)
    ideal = ideal_degrees(game)
    assert game.performance(found.degrees).efficient
    assert gain(game, dict(found.degrees)) <= NOTHING
    assert any(found.degrees[name] == pytest.approx(ideal[name], rel=1e-9) for name in ideal)
    paces = [some_pace(game, rng) for _ in range(30)]
    # Who is at its best loses next to nothing where the pace hardly differs.
    rivals = [game.at_pace(pace) for pace in paces if abs(pace / found.pace_s - 1) > 1e-3]
    rivals += [some_degrees(game, rng) for _ in range(20)]
    assert not any(dominates(game, rival, dict(found.degrees)) for rival in rivals)
    assert found.cost == pytest.approx(game.total(found.degrees))


@settings(max_examples=100)
@given(games(), st.floats(1.001, 3.0))
def test_no_other_equilibrium_is_pareto_optimal(game: Game, slower: float) -> None:
    """All of them are slower, and dominated by the best (4.16)."""
    best = best_equilibrium(game)
    other = game.at_pace(best.pace_s * slower)
    assert gain(game, other) <= NOTHING
    assert dominates(game, dict(best.degrees), other)


def find_pne(game: Game) -> dict[str, float]:
    """Function 1 word for word: service times go to neighbours, as often as the graph is wide."""
    graph, modules = game.graph, game.modules
    degrees = ideal_degrees(game)
    for _ in range(graph.diameter):
        times = {name: m.service.time_s(degrees[name]) for name, m in modules.items()}
        for name, module in modules.items():
            heard = [
                times[j] * graph.ratios[j] / graph.ratios[name] for j in graph.neighbours[name]
            ]
            degrees[name] = module.best_response(max(heard))
    return degrees


@settings(max_examples=100)
@given(games(2, 20))
def test_find_pne_finds_it(game: Game) -> None:
    """Proposition 4.17."""
    assert find_pne(game) == pytest.approx(dict(best_equilibrium(game).degrees), rel=1e-9)


def test_one_module_alone_has_one_equilibrium() -> None:
    """Proposition 4.9 needs two modules: nobody holds this one up, so fewer cores are no equilibrium."""
    game = random_game(1, Random(3))
    (module,) = game.modules.values()
    best = best_equilibrium(game)
    assert module.best_response(0.0) == module.ideal_degree()
    assert best.degrees[module.name] == pytest.approx(module.ideal_degree())
    fewer = {module.name: module.ideal_degree() / 2}
    assert game.performance(fewer).efficient
    assert game.total(fewer) > best.cost
