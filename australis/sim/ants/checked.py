"""One run: queries on a network with crashing cells and lost ants, and the promises to check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from australis.kernel.durations import SECOND
from australis.kernel.trace import Trace
from australis.placement.queries import Query
from australis.placement.reuse import reduced
from australis.protocols.ants.cell import CellMachine
from australis.protocols.ants.events import AntOptions
from australis.protocols.ants.observations import used_by
from australis.sim.ants.schedule import (
    FAULTS_S,
    SUBMITTED,
    WITHDRAWN,
    AntsScenario,
    Wish,
)
from australis.sim.ants.simulation import AntsSimulation, leader
from australis.sim.faults import Fault, Inflictor
from australis.sim.harness.model import Violation
from australis.sim.network import Link

LOOK_S = 0.5
OPTIONS = AntOptions(
    routing_ants=10,
    routes_needed=4,
    scouts=6,
    reports_needed=4,
    again_us=5 * SECOND,
    settle_us=5 * SECOND,
    hold_us=4 * SECOND,
    lease_us=8 * SECOND,
    grace_us=6 * SECOND,
    beta=1.02,
)
LIMIT_S = 100
"""The time by which every query must have been at rest at one moment."""


class CheckedAnts:
    """One run."""

    def __init__(self, scenario: AntsScenario, trace: Trace | None = None) -> None:
        self.scenario = scenario
        self.colony = AntsSimulation(
            scenario.ground, scenario.seed, OPTIONS, scenario.loss, scenario.cell_class, trace
        )
        self.world = self.colony.world
        self.queries = {query.name: query for query in scenario.queries}
        self.counts: Counter[str] = Counter()
        inflictor = Inflictor(self.world, Link(), self.colony.start)
        for planned in scenario.schedule:
            if isinstance(planned, Fault):
                self.counts[planned.kind.value] += 1
                inflictor.plan([planned])
            else:
                self.world.at(planned.at_us, self._do, planned)

    def _do(self, wish: Wish) -> None:
        query = self.queries[wish.query]
        if wish.what == SUBMITTED:
            self.colony.submit(query)
        elif query.name in self.colony.queries:
            self.counts[wish.what] += 1
            if wish.what == WITHDRAWN:
                self.colony.withdraw(query.name)
            else:  # another query of the same name and with the same ends
                self.colony.submit(Query(query.name, query.producers, query.tasks, query.consumers))

    # --- promises -------------------------------------------------------------------------------

    def run(self) -> list[Violation]:
        """Run to the end; report the violations."""
        found: list[Violation] = []
        while self.colony.world.now < FAULTS_S * SECOND and not found:
            self.colony.run(LOOK_S)
            found = list(self._always())
        self.colony.heal()
        while not found and self.colony.world.now < LIMIT_S * SECOND:
            self.colony.run(LOOK_S)
            found = list(self._always())
            if not found and self._at_rest():
                break
        self.counts["moved"] += self.colony.moves
        self.counts["placed"] += len(self.colony.placements)
        self.counts["reusing"] += sum(
            bool(self.colony.taps[name]) for name in self.colony.placements
        )
        return found or [*self._half(), *self._unplaced()]

    def _at_rest(self) -> bool:
        """Whether every query is in its final state; a query that moves runs in two versions."""
        healed_us = self.colony.world.now - FAULTS_S * SECOND
        if (
            healed_us < OPTIONS.lease_us + SECOND
        ):  # a query that was withdrawn may run for this time
            return False
        return not [*self._half(), *self._unplaced()]

    def _violation(self, checker: str, story: str) -> Violation:
        return Violation(checker, story)

    def _cells(self) -> Iterator[CellMachine]:
        for host in self.colony.hosts.values():
            if host.machine is not None:
                yield host.cell

    def _always(self) -> Iterator[Violation]:
        yield from self._overloaded()
        yield from self._other_results()
        for story in self.colony.forgot:
            yield self._violation("state", story)

    def _overloaded(self) -> Iterator[Violation]:
        """No server is used beyond its bound: a version counts until a newer one runs, and as long
        as other queries tap it.
        """
        for cell in self._cells():
            newest: dict[str, int] = {}
            for name, version in cell.ground.running():
                newest[name] = max(version, newest.get(name, 0))
            load = sum(
                used_by(part.query, frozenset(part.share.tasks), cell.ground.server.speed)[0].load
                for (name, version), part in cell.ground.running().items()
                if newest[name] == version or part.ends
            )
            if load > cell.ground.server.bound + 1e-9:
                yield self._violation("bound", f"{cell.name} is used to {load:.3f}")

    def _other_results(self) -> Iterator[Violation]:
        """The output that a query taps equals what it would compute itself."""
        known = self.queries
        for cell in self._cells():
            for (name, _), part in cell.ground.running().items():
                for tap in part.share.taps:
                    # A tapped query may itself tap others: all are equal to their own computation
                    # if each one is.
                    if made_of(known[tap.query], tap.of) != made_of(known[name], tap.task):
                        yield self._violation("results", f"{name} takes {tap.of} for {tap.task}")

    def _half(self) -> Iterator[Violation]:
        """A query runs exactly as its leader placed it, except for tasks kept for a while for other
        queries.
        """
        runs: dict[str, dict[str, tuple[int, tuple[str, ...]]]] = {}
        for cell in self._cells():
            for (name, version), part in cell.ground.running().items():
                if part.ends:
                    continue
                if cell.name in runs.setdefault(name, {}):
                    yield self._violation("half", f"{cell.name} runs {name} in two versions")
                runs[name][cell.name] = version, part.share.tasks
        for query in self.queries.values():
            there = runs.get(query.name, {})
            wanted: dict[str, tuple[int, tuple[str, ...]]] = {}
            if query.name in self.colony.queries:
                found = self.colony.hosts[leader(query)].cell.leaders[query.name].running
                if found is not None:
                    version, shares = found
                    wanted = {share.cell: (version, share.tasks) for share in shares}
                    placed = sorted(task for _, tasks in wanted.values() for task in tasks)
                    taps = {tap.task: tap for share in shares for tap in share.taps}
                    if placed != sorted(reduced(query, taps).task):
                        yield self._violation("half", f"{query.name} runs with {placed}")
                    for tap in taps.values():
                        source = self.colony.hosts[tap.at].cell.ground.running()
                        if (tap.query, tap.version) not in source:
                            story = (
                                f"{query.name} takes {tap.of} of {tap.query}, which is not there"
                            )
                            yield self._violation("half", story)
            if there != wanted:
                yield self._violation("half", f"{query.name} runs as {there}, not as {wanted}")

    def _unplaced(self) -> Iterator[Violation]:
        """Without further faults every query is placed, if there is room."""
        for name in self.colony.queries:
            if name not in self.colony.placements and not self.scenario.crowded:
                why = self.colony.refusals.get(name, "")
                yield self._violation("placed", f"{name} is not placed: {why}")


def made_of(query: Query, name: str) -> tuple[Any, ...]:
    """The full description of a task's output; outputs without a common name differ."""
    for producer in query.producers:
        if producer.name == name:
            return (producer.stream or f"{query.name} {name}", producer.at)
    task = query.task[name]
    made = task.does or f"{query.name} {name}"
    return (made, *(made_of(query, source) for source in task.inputs))
