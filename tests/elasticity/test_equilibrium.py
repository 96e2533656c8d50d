"""Where games end: the social optimum, whole cores, and the price of stability."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random

import pytest
from elasticity.games import games, some_degrees, wanted_paces
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from australis.elasticity import equilibrium
from australis.elasticity.cost import Module, virtual_source
from australis.elasticity.equilibrium import (
    best_equilibrium,
    integer_optimum,
    social_optimum,
    stability,
)
from australis.elasticity.game import Game
from australis.elasticity.generate import object_recognition, random_game
from australis.elasticity.graph import FlowGraph
from australis.elasticity.rounding import Rounding, whole, whole_cores
from australis.elasticity.service import Ideal, Saturating, WithMinimum
from australis.kernel.errors import UserError

seeds = st.integers(0, 1 << 30)


@settings(max_examples=100)
@given(games(1), seeds)
def test_nothing_costs_less_than_the_social_optimum(game: Game, seed: int) -> None:
    rng = Random(seed)
    best = social_optimum(game)
    assert best.cost == pytest.approx(game.total(best.degrees))
    assert game.performance(best.degrees).efficient
    for _ in range(30):
        assert best.cost <= game.total(some_degrees(game, rng)) * (1 + 1e-9)
        pace_s = best.pace_s * rng.uniform(0.9, 1.1)
        if pace_s >= game.least_pace_s:
            assert best.cost <= game.total(game.at_pace(pace_s)) * (1 + 1e-12)


@settings(max_examples=100)
@given(games(1))
def test_the_social_optimum_is_no_slower_than_the_equilibrium(game: Game) -> None:
    """It lies between what the fastest and the slowest would choose alone, as far as limits allow."""
    found = stability(game)
    paces = wanted_paces(game).values()
    assert found.optimum.pace_s <= found.equilibrium.pace_s * (1 + 1e-12)
    assert found.optimum.pace_s >= max(min(paces), game.least_pace_s) * (1 - 1e-9)
    assert found.price >= 1 - 1e-12
    assert found.reported == pytest.approx(1 / found.price)


@settings(max_examples=100)
@given(seeds, st.integers(1, 10), st.sampled_from(["a", "b", "ab"]))
def test_bisection_finds_what_the_closed_form_says(seed: int, size: int, kinds: str) -> None:
    game = random_game(size, Random(seed), kinds)
    closed = max(equilibrium._closed_form_s(game), game.least_pace_s)
    assert equilibrium._bisected_s(game) == pytest.approx(closed, rel=1e-12)


@settings(max_examples=100)
@given(games(1))
def test_scipy_finds_nothing_better(game: Game) -> None:
    best = social_optimum(game)
    low, high = game.least_pace_s, 4 * max(wanted_paces(game).values())
    found = optimize.minimize_scalar(
        lambda pace_s: game.total(game.at_pace(pace_s)),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-10 * low},
    )
    assert best.cost <= found.fun * (1 + 1e-12)
    assert best.cost == pytest.approx(found.fun, rel=1e-6)


def test_the_optimum_of_table_iii_by_hand() -> None:
    """Without limits 3.5 x + 0.409 / x is least at 0.342 s; with them the recognizer has 32 cores."""
    found = stability(object_recognition().arriving(0.3))
    assert found.optimum.pace_s == pytest.approx(14.44 / 32)
    assert found.optimum.degrees["edge-detector"] == pytest.approx(7.8 * 32 / 14.44)
    assert found.equilibrium.pace_s == pytest.approx(14.44 / 20.197, rel=1e-4)
    assert found.price == pytest.approx(1.24, abs=0.01)


def test_slow_arrivals_leave_nothing_to_cooperate_for() -> None:
    found = stability(object_recognition().arriving(0.9))
    assert found.equilibrium.pace_s == found.optimum.pace_s == pytest.approx(0.9)
    assert found.price == pytest.approx(1.0)


# --- whole cores ------------------------------------------------------------------------------------


def small(seed: int) -> Game:
    """A game small enough to try everything."""
    rng = Random(seed)
    graph = FlowGraph("abcd", {("a", "b"): 0.3, ("a", "c"): 0.7, ("b", "d"): 1.0, ("c", "d"): 1.0})
    modules = []
    for name in "abcd":
        time_s = rng.uniform(0.1, 4.0)
        kinds = (Ideal(time_s), Saturating(time_s, rng.uniform(1, 6)))
        service = rng.choice((*kinds, WithMinimum(time_s, rng.uniform(1, 6))))
        prices = rng.uniform(0.1, 1.0), rng.uniform(0.01, 0.3)
        modules.append(Module(name, service, *prices, rng.randint(1, 6)))
    return Game.of(graph, *modules, every_s=rng.choice((0.01, 0.8)))


@pytest.mark.parametrize("seed", range(30))
def test_the_integer_optimum_is_what_trying_everything_finds(seed: int) -> None:
    game = small(seed)
    tried = product(*(range(1, module.most + 1) for module in game.modules.values()))
    best = min(game.total(dict(zip(game.modules, degrees, strict=True))) for degrees in tried)
    found = integer_optimum(game)
    assert found.cost == pytest.approx(best, rel=1e-12)
    assert all(isinstance(degree, int) for degree in found.degrees.values())


@settings(max_examples=100)
@given(games(1, 30))
def test_whole_cores_cost_no_less_than_parts(game: Game) -> None:
    found = integer_optimum(game)
    rounded = whole_cores(game, social_optimum(game).degrees)
    assert found.cost <= game.total(rounded) * (1 + 1e-12)
    assert social_optimum(game).cost <= found.cost * (1 + 1e-9)


def test_a_thousand_modules() -> None:
    game = random_game(1_000, Random(5), "abc")
    found = integer_optimum(game)
    assert social_optimum(game).cost <= found.cost
    assert found.cost <= game.total(whole_cores(game, social_optimum(game).degrees)) * (1 + 1e-12)


@settings(max_examples=100)
@given(games(1))
def test_rounding_up_slows_nobody_down(game: Game) -> None:
    found = best_equilibrium(game)
    up = whole_cores(game, found.degrees)
    fastest = {name: max(1, round(module.limit)) for name, module in game.modules.items()}
    slowest = max(found.pace_s, game.performance(fastest).pace_s)
    assert game.performance(up).pace_s <= slowest * (1 + 1e-8)
    assert all(1 <= up[name] <= module.most for name, module in game.modules.items())


def test_rounding() -> None:
    module = Module("m", Ideal(1.0), 1.0, 1.0, 40)
    assert whole(module, 20.2) == 21
    assert whole(module, 14.8) == 15
    assert whole(module, 20.2, Rounding.NEAREST) == 20
    assert whole(module, 14.8, Rounding.NEAREST) == 15
    assert whole(module, 3 + 1e-12) == 3, "an error of arithmetic is no core"
    assert whole(module, 0.1) == whole(module, 0.1, Rounding.NEAREST) == 1
    assert whole(module, 1e-12) == 1, "next to none is one"
    slower = Module("m", WithMinimum(10.0, 2.1), 1.0, 1.0, 40)
    assert whole(slower, 2.1) == 2, "three cores take longer than two"


def test_table_iii_in_whole_cores() -> None:
    game = object_recognition()
    found = whole_cores(game, {name: m.ideal_degree() for name, m in game.modules.items()})
    assert (found["recognizer"], found["edge-detector"]) == (21, 15)


# --- several sources ----------------------------------------------------------------------------------


def test_a_virtual_source_costs_nothing_and_sets_the_pace() -> None:
    graph = FlowGraph.joined(
        "abc", {("a", "c"): 1.0, ("b", "c"): 1.0}, {"a": 3.0, "b": 1.0}, name="both"
    )
    modules = [Module(name, Ideal(1.0), 1.0, 0.001, 50) for name in "abc"]
    game = Game.of(graph, *modules, every_s=0.25)
    for found in (best_equilibrium(game), social_optimum(game)):
        assert found.pace_s == 0.25
        assert dict(found.degrees) == pytest.approx({"a": 3.0, "b": 1.0, "c": 4.0, "both": 0.0})
        assert game.costs(found.degrees)["both"] == 0.0
    assert whole_cores(game, best_equilibrium(game).degrees)["both"] == 0
    assert integer_optimum(game).degrees == {"a": 3, "b": 1, "c": 4, "both": 0}
    assert game.arriving(0.5).modules["both"] == virtual_source("both", 0.5)


# --- mistakes ------------------------------------------------------------------------------------------


def module(**changed: float) -> Module:
    given = {"delay_price": 1.0, "core_price": 1.0, "most": 4, **changed}
    return Module("edges", Ideal(1.0), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: module(core_price=0.0), "'edges' has a price for a core of 0, not above 0"),
        (lambda: module(delay_price=0.0), "'edges' has a price for delay of 0, not above 0"),
        (lambda: module(most=0), "'edges' may have 0 cores, not at least 1"),
        (lambda: module(most=0.5), "'edges' may have 0.5 cores, not at least 1"),
        (lambda: module(period=0.0), "'edges' has a control step of 0, not above 0"),
        (lambda: module(fixed=-1.0), "'edges' has a fixed cost of -1, below 0"),
        (
            lambda: Game.of(FlowGraph(["edges", "b"], {("edges", "b"): 1.0}), module()),
            "'b' is in the graph, but nothing is said of its costs",
        ),
        (
            lambda: Game.of(FlowGraph("a", {}), Module("a", Ideal(1.0), 1, 1, 1), module()),
            "'edges' has costs but is not in the graph",
        ),
        (
            lambda: Game.of(FlowGraph.joined(["edges"], {}, {"edges": 1.0}), module()),
            "'\\(sources\\)' joins several sources: say how often tasks come",
        ),
    ],
)
def test_games_that_cannot_be(make: Callable[[], object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        make()
