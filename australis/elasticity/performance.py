"""How fast modules are together: the slowest holds up all others (games 4.1, expressions 1 to 4).

Buffers are finite, so that in the long run a module gets as many tasks as it completes, and makes one
result of each: the time between two tasks that come to it and that between two results are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from australis.elasticity.graph import FlowGraph

TIED = 1e-9
"""Modules that are slower by less than this part are equally slow."""


def bound_s(graph: FlowGraph, module: str, other: str, time_s: float) -> float:
    """f: the least time between two results of a module if another one takes so long (expression 3)."""
    return time_s * graph.ratios[other] / graph.ratios[module]


@dataclass(frozen=True)
class Performance:
    """What comes of the times that modules take for a task."""

    graph: FlowGraph
    times_s: Mapping[str, float]
    """T_S, by module."""

    @cached_property
    def paces_s(self) -> Mapping[str, float]:
        """How often a task could enter at the source if a module were the slowest."""
        return {name: self.times_s[name] * ratio for name, ratio in self.graph.ratios.items()}

    @cached_property
    def pace_s(self) -> float:
        """The time between two tasks that enter, which is also that between two that leave."""
        return max(self.paces_s.values())

    @property
    def throughput(self) -> float:
        """Tasks a second."""
        return 1 / self.pace_s

    @cached_property
    def departures_s(self) -> Mapping[str, float]:
        """T_D: the time between two results of each module, and between two tasks that come to it
        (expression 2)."""
        return {name: self.pace_s / ratio for name, ratio in self.graph.ratios.items()}

    @cached_property
    def bottlenecks(self) -> tuple[str, ...]:
        """Those that hold up the others (expression 4); there may be several, equally slow."""
        least = self.pace_s * (1 - TIED)
        return tuple(name for name, pace_s in self.paces_s.items() if pace_s >= least)

    @cached_property
    def efficiencies(self) -> Mapping[str, float]:
        """epsilon: how much of its time each module is busy; 1 if it has no more cores than it needs."""
        return {name: pace_s / self.pace_s for name, pace_s in self.paces_s.items()}

    @property
    def efficient(self) -> bool:
        """Whether nobody has cores to spare: the numbers of cores are an efficiency vector (4.7)."""
        return len(self.bottlenecks) == len(self.paces_s)
