"""One seed: queries on a network whose cells crash and whose ants get lost, and what must hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

from australis.kernel.durations import SECOND
from australis.kernel.trace import Trace
from australis.placement import generate
from australis.placement.queries import Query
from australis.placement.reuse import reduced
from australis.protocols.ants.cell import CellMachine
from australis.protocols.ants.events import AntOptions
from australis.protocols.ants.sights import used_by
from australis.sim.ants.colony import Colony, leader
from australis.sim.seeds import Violation

FAULTS_S = 40
"""Faults come before this; then everything heals."""
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
"""By then every query must have been at rest at one moment."""


class Trial:
    """One run."""

    def __init__(
        self,
        seed: int,
        cell_class: type[CellMachine] = CellMachine,
        trace: Trace | None = None,
    ) -> None:
        self.seed = seed
        self.rng = rng = Random(seed)
        ground = generate.transit_stub(rng.randint(6, 12), rng)
        loss = rng.choice((0.0, 0.02, 0.1))
        self.colony = Colony(ground, seed, OPTIONS, loss, cell_class, trace)
        self.names = sorted(ground.servers)
        self.crowded = rng.random() < 0.3
        """Whether there may not be room for all, and all come at once."""
        rates = (100.0, 150.0) if self.crowded else (10.0, 40.0)
        make = generate.query
        if rng.random() < 0.4:  # they have tasks in common, some of which remember something
            make = partial(
                generate.similar,
                streams=rng.randint(1, 2),
                kinds=rng.randint(1, 2),
                state_bytes=rng.choice((0.0, 1e6, 2e7)),
            )
        self.queries = [
            make(f"q{n}", ground, rng.randint(1, 6), rng, rng.choice(rates))
            for n in range(rng.randint(2, 5) if self.crowded else rng.randint(1, 3))
        ]
        self.counts: Counter[str] = Counter()
        self._plan()

    # --- what happens ---------------------------------------------------------------------------

    def _plan(self) -> None:
        rng, world = self.rng, self.colony.world
        for query in self.queries:
            at = 5 * SECOND if self.crowded else rng.randrange(20 * SECOND)
            world.at(at, self.colony.submit, query)
        for _ in range(rng.randint(0, 6)):
            name = rng.choice(self.names)
            at = rng.randrange((FAULTS_S - 15) * SECOND)
            world.at(at, self._crash, name)
            world.at(at + rng.randrange(1, 15) * SECOND, self._start, name)
        for _ in range(rng.randint(0, 4)):
            here, there = rng.sample(self.names, 2)
            at = rng.randrange((FAULTS_S - 10) * SECOND)
            world.at(at, world.network.cut, here, there)
            world.at(at + rng.randrange(1, 10) * SECOND, world.network.mend, here, there)
        if rng.random() < 0.3:
            gone = rng.choice(self.queries)
            world.at(rng.randrange(20, FAULTS_S) * SECOND, self._withdraw, gone)
        if rng.random() < 0.3:
            again = rng.choice(self.queries)
            world.at(rng.randrange(20, FAULTS_S) * SECOND, self._change, again)

    def _crash(self, name: str) -> None:
        if self.colony.hosts[name].machine is not None:
            self.counts["crashes"] += 1
            self.colony.crash(name)

    def _start(self, name: str) -> None:
        if self.colony.hosts[name].machine is None:
            self.colony.start(name)

    def _withdraw(self, query: Query) -> None:
        if query.name in self.colony.queries:
            self.counts["withdrawn"] += 1
            self.colony.withdraw(query.name)

    def _change(self, query: Query) -> None:
        """Another query of the same name and with the same ends."""
        if query.name in self.colony.queries:
            self.counts["changed"] += 1
            other = Query(query.name, query.producers, query.tasks, query.consumers)
            self.colony.submit(other)

    # --- what must hold -------------------------------------------------------------------------

    def run(self) -> list[Violation]:
        """Let it all happen; what the checkers say."""
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
        """Whether all is as it should be; while a query moves it runs in two versions."""
        healed_us = self.colony.world.now - FAULTS_S * SECOND
        if healed_us < OPTIONS.lease_us + SECOND:  # what nobody asks for may run so long
            return False
        return not [*self._half(), *self._unplaced()]

    def _violation(self, checker: str, story: str) -> Violation:
        return Violation(self.seed, checker, story)

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
        """No server is used beyond its bound: a version counts until a newer one is there, and as long
        as it is there for others."""
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
        """What a query takes from another is what it would make itself."""
        known = {query.name: query for query in self.queries}
        for cell in self._cells():
            for (name, _), part in cell.ground.running().items():
                for tap in part.share.taps:
                    # Whoever takes from it may take from others itself: by what they are to make all
                    # are the same, if each is.
                    if made_of(known[tap.query], tap.of) != made_of(known[name], tap.task):
                        yield self._violation("results", f"{name} takes {tap.of} for {tap.task}")

    def _half(self) -> Iterator[Violation]:
        """A query runs as its leader says, all of it, and nothing else of it runs, but for what is there
        for others for a while."""
        runs: dict[str, dict[str, tuple[int, tuple[str, ...]]]] = {}
        for cell in self._cells():
            for (name, version), part in cell.ground.running().items():
                if part.ends:
                    continue
                if cell.name in runs.setdefault(name, {}):
                    yield self._violation("half", f"{cell.name} runs {name} in two versions")
                runs[name][cell.name] = version, part.share.tasks
        for query in self.queries:
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
        """When nothing fails any more every query is placed, if there is room."""
        for name in self.colony.queries:
            if name not in self.colony.placements and not self.crowded:
                why = self.colony.refusals.get(name, "")
                yield self._violation("placed", f"{name} is not placed: {why}")


def made_of(query: Query, name: str) -> tuple[Any, ...]:
    """What a task or producer makes, told in full; whatever has no name in common is told apart."""
    for producer in query.producers:
        if producer.name == name:
            return (producer.stream or f"{query.name} {name}", producer.at)
    task = query.task[name]
    made = task.does or f"{query.name} {name}"
    return (made, *(made_of(query, source) for source in task.inputs))
