"""Queries with tasks in common, with and without reuse (ants 3.10)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from statistics import fmean

from australis.placement import generate
from australis.protocols.ants.events import AntOptions
from research.ants.runs import DEVIATIONS, Instance, colony_on
from research.claims import Claim, Progress, Result, Table, own_claim
from research.predicates import at_most, exactly

SERVERS = 30
NUMBERS = (20, 60, 100)
FEW = (10, 20)
TASKS = 4
RATE = 40.0
STREAMS = 3
KINDS = (1, 2, 4)
"""The number of kinds of tasks at one place: fewer kinds give queries more in common."""
IMPROVE_S = 30


@dataclass(frozen=True)
class Run:
    """The outcome of some queries."""

    placed: int
    latency_s: float
    load: float
    """The used capacity, in servers of speed 1."""
    traffic: float
    """The traffic of tuples on links, in bytes per second."""
    tasks: int
    """The number of running tasks."""
    reusing: int


class AntsReuse:
    """The same queries with and without reuse."""

    name = "ants-reuse"
    description = "Queries with tasks in common: what reuse saves, and what it costs."
    reproduces = "ants 3.10 (the paper has no figures)"
    duration = "2 min, quick 10 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run all numbers of queries; with `quick` few."""
        found: dict[tuple[int, int], tuple[Run, Run]] = {}
        for kinds in KINDS[:2] if quick else KINDS:
            for number in FEW if quick else NUMBERS:
                progress(f"{number} queries, tasks of {kinds} kinds")
                made = _instance(number, kinds)
                found[kinds, number] = _run(made, reuse=True), _run(made, reuse=False)
        return Result(
            _claims(found),
            (_table(found),),
            (
                *DEVIATIONS[:2],
                f"Queries are lines of {TASKS} tasks behind one of {STREAMS} streams; what a task does"
                " is drawn from as many kinds as the table says. A task of a kind always has the same"
                " work, and makes as many tuples of the same size.",
                "That reuse does not change results is no claim of this experiment: a checker follows"
                " every tap in `australis sim ants`.",
                "What waits at a server only because others take its results does not count there as"
                " somebody who waits: servers do not know of it.",
            ),
        )


def _instance(number: int, kinds: int) -> Instance:
    rng = Random(100 * kinds + number)
    network = generate.transit_stub(SERVERS, rng)
    made = tuple(
        generate.similar(f"q{n}", network, TASKS, rng, RATE, STREAMS, kinds) for n in range(number)
    )
    return Instance(network, made)


def _run(made: Instance, reuse: bool) -> Run:
    colony = colony_on(made, 1, AntOptions(reuse=reuse), apart_s=1.0)
    colony.run(IMPROVE_S)
    colony.measure_ages()
    books = colony.books()
    servers = made.network.servers.items()
    return Run(
        len(colony.placements),
        books.mean_latency_s(),
        sum(books.use(name).load * server.speed for name, server in servers),
        sum(books.use(link).load * w.bytes_per_s for link, w in made.network.links.items()),
        sum(len(placement.hosts) for placement in colony.placements.values()),
        sum(bool(colony.taps[name]) for name in colony.placements),
    )


def _claims(found: dict[tuple[int, int], tuple[Run, Run]]) -> tuple[Claim, ...]:
    pairs = found.values()
    common = [pair for (kinds, _), pair in found.items() if kinds == 1]
    latency = fmean(on.latency_s / off.latency_s for on, off in pairs)
    load = max(on.load / off.load for on, off in common)
    fewer = sum(on.placed < off.placed for on, off in pairs)
    return (
        own_claim(
            "Queries that differ in their consumers only: servers' time that is used, part of that without"
            " reuse, at most",
            load,
            at_most(0.8),
        ),
        own_claim("Mean latency, part of that without reuse", latency, at_most(1.02)),
        own_claim("Runs in which fewer queries are placed", fewer, exactly(0)),
    )


def _table(found: dict[tuple[int, int], tuple[Run, Run]]) -> Table:
    rows = tuple(
        (
            kinds,
            number,
            f"{on.placed} / {off.placed}",
            on.reusing,
            f"{on.tasks} / {off.tasks}",
            f"{on.latency_s * 1e3:.1f} / {off.latency_s * 1e3:.1f}",
            f"{on.load:.2f} / {off.load:.2f}",
            f"{on.traffic / 1e6:.2f} / {off.traffic / 1e6:.2f}",
        )
        for (kinds, number), (on, off) in found.items()
    )
    columns = (
        "kinds", "queries", "placed", "reusing", "tasks", "latency (ms)", "servers used", "MB/s on links",
    )  # fmt: skip
    return Table(f"With / without reuse, {SERVERS} servers", columns, rows)


EXPERIMENT = AntsReuse()
