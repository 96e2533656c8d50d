"""Control steps: a strategy decides how many cores modules have, and the model computes the result.

load = CYCLIC.times_s(Random(1))
played = play(object_recognition(), load, Playing(object_recognition()), Random(2))
played.cost, played.completed, played.changes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from random import Random
from typing import Protocol

from australis.elasticity.game import Game

STEP_S = 300.0
SPREAD = 0.3
"""The standard deviation of times, as a fraction of the mean (games 6.1)."""

Cores = Mapping[str, int]


@dataclass(frozen=True)
class Seen:
    """What a strategy knows when a control step begins, measured in the step before."""

    every_s: float
    """The mean time between two tasks that enter the graph."""
    running_s: Mapping[str, float]
    """The time a task took on one core, by module."""
    busy: Mapping[str, float]
    """The fraction of the time in which a module's cores worked."""
    cores: Cores
    """The cores that modules have; empty before the first step."""


class Strategy(Protocol):
    """A strategy that decides how many cores each module has."""

    def decide(self, seen: Seen) -> dict[str, int]:
        """The cores of each module in the step that begins."""
        ...


@dataclass
class Played:
    """The results of a sequence of control steps."""

    cores: list[Cores] = field(default_factory=list)
    paces_s: list[float] = field(default_factory=list)
    costs: list[Mapping[str, float]] = field(default_factory=list)
    """The cost of each module, step by step."""
    efficiencies: list[Mapping[str, float]] = field(default_factory=list)

    def add(self, game: Game, cores: Cores) -> Mapping[str, float]:
        """Add one step by the model; return the fraction of time each module was busy."""
        performance = game.performance(cores)
        departures_s = performance.departures_s
        self.cores.append(cores)
        self.paces_s.append(performance.pace_s)
        self.costs.append(
            {name: m.cost(cores[name], departures_s[name]) for name, m in game.modules.items()}
        )
        self.efficiencies.append(performance.efficiencies)
        return performance.efficiencies

    @property
    def cost(self) -> float:
        """The total cost of all modules, for cores and for delay."""
        return sum(sum(one.values()) for one in self.costs)

    def completed(self, step_s: float = STEP_S) -> float:
        """The number of tasks completed."""
        return sum(step_s / pace_s for pace_s in self.paces_s)

    def changes(self) -> dict[str, int]:
        """The number of times the cores of each module changed."""
        found = dict.fromkeys(self.cores[0], 0)
        for before, after in zip(self.cores, self.cores[1:], strict=False):
            for name, cores in after.items():
                found[name] += cores != before[name]
        return found

    def efficiency(self, name: str) -> float:
        """The mean efficiency of a module."""
        return sum(one[name] for one in self.efficiencies) / len(self.efficiencies)


def play(
    game: Game, load: Sequence[float], strategy: Strategy, rng: Random, known: bool = False
) -> Played:
    """Decide step by step for a load, given as the mean time between two tasks in each step.

    Strategies see the measurements of the step before, with the error of a mean over its tasks;
    with `known` they see the true values of the step that begins.
    """
    played = Played()
    running_s = {name: module.service.running_s for name, module in game.modules.items()}
    busy = dict.fromkeys(game.modules, 1.0)
    seen = Seen(load[0], running_s, busy, {})
    for step, every_s in enumerate(load):
        if known:
            seen = Seen(every_s, running_s, busy, seen.cores)
        cores = strategy.decide(seen)
        truth = game.arriving(every_s)
        busy = dict(played.add(truth, cores))
        seen = measured(game, every_s, played.paces_s[step], busy, cores, rng)
    return played


def measured(
    game: Game, every_s: float, pace_s: float, busy: Mapping[str, float], cores: Cores, rng: Random
) -> Seen:
    """The measurements of a step: means over the number of its tasks."""

    def mean(value_s: float, tasks: float) -> float:
        return value_s * (1 + rng.gauss(0, SPREAD) / sqrt(max(1.0, tasks)))

    tasks = STEP_S / pace_s
    running_s = {
        name: mean(module.service.running_s, tasks * game.graph.ratios[name])
        for name, module in game.modules.items()
    }
    return Seen(mean(every_s, STEP_S / every_s), running_s, busy, cores)
