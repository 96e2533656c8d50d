"""Random graphs of many sizes, beside the social and the integer optimum."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean

from australis.elasticity.equilibrium import (
    best_equilibrium,
    integer_optimum,
    social_optimum,
)
from australis.elasticity.game import Game
from australis.elasticity.generate import random_game
from australis.elasticity.incentives import cooperate
from australis.elasticity.rounding import whole_cores
from research.claims import Claim, Table, own_claim
from research.games.beyond.common import EXACT, INCREMENT, NEAR, ROUNDS
from research.predicates import at_least, at_most

UNLIMITED = 1_000_000


@dataclass(frozen=True)
class OneGame:
    """One random game."""

    stability: float
    """The cost of the best equilibrium, relative to the social optimum."""
    selfish: float
    """The cost with whole cores, relative to the integer optimum."""
    cooperative: float
    """The same ratio with incentives."""
    rounds: int
    step_ms: float


@dataclass(frozen=True)
class Size:
    """Random games of one kind and size."""

    what: str
    games: tuple[OneGame, ...]

    def mean(self, what: str) -> float:
        """The mean of a figure over all games."""
        return fmean(getattr(game, what) for game in self.games)

    def most(self, what: str) -> float:
        """The largest value of a figure over all games."""
        return float(max(getattr(game, what) for game in self.games))


def made(size: int, seed: int, spread: float = 1.0, free: bool = False) -> Game:
    """A random game with arrivals, and prices that differ by at most this factor both ways.

    Modules have service times like figures 3a to 3c and limits; or, if they are `free`, no limits
    and linear speedup: then nothing but prices and arrivals matters.
    """
    rng = Random(f"{size} {seed} {spread}")
    game = random_game(size, rng, "a" if free else "abc")
    modules = {
        name: replace(
            module,
            core_price=module.core_price * spread ** rng.uniform(-1, 1),
            delay_price=module.delay_price * spread ** rng.uniform(-1, 1),
            most=UNLIMITED if free else module.most,
        )
        for name, module in game.modules.items()
    }
    game = Game(game.graph, modules)
    return game.arriving(best_equilibrium(game).pace_s * rng.uniform(0.3, 1.7))


def measure_one(size: int, spread: float, free: bool, seed: int) -> OneGame:
    game = made(size, seed, spread, free)
    began = time.process_time()
    played = cooperate(game, INCREMENT, ROUNDS)
    cores = whole_cores(game, played.profile.degrees)
    took_ms = (time.process_time() - began) * 1e3
    alone = whole_cores(game, played.first.degrees)
    best = integer_optimum(game).cost
    return OneGame(
        played.first.cost / social_optimum(game).cost,
        game.total(alone) / best,
        game.total(cores) / best,
        played.rounds,
        took_ms,
    )


def kinds(sizes: Sequence[int]) -> list[tuple[str, int, float, bool]]:
    """The kinds of games: name, modules, price factor, and whether speedup is unlimited."""
    return [
        *((f"{size:,} modules, with limits", size, 1.0, False) for size in sizes),
        *((f"{size:,} modules, prices alone", size, 1.0, True) for size in sizes),
        ("50 modules, prices differ a hundredfold", 50, 10.0, True),
    ]


def size_claims(sizes: list[Size]) -> list[Claim]:
    worst = max(sizes, key=lambda size: size.mean("cooperative"))
    games = [game for size in sizes for game in size.games]
    least = min(game.stability for game in games)
    return [
        own_claim(
            f"Cost with incentives, whole cores, times the integer optimum: the worst mean"
            f" ({worst.what})",
            worst.mean("cooperative"),
            at_most(NEAR),
        ),
        own_claim(
            f"Price of stability, which is at least 1 by definition: the least of {len(games)} random"
            " games, less 1",
            least - 1,
            at_least(-EXACT),
        ),
    ]


def size_table(sizes: list[Size]) -> Table:
    rows = tuple(
        (
            size.what,
            len(size.games),
            round(size.mean("stability"), 3),
            round(size.most("stability"), 3),
            round(size.mean("selfish"), 3),
            round(size.mean("cooperative"), 4),
            round(size.most("cooperative"), 4),
            round(size.mean("rounds")),
            round(size.mean("step_ms"), 2),
        )
        for size in sizes
    )
    columns = (
        *("graphs", "games", "price of stability", "most", "selfish", "cooperative", "most"),
        *("rounds", "ms a step"),
    )
    return Table("Random graphs: cost with whole cores, times the integer optimum", columns, rows)
