"""Repetitions that the experiments on elasticity share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf, sqrt
from statistics import NormalDist, fmean, stdev
from typing import Any

from australis.elasticity.equilibrium import stability
from australis.elasticity.generate import object_recognition
from research.claims import Progress
from research.games.control import Played
from research.games.strategies import Playing
from research.games.trial import ROUNDS, in_model, load_named, repetition
from research.games.workloads import WORKLOADS, Workload

REPETITIONS = 100
QUICK = 4
SHOWN = ("denoiser-1", "denoiser-2", "edge-detector", "recognizer")
"""The modules of table IV."""
STRATEGIES = ("selfish", "cooperative")
DEVIATIONS = (
    "The loads of figure 12 are not in the stored text. They are curves that cross the pace of the best"
    " equilibrium where the prose says, fitted to tables IV and V (`elasticity.workloads` says how).",
    "What agents measure has the error of a mean of as many normally distributed times as there are"
    " tasks in a step, with a standard deviation of 30 %; estimates are EWMA with a weight of 0.3, which"
    " the paper does not give.",
    "Numbers of cores are rounded up.",
)


@dataclass(frozen=True)
class Totals:
    """The figures kept of a repetition."""

    cost: float
    completed: float
    changes: Mapping[str, int]
    efficiencies: Mapping[str, float]
    rounds: float
    """The mean number of rounds per step."""
    beside: float
    """The mean cost of a step, relative to the social optimum."""
    stability: float
    """The mean price of stability: that of the best equilibrium with fractional cores, whichever
    strategy is played.
    """


@dataclass(frozen=True)
class Repetition:
    """Both strategies on one load."""

    selfish: Totals
    cooperative: Totals
    same: float
    """Of the steps in which both strategies should decide the same, the part in which they do."""
    elsewhere: float
    """Of the other steps, the part in which they decide the same."""

    def __getitem__(self, strategy: str) -> Totals:
        return {"selfish": self.selfish, "cooperative": self.cooperative}[strategy]


def totals(played: Played, strategy: Playing, load: Sequence[float]) -> Totals:
    """Sums and means over all steps."""
    game = object_recognition()
    known = [stability(game.arriving(every_s)) for every_s in load]
    paid = [sum(one.values()) for one in played.costs]
    return Totals(
        played.cost,
        played.completed(),
        played.changes(),
        {name: played.efficiency(name) for name in game.modules},
        fmean(outcome.rounds for outcome in strategy.outcomes),
        fmean(cost / one.optimum.cost for cost, one in zip(paid, known, strict=True)),
        fmean(one.price for one in known),
    )


def both(workload: Workload, seed: int) -> tuple[Played, Played, list[Playing], list[float]]:
    """Both strategies on the load of one repetition."""
    load = repetition(workload, seed)
    made: list[Playing] = []

    def make(rounds: int) -> Played:
        strategy = Playing(object_recognition(), rounds=rounds)
        made.append(strategy)
        return in_model(lambda game, _: strategy, load, seed)

    return make(1), make(ROUNDS), made, load


def one(name: str, seed: int) -> Repetition:
    """A repetition of a load."""
    workload = load_named(name)
    selfish, cooperative, (first, second), load = both(workload, seed)
    inside: list[bool] = []
    outside: list[bool] = []
    for step, (a, b) in enumerate(zip(selfish.cores, cooperative.cores, strict=True)):
        here = any(begin <= step < end for begin, end in workload.same)
        (inside if here else outside).append(a == b)
    return Repetition(
        totals(selfish, first, load),
        totals(cooperative, second, load),
        fmean(inside),
        fmean(outside),
    )


def repeated(quick: bool, progress: Progress) -> dict[str, list[Repetition]]:
    """All repetitions of all loads."""
    seeds = range(QUICK if quick else REPETITIONS)
    return {
        workload.name: many(partial(one, workload.name), seeds, progress, workload.name)
        for workload in WORKLOADS
    }


def many(
    what: Callable[[Any], Any], items: Iterable[Any], progress: Progress, name: str
) -> list[Any]:
    """Apply a function to many arguments, on all cores."""
    todo = list(items)
    found: list[Any] = []
    with ProcessPoolExecutor(max_workers=min(os.cpu_count() or 1, len(todo))) as pool:
        for result in pool.map(what, todo):
            found.append(result)
            progress(f"{name}: {len(found)} of {len(todo)}")
    return found


def mean_of(values: Iterable[float]) -> tuple[float, float]:
    """The mean and the half-width of its confidence interval (95 %, Student's t); unknown for a
    single value.

    >>> mean_of([2.0, 2.0, 2.0])
    (2.0, 0.0)
    """
    found = list(values)
    if len(found) < 2:
        return fmean(found), inf
    return fmean(found), student(len(found) - 1) * stdev(found) / sqrt(len(found))


def student(freedom: int) -> float:
    """The number of standard errors that cover 95 % of Student's distribution, by its expansion
    around the normal one; within 1 % from four degrees of freedom on.

    >>> round(student(9), 2), round(student(99), 2)
    (2.26, 1.98)
    """
    z = NormalDist().inv_cdf(0.975)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def shown(values: Iterable[float], digits: int = 1) -> str:
    """The mean with its confidence interval, formatted for reading."""
    mean, error = mean_of(values)
    return f"{mean:,.{digits}f}" + (f" ± {error:,.{digits}f}" if error < inf else "")
