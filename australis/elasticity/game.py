"""A game: a flow graph, and the cores and costs of its modules in one control step (games 4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from australis.elasticity.cost import Module, virtual_source
from australis.elasticity.graph import FlowGraph
from australis.elasticity.performance import Performance
from australis.elasticity.service import fed
from australis.kernel.errors import UserError

Degrees = Mapping[str, float]
"""The number of cores of each module."""


@dataclass(frozen=True)
class Profile:
    """The choices of all modules and their result."""

    degrees: Degrees
    pace_s: float
    """Seconds between two tasks at the source."""
    cost: float
    """The total cost of all modules."""


@dataclass(frozen=True)
class Game:
    """The game of one control step."""

    graph: FlowGraph
    modules: Mapping[str, Module]

    def __post_init__(self) -> None:
        for name in self.graph.modules:
            if name not in self.modules:
                raise UserError("is in the graph, but nothing is said of its costs", name=name)
        for name in self.modules:
            if name not in self.graph.ratios:
                raise UserError("has costs but is not in the graph", name=name)

    @classmethod
    def of(cls, graph: FlowGraph, *modules: Module, every_s: float | None = None) -> Game:
        """A game of these modules, and of the virtual source if the graph has one, where a task
        enters every `every_s` seconds."""
        made = {module.name: module for module in modules}
        if graph.virtual and every_s is None:
            raise UserError("joins several sources: say how often tasks come", name=graph.source)
        if graph.virtual and every_s is not None:
            made[graph.source] = virtual_source(graph.source, every_s)
        game = cls(graph, made)
        return game if every_s is None or graph.virtual else game.arriving(every_s)

    def arriving(self, every_s: float) -> Game:
        """The same game with a task every `every_s` seconds (games 6.2: T_S >= T_a at the
        source)."""
        source = self.modules[self.graph.source]
        paced = replace(source, service=fed(source.service, every_s))
        return Game(self.graph, {**self.modules, source.name: paced})

    def running(self, times_s: Mapping[str, float]) -> Game:
        """The same game with other service times on one core, for the modules given."""
        changed = {
            name: replace(self.modules[name], service=self.modules[name].service.taking(time_s))
            for name, time_s in times_s.items()
        }
        return Game(self.graph, {**self.modules, **changed})

    # --- results of degrees ---------------------------------------------------------------------------

    def performance(self, degrees: Degrees) -> Performance:
        """The performance of all modules with these numbers of cores."""
        times_s = {name: m.service.time_s(degrees[name]) for name, m in self.modules.items()}
        return Performance(self.graph, times_s)

    def costs(self, degrees: Degrees) -> dict[str, float]:
        """The cost of each module."""
        departures_s = self.performance(degrees).departures_s
        return {name: m.cost(degrees[name], departures_s[name]) for name, m in self.modules.items()}

    def total(self, degrees: Degrees) -> float:
        """The total cost of all modules: the social welfare of games 5."""
        return sum(self.costs(degrees).values())

    def profile(self, degrees: Degrees) -> Profile:
        """The profile of any choice of cores."""
        return Profile(degrees, self.performance(degrees).pace_s, self.total(degrees))

    def one_more(self, degrees: Degrees) -> dict[str, float]:
        """The change of the total cost with one more core, for each module that may have one;
        negative if the core pays off."""
        now = self.total(degrees)
        return {
            name: self.total({**degrees, name: degrees[name] + 1}) - now
            for name, module in self.modules.items()
            if degrees[name] + 1 <= module.most
        }

    # --- paces ------------------------------------------------------------------------------------------

    def at_pace(self, pace_s: float) -> dict[str, float]:
        """The only efficiency vector of this pace (lemma 4.13): the cores each module needs."""
        ratios = self.graph.ratios
        return {name: m.needed_degree(pace_s / ratios[name]) for name, m in self.modules.items()}

    @cached_property
    def least_pace_s(self) -> float:
        """The least possible pace, set by a module with all allowed cores or by the arrivals."""
        limits = {name: module.limit for name, module in self.modules.items()}
        return self.performance(limits).pace_s

    @cached_property
    def delay_cost(self) -> float:
        """The total cost of one second of the pace."""
        ratios = self.graph.ratios
        return sum(module.delay_price / ratios[name] for name, module in self.modules.items())

    def efficient(self, degrees: Degrees, pace_s: float) -> Profile:
        """The profile of an efficiency vector whose pace is known."""
        spent = sum(m.resource_cost(degrees[name]) for name, m in self.modules.items())
        return Profile(degrees, pace_s, self.delay_cost * pace_s + spent)
