"""The performance of modules: the slowest holds up all others (games 4.1, expressions 1 to 4).

Buffers are finite, so that in the long run a module gets as many tasks as it completes, and makes
one result of each: the times between two arrivals and between two results of a module are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from australis.elasticity.graph import FlowGraph

TIED = 1e-9
"""Modules whose paces differ by less than this fraction are equally slow."""


def bound_s(graph: FlowGraph, module: str, other: str, time_s: float) -> float:
    """f: the least time between two results of a module if another takes `time_s` (expression 3)."""
    return time_s * graph.ratios[other] / graph.ratios[module]


@dataclass(frozen=True)
class Performance:
    """The performance that follows from the modules' service times."""

    graph: FlowGraph
    times_s: Mapping[str, float]
    """T_S, by module."""

    @cached_property
    def paces_s(self) -> Mapping[str, float]:
        """The time between two tasks at the source if the module were the slowest, by module."""
        return {name: self.times_s[name] * ratio for name, ratio in self.graph.ratios.items()}

    @cached_property
    def pace_s(self) -> float:
        """The time between two tasks that enter, which is also that between two that leave."""
        return max(self.paces_s.values())

    @property
    def throughput(self) -> float:
        """Tasks per second."""
        return 1 / self.pace_s

    @cached_property
    def departures_s(self) -> Mapping[str, float]:
        """T_D: the time between two results or arrivals of each module (expression 2)."""
        return {name: self.pace_s / ratio for name, ratio in self.graph.ratios.items()}

    @cached_property
    def bottlenecks(self) -> tuple[str, ...]:
        """The modules that hold up the others (expression 4); several may be equally slow."""
        least = self.pace_s * (1 - TIED)
        return tuple(name for name, pace_s in self.paces_s.items() if pace_s >= least)

    @cached_property
    def efficiencies(self) -> Mapping[str, float]:
        """epsilon: the fraction of time each module is busy; 1 without superfluous cores."""
        return {name: pace_s / self.pace_s for name, pace_s in self.paces_s.items()}

    @property
    def efficient(self) -> bool:
        """Whether no module has superfluous cores: the degrees are an efficiency vector (4.7)."""
        return len(self.bottlenecks) == len(self.paces_s)
