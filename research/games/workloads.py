"""The arrivals of the paper's application, control step by control step (games figure 12).

The plots are not in the stored text. Known of them are: 600 control steps; the steps in which both
strategies decide the same, since a selfish module only keeps up there; the numbers of completed
tasks and their cost (table V); and the numbers of changes of cores (table IV). So each load is a
curve that crosses the pace of the best equilibrium (0.715 s) where the prose says so. Two numbers
give its amplitude above and below: those with which, without noise and with whole cores, as many
tasks are completed with both strategies as in table V. A third number, the noise of a load, and the
weight of new measurements in averages (0.3), are those with which the Recognizer changes its cores
about as often as in table IV. Costs and efficiencies were not fitted; `games-cost` and
`games-reconfigurations` show how far they are from the tables, and why they are not nearer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi, sin, sqrt
from random import Random

STEPS = 600
LEVEL_S = 0.71497
"""The pace at which the best equilibrium of the paper's application stops keeping up."""
LEAST_S = 0.2
"""The least time between two tasks, whatever the noise."""


@dataclass(frozen=True)
class Workload:
    """The mean time between two tasks in each control step."""

    name: str
    shape: Callable[[float], float]
    """A value in [-1, 1] by the elapsed part of time; above 0 both strategies decide the same."""
    above_s: float
    below_s: float
    """The largest deviation below the level."""
    noise: float
    """The standard deviation of the random change in each step, as a fraction."""
    same: tuple[tuple[int, int], ...] = ()
    """Control steps in which both strategies decide the same according to the paper."""

    def curve(self, steps: int = STEPS) -> list[float]:
        """The load of all steps without noise."""
        return [self.at(step / steps) for step in range(steps)]

    def at(self, part: float) -> float:
        """The load without noise when this fraction of the time has passed."""
        high = self.shape(part)
        return LEVEL_S + high * (self.above_s if high > 0 else self.below_s)

    def times_s(self, rng: Random, steps: int = STEPS) -> list[float]:
        """The load of one repetition, with noise."""
        return [
            max(LEAST_S, mean_s * (1 + rng.gauss(0, self.noise))) for mean_s in self.curve(steps)
        ]


def _cycle(part: float) -> float:
    """High in the middle third, low before and after."""
    wave = -cos(2 * pi * part) - 0.5
    return 2 * wave if wave > 0 else wave / 1.5


def _trend(part: float) -> float:
    """Falling all the time, and steeply in the middle: otherwise fewer tasks could be completed."""
    return 1 - 2 * part if part < 0.5 else -sqrt(2 * part - 1)


def _walk(part: float) -> float:
    """High up to step 100 and from 400 to 550, low elsewhere."""
    bounds = (-100, 100, 400, 550, 700)
    step = part * STEPS
    at = bisect_right(bounds, step) - 1
    arch = sin(pi * (step - bounds[at]) / (bounds[at + 1] - bounds[at]))
    return arch if at % 2 == 0 else -arch


CYCLIC = Workload("cyclic", _cycle, 0.177, 0.250, 0.02, ((200, 400),))
TREND = Workload("trend", _trend, 0.053, 0.465, 0.08, ((0, 300),))
RANDOM_WALK = Workload("rwalk", _walk, 0.150, 0.377, 0.16, ((0, 100), (400, 550)))
WORKLOADS = (CYCLIC, TREND, RANDOM_WALK)
