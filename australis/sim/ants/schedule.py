"""Draws from a seed a network, queries that come, change and go, and faults."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from random import Random

from australis.kernel.durations import SECOND
from australis.kernel.rng import SeedTree
from australis.placement import generate
from australis.placement.network import Network
from australis.placement.queries import Query
from australis.protocols.ants.cell import CellMachine
from australis.sim.faults import Fault, Kind, Moment, draw_faults

FAULTS_S = 40
"""Faults come before this time; then everything heals."""


@dataclass(frozen=True)
class Wish(Moment):
    """A request to submit a query, to withdraw it, or to replace it by another one of that name."""

    at_us: int
    what: str
    query: str

    def __str__(self) -> str:
        return f"{self.at_us / 1e6:8.2f} s: {self.query} is {self.what}"


SUBMITTED, WITHDRAWN, CHANGED = "submitted", "withdrawn", "changed"


@dataclass(frozen=True)
class AntsScenario:
    """Everything that a run depends on."""

    seed: int
    ground: Network
    queries: tuple[Query, ...]
    loss: float
    crowded: bool
    """Whether all queries come at once and may exceed the capacity."""
    schedule: tuple[Fault | Wish, ...]
    cell_class: type[CellMachine] = CellMachine


def draw(seed: int, chance: SeedTree) -> AntsScenario:
    """Draw the scenario of a seed."""
    rng = chance.stream("network")
    ground = generate.transit_stub(rng.randint(6, 12), rng)
    crowded = chance.stream("kind").random() < 0.3
    queries = _queries(chance.stream("queries"), ground, crowded)
    names = sorted(ground.servers)
    before_us = (FAULTS_S - 5) * SECOND
    crashes = draw_faults(
        chance.stream("crashes"), names, {Kind.CRASH: 6}, before_us, 15 * SECOND, SECOND
    )
    cuts = draw_faults(
        chance.stream("cuts"), names, {Kind.CUT_ONE_WAY: 4}, before_us, 10 * SECOND, SECOND
    )
    wishes = _wishes(chance.stream("wishes"), queries, crowded)
    schedule: list[Fault | Wish] = [*wishes, *crashes, *cuts]
    schedule.sort(key=lambda planned: planned.at_us)
    loss = chance.stream("links").choice((0.0, 0.02, 0.1))
    return AntsScenario(seed, ground, queries, loss, crowded, tuple(schedule))


def _queries(rng: Random, ground: Network, crowded: bool) -> tuple[Query, ...]:
    rates = (100.0, 150.0) if crowded else (10.0, 40.0)
    make = generate.query
    if rng.random() < 0.4:  # they have tasks in common, some of them with state
        make = partial(
            generate.similar,
            streams=rng.randint(1, 2),
            kinds=rng.randint(1, 2),
            state_bytes=rng.choice((0.0, 1e6, 2e7)),
        )
    number = rng.randint(2, 5) if crowded else rng.randint(1, 3)
    return tuple(
        make(f"q{n}", ground, rng.randint(1, 6), rng, rng.choice(rates)) for n in range(number)
    )


def _wishes(rng: Random, queries: tuple[Query, ...], crowded: bool) -> list[Wish]:
    wishes = [
        Wish(5 * SECOND if crowded else rng.randrange(1, 20 * SECOND), SUBMITTED, query.name)
        for query in queries
    ]
    for what in (WITHDRAWN, CHANGED):
        if rng.random() < 0.3:
            at_us = rng.randrange(20, FAULTS_S) * SECOND
            wishes.append(Wish(at_us, what, rng.choice(queries).name))
    return wishes
