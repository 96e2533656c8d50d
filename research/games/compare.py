"""The game beside other strategies and the optimum, on the same loads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from australis.elasticity.game import Game
from australis.elasticity.generate import object_recognition
from australis.elasticity.inertia import Inertia
from australis.elasticity.rounding import Rounding
from research.games.control import Played, Strategy
from research.games.rivals import Static, Target, Threshold, TrueRates
from research.games.strategies import Playing
from research.games.trial import ROUNDS, in_model, optimum, repetition
from research.games.workloads import WORKLOADS

Make = Callable[[Game, Sequence[float]], Strategy]
THRESHOLDS = tuple(
    (high, low, by)
    for high, low, by in product(
        (0.8, 0.9, 0.97, 0.99, 0.995), (0.4, 0.5, 0.6, 0.7, 0.85), (0.05, 0.1, 0.25)
    )
)
"""The bounds and steps of threshold scaling, of which the best for the given loads is used."""
STIFF = Inertia(cost=0.05, steps=5.0, slack=0.02)

OURS: dict[str, tuple[Make, bool]] = {
    "cooperative, arrivals known": (lambda g, _: Playing(g, ROUNDS, newest=1.0), True),
    "cooperative, estimated": (lambda g, _: Playing(g, ROUNDS), False),
    "cooperative, to nearest": (
        lambda g, _: Playing(g, ROUNDS, rounding=Rounding.NEAREST),
        False,
    ),
    "cooperative, hysteresis": (lambda g, _: Playing(g, ROUNDS, inertia=STIFF), False),
    "selfish, estimated": (lambda g, _: Playing(g), False),
}
RIVALS: dict[str, tuple[Make, bool]] = {
    "true rates (DS2)": (lambda g, _: TrueRates(g), False),
    "target 0.7 (Flink)": (lambda g, _: Target(g), False),
    "static, peak": (Static.peak, False),
    "static, mean": (Static.mean, False),
}


@dataclass(frozen=True)
class Beside:
    """The outcome of one strategy, over all repetitions."""

    name: str
    cost: float
    """The cost relative to the integer optimum."""
    lost: float
    """The part of the arriving tasks that was not completed."""
    cores: float
    """The mean number of cores of all modules."""
    changes: float
    """The changes of cores per repetition."""


def priced(factor: float) -> Game:
    """The paper's application with the price of cores multiplied by a factor."""
    game = object_recognition()
    modules = {
        name: replace(module, core_price=factor * module.core_price)
        for name, module in game.modules.items()
    }
    return Game(game.graph, modules)


def beside(seeds: Sequence[int], factor: float = 1.0) -> list[Beside]:
    """Run every strategy on all loads."""
    game = priced(factor)
    loads = {
        (workload.name, seed): repetition(workload, seed)
        for workload in WORKLOADS
        for seed in seeds
    }
    best = {key: optimum(load, game) for key, load in loads.items()}
    bounds = _best_thresholds(game, loads, seeds)
    ways = OURS | RIVALS | {f"threshold, best of {len(THRESHOLDS)} settings": (bounds, False)}
    found = [_sum("integer optimum", list(best.values()), loads, best)]
    for name, (make, known) in ways.items():
        played = [in_model(make, load, key[1], known, game) for key, load in loads.items()]
        found.append(_sum(name, played, loads, best))
    return found


def _best_thresholds(
    game: Game, loads: dict[tuple[str, int], list[float]], seeds: Sequence[int]
) -> Make:
    """The bounds with which threshold scaling costs least, by the first repetition."""
    first = [load for (_, seed), load in loads.items() if seed == seeds[0]]

    def cost(bounds: tuple[float, float, float]) -> float:
        return sum(in_model(_threshold(bounds), load, 0, game=game).cost for load in first)

    return _threshold(min(THRESHOLDS, key=cost))


def _threshold(bounds: tuple[float, float, float]) -> Make:
    return lambda game, load: Threshold(game, *bounds)


def _sum(
    name: str,
    played: Sequence[Played],
    loads: dict[tuple[str, int], list[float]],
    best: dict[tuple[str, int], Played],
) -> Beside:
    came = sum(1 / every_s for load in loads.values() for every_s in load)
    done = sum(1 / pace_s for one in played for pace_s in one.paces_s)
    steps = sum(len(load) for load in loads.values())
    return Beside(
        name,
        sum(one.cost for one in played) / sum(one.cost for one in best.values()),
        1 - done / came,
        sum(sum(cores.values()) for one in played for cores in one.cores) / steps,
        sum(sum(one.changes().values()) for one in played) / len(played),
    )
