"""Servers and links that fail while ants are under way."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from statistics import fmean

from australis.kernel.durations import SECOND
from australis.sim.ants.simulation import AntsSimulation
from research.ants.runs import colony_on, instance
from research.claims import Claim, Progress, Table, own_claim
from research.predicates import at_least, at_most, exactly

BUSY = 12
"""The queries run on twice this number of servers."""
OBSERVED_S = 120
DOWN_S = 10


@dataclass(frozen=True)
class Failing:
    """Queries on servers and links that fail."""

    every_s: int
    up: float
    """The mean part of the time that queries run, of the time in which they could."""
    anew: int
    """The number of times a query was placed anew."""
    latency_s: float
    """The latency at the end, a while after the last failure."""
    placed: int


def measure_failing(every_s: int, progress: Progress) -> Failing:
    progress(f"failures every {every_s} s" if every_s else "no failures")
    made = instance(7, 2 * BUSY, BUSY, (2, 5), rate=15.0)
    rng = Random(7)
    colony = colony_on(made, 7)
    first = dict(colony.placed_us)
    ends = {at for query in made.queries for at in query.pinned.values()}
    others = sorted(set(made.network.servers) - ends)
    up, anew = [], 0
    for second in range(OBSERVED_S):
        if every_s and second % every_s == 0:
            _fail(colony, rng.choice(others), rng)
        colony.run(1)
        up.append(len(colony.placements) / len(made.queries))
        anew += sum(colony.placed_us[name] > first.get(name, 0) for name in colony.placements)
        first = dict(colony.placed_us)
    colony.run(DOWN_S + OBSERVED_S)
    latency_s = colony.books().mean_latency_s()
    return Failing(every_s, fmean(up), anew, latency_s, len(colony.placements))


def _fail(colony: AntsSimulation, server: str, rng: Random) -> None:
    """Fail a server without producers and consumers for a while, and a random link."""
    world = colony.world
    if colony.hosts[server].machine is not None:
        colony.crash(server)
        world.at(world.now + DOWN_S * SECOND, colony.start, server)
    here, there = rng.choice(sorted(colony.ground.links))
    world.network.cut(here, there)
    world.at(world.now + DOWN_S * SECOND, world.network.mend, here, there)


def failing_claims(found: list[Failing]) -> list[Claim]:
    calm, worst = found[0], found[-1]
    missing = sum(BUSY - one.placed for one in found)
    return [
        own_claim("After failures: queries not placed", missing, exactly(0)),
        own_claim(
            f"A failure every {worst.every_s} s: part of the time that queries run",
            worst.up,
            at_least(0.8),
        ),
        own_claim(
            "Latency afterwards, times that without failures",
            worst.latency_s / calm.latency_s,
            at_most(1.1),
        ),
    ]


def failing_table(found: list[Failing]) -> Table:
    rows = tuple(
        (
            one.every_s or "never",
            f"{one.up:.1%}",
            one.anew,
            round(one.latency_s * 1e3, 2),
            one.placed,
        )
        for one in found
    )
    columns = (
        "failure every (s)",
        "queries run",
        "placed anew",
        "latency afterwards (ms)",
        "placed",
    )
    title = f"{BUSY} queries on {2 * BUSY} servers; a server and a link are down for {DOWN_S} s each time"
    return Table(title, columns, rows)
