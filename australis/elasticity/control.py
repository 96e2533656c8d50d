"""Control steps one after the other: somebody decides how many cores modules have, and the model says
what comes of it.

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
"""The standard deviation of times, as a part of the mean (games 6.1)."""

Cores = Mapping[str, int]


@dataclass(frozen=True)
class Seen:
    """What is known when a control step begins."""

    every_s: float
    """The mean time between two tasks that come from outside,"""
    running_s: Mapping[str, float]
    """how long a task took on one core, by module,"""
    busy: Mapping[str, float]
    """and how much of the time cores worked: all of the step before."""
    cores: Cores
    """What modules have; none before the first step."""


class Strategy(Protocol):
    """Somebody who decides."""

    def decide(self, seen: Seen) -> dict[str, int]:
        """The cores of each module in the step that begins."""
        ...


@dataclass
class Played:
    """What came of it."""

    cores: list[Cores] = field(default_factory=list)
    paces_s: list[float] = field(default_factory=list)
    costs: list[Mapping[str, float]] = field(default_factory=list)
    """What each module paid, step by step."""
    efficiencies: list[Mapping[str, float]] = field(default_factory=list)

    def add(self, game: Game, cores: Cores) -> Mapping[str, float]:
        """One more step, by the model; how busy modules were."""
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
        """What all paid together, for cores and for delay."""
        return sum(sum(one.values()) for one in self.costs)

    def completed(self, step_s: float = STEP_S) -> float:
        """How many tasks were completed."""
        return sum(step_s / pace_s for pace_s in self.paces_s)

    def changes(self) -> dict[str, int]:
        """How often each module got another number of cores."""
        found = dict.fromkeys(self.cores[0], 0)
        for before, after in zip(self.cores, self.cores[1:], strict=False):
            for name, cores in after.items():
                found[name] += cores != before[name]
        return found

    def efficiency(self, name: str) -> float:
        """How efficient a module was, on average."""
        return sum(one[name] for one in self.efficiencies) / len(self.efficiencies)


def play(
    game: Game, load: Sequence[float], strategy: Strategy, rng: Random, known: bool = False
) -> Played:
    """Decide step by step for a load: the mean time between two tasks in each.

    What strategies see is what was measured in the step before, with the error of a mean of so many
    tasks; with `known` it is the truth of the step that begins.
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
    """What is measured in a step: means of as many times as there were tasks."""

    def mean(value_s: float, tasks: float) -> float:
        return value_s * (1 + rng.gauss(0, SPREAD) / sqrt(max(1.0, tasks)))

    tasks = STEP_S / pace_s
    running_s = {
        name: mean(module.service.running_s, tasks * game.graph.ratios[name])
        for name, module in game.modules.items()
    }
    return Seen(mean(every_s, STEP_S / every_s), running_s, busy, cores)
