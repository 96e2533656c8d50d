"""Games and profiles for tests, made from seeds."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

from australis.elasticity.game import Game
from australis.elasticity.generate import random_game

KINDS = ("a", "b", "c", "abc")
"""Service times like those of figures 3a to 3c, alone and together."""


def games(least: int = 2, most: int = 10) -> st.SearchStrategy[Game]:
    """Games of some modules, with arrivals or without; deviations are about two at least."""
    return st.builds(
        _game,
        st.integers(0, 1 << 30),
        st.integers(least, most),
        st.sampled_from(KINDS),
        st.none() | st.floats(0.01, 2.0),
    )


def _game(seed: int, size: int, kinds: str, every_s: float | None) -> Game:
    game = random_game(size, Random(seed), kinds)
    return game if every_s is None else game.arriving(every_s)


def some_degrees(game: Game, rng: Random) -> dict[str, float]:
    """Any profile, as far as cores help."""
    return {n: rng.uniform(0.05, 1.0) * m.limit for n, m in game.modules.items()}


def ideal_degrees(game: Game) -> dict[str, float]:
    """What everybody would choose alone."""
    return {name: module.ideal_degree() for name, module in game.modules.items()}


def wanted_paces(game: Game) -> dict[str, float]:
    """The pace that everybody would choose alone."""
    return dict(game.performance(ideal_degrees(game)).paces_s)


def others_s(game: Game, degrees: dict[str, float], name: str) -> float:
    """The least time between two results that the others leave a module (expression 11)."""
    paces = game.performance(degrees).paces_s
    return max(pace for other, pace in paces.items() if other != name) / game.graph.ratios[name]


def gain(game: Game, degrees: dict[str, float]) -> float:
    """What somebody could save at most by changing its mind alone, as a part of what it pays.

    It tries many numbers of cores, those of proposition 4.6 among them.
    """
    costs = game.costs(degrees)
    best = 0.0
    for name, module in game.modules.items():
        tried = {module.ideal_degree(), module.needed_degree(others_s(game, degrees, name))}
        tried |= {module.limit * n / 40 for n in range(1, 41)}
        for degree in tried:
            new = game.costs({**degrees, name: degree})[name]
            best = max(best, (costs[name] - new) / costs[name])
    return best


def dominates(game: Game, degrees: dict[str, float], other: dict[str, float]) -> bool:
    """Whether nobody pays more than with the other profile, and somebody less (definition 4.11)."""
    mine, theirs = game.costs(degrees), game.costs(other)
    exact = 1e-9
    no_worse = all(mine[name] <= cost * (1 + exact) for name, cost in theirs.items())
    return no_worse and any(mine[name] < cost * (1 - exact) for name, cost in theirs.items())
