"""Flow graphs: modules behind one source, with the probabilities of a task's path (games 4.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import inf

from australis.kernel.errors import UserError

Arcs = Mapping[tuple[str, str], float]
"""The probability that a task goes on from one module to another."""
VIRTUAL = "(sources)"
EXACT = 1e-9
"""The tolerance with which probabilities have to sum to one."""


class FlowGraph:
    """Modules that tasks reach from one source, without cycles.

    >>> graph = FlowGraph(["a", "b", "c"], {("a", "b"): 0.25, ("a", "c"): 0.75, ("b", "c"): 1.0})
    >>> graph.source, dict(graph.ratios), graph.diameter
    ('a', {'a': 1.0, 'b': 0.25, 'c': 1.0}, 1)
    """

    def __init__(
        self,
        modules: Iterable[str],
        arcs: Arcs,
        source: str | None = None,
        virtual: bool = False,
    ) -> None:
        names = list(modules)
        _check_names(names)
        self.arcs = dict(arcs)
        self.onward: dict[str, list[str]] = {name: [] for name in names}
        """The modules to which each module sends tasks."""
        self.into: dict[str, list[str]] = {name: [] for name in names}
        """The modules from which each module gets tasks."""
        for (here, there), probability in self.arcs.items():
            self._check_arc(here, there, probability)
            self.onward[here].append(there)
            self.into[there].append(here)
        self.modules = self._in_order(names)
        """The modules in topological order, the source first."""
        self.source = self._only_source(source)
        self.virtual = virtual
        """Whether the source is virtual and only joins the real sources."""
        self._check_sums()

    @classmethod
    def joined(
        cls, modules: Iterable[str], arcs: Arcs, rates: Mapping[str, float], name: str = VIRTUAL
    ) -> FlowGraph:
        """A graph with several sources, joined by a virtual source.

        Tasks come to each source at its rate; the virtual source gives each its fraction of all
        tasks.

        >>> FlowGraph.joined("abc", {("a", "c"): 1.0, ("b", "c"): 1.0}, {"a": 3.0, "b": 1.0}).arcs
        {('(sources)', 'a'): 0.75, ('(sources)', 'b'): 0.25, ('a', 'c'): 1.0, ('b', 'c'): 1.0}
        """
        names = list(modules)
        for source, rate in rates.items():
            if source not in names:
                raise UserError("has a rate but is no module", name=source)
            if not 0 < rate < inf:
                raise UserError(f"is a source with a rate of {rate:g}, not above 0", name=source)
        taken = {there for _, there in arcs}
        for module in names:
            if module not in taken and module not in rates:
                raise UserError("has neither a predecessor nor a rate of its own", name=module)
        total = sum(rates.values())
        shares = {(name, source): rate / total for source, rate in rates.items()}
        return cls([name, *names], {**shares, **arcs}, virtual=True)

    # --- checks -------------------------------------------------------------------------------

    def _check_arc(self, here: str, there: str, probability: float) -> None:
        for end in (here, there):
            if end not in self.onward:
                raise UserError("is at the end of an arc but is no module", name=end)
        if not 0 < probability <= 1:
            raise UserError(
                f"sends to {there} with probability {probability:g}, not in (0, 1]", name=here
            )

    def _check_sums(self) -> None:
        for name in self.modules:
            total = sum(self.arcs[name, there] for there in self.onward[name])
            if self.onward[name] and abs(total - 1) > EXACT:
                raise UserError(
                    f"sends on with probabilities that sum to {total:.9g}, not to 1", name=name
                )

    def _in_order(self, names: Sequence[str]) -> tuple[str, ...]:
        left = {name: len(self.into[name]) for name in names}
        found = [name for name in names if not left[name]]
        for name in found:  # which grows during the loop
            for there in self.onward[name]:
                left[there] -= 1
                if not left[there]:
                    found.append(there)
        if len(found) < len(names):
            cycle = self._cycle([name for name in names if left[name]])
            raise UserError(f"is on a cycle: {' -> '.join(cycle)}", name=cycle[0])
        return tuple(found)

    def _cycle(self, among: Sequence[str]) -> list[str]:
        """A cycle among modules each of which gets tasks from another of them."""
        way = [among[0]]
        while True:
            before = next(name for name in self.into[way[-1]] if name in among)
            if before in way:
                return [before, *reversed(way[way.index(before) :])]
            way.append(before)

    def _only_source(self, wanted: str | None) -> str:
        sources = [name for name in self.modules if not self.into[name]]
        if wanted is None:
            if len(sources) > 1:
                raise UserError(
                    f"is a source beside {sources[0]}: join them by a virtual source",
                    name=sources[1],
                )
            return sources[0]
        if wanted not in self.onward:
            raise UserError("should be the source but is no module", name=wanted)
        if self.into[wanted]:
            before = self.into[wanted][0]
            raise UserError(f"should be the source but gets tasks from {before}", name=wanted)
        for name in sources:
            if name != wanted:
                raise UserError(f"cannot be reached from the source {wanted}", name=name)
        return wanted

    # --- tasks ----------------------------------------------------------------------------------

    @cached_property
    def ratios(self) -> Mapping[str, float]:
        """The fraction of all tasks that reaches each module."""
        return self.probabilities(self.source)

    def probabilities(self, start: str) -> dict[str, float]:
        """The probability that a task at `start` reaches each other module, by any path (1)."""
        found = dict.fromkeys(self.modules, 0.0)
        found[start] = 1.0
        for name in self.modules:
            if found[name]:
                for there in self.onward[name]:
                    found[there] += found[name] * self.arcs[name, there]
        return found

    # --- neighbours ------------------------------------------------------------------------------

    @cached_property
    def neighbours(self) -> Mapping[str, tuple[str, ...]]:
        """The modules to which a module sends tasks or from which it gets them (expression 15)."""
        return {name: (*self.into[name], *self.onward[name]) for name in self.modules}

    def hops(self, start: str) -> dict[str, int]:
        """The number of hops from one module to each other one, the nearest first."""
        found = {start: 0}
        reached = [start]
        for name in reached:  # which grows during the loop
            for other in self.neighbours[name]:
                if other not in found:
                    found[other] = found[name] + 1
                    reached.append(other)
        return found

    @cached_property
    def reaches(self) -> Mapping[str, int]:
        """The number of hops from each module to the farthest one."""
        return {name: max(self.hops(name).values()) for name in self.modules}

    @cached_property
    def diameter(self) -> int:
        """The largest number of hops between two modules."""
        return max(self.reaches.values())

    @cached_property
    def centre(self) -> str:
        """The first module whose farthest module is nearest."""
        return min(self.modules, key=self.reaches.__getitem__)


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise UserError("has no modules", name="graph")
    known: set[str] = set()
    for name in names:
        if name in known:
            raise UserError("is the name of two modules", name=name)
        known.add(name)
