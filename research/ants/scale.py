"""More servers for the same queries (ants, figure 4), and the traffic of ants."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from statistics import fmean

from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.placement.model import Books, Placement
from australis.protocols.ants.events import AntOptions
from australis.sim.ants.simulation import SETTLE_S, AntsSimulation
from research.ants.runs import DEVIATIONS, Instance, instance
from research.ants.search import local_search
from research.claims import Claim, Progress, Result, Table
from research.predicates import at_least, at_most, never_falling

SIZES = (200, 300, 400, 500, 600)
QUICK_SIZES = (20, 40)
QUERIES = 300
FEW = 15
TASKS = (4, 8)
RATE = 1_000.0
"""Tuples per second, as the paper counts them in a millisecond."""
HEAVIER = 3.0
"""The factor on the service time of tuples, compared with the other experiments."""
OBSERVED_S = 60
PAPER_TRAFFIC = {200: 0.0001, 600: 0.00022}


@dataclass(frozen=True)
class Scaled:
    """The outcome for one network size."""

    placed: float
    possible: float
    """The part of the queries that a centralized search places, one after the other."""
    traffic: float
    """The mean part of a link's traffic that is ants."""
    messages: float
    """The messages of each cell per minute."""


class AntsScale:
    """The same queries on networks of different sizes."""

    name = "ants-scale"
    description = (
        "The part of 300 queries that is placed, and the part of the traffic that is ants."
    )
    reproduces = "ants figure 4"
    duration = "15 min, quick 1 min"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run all sizes; with `quick` small ones."""
        found = {}
        for size in QUICK_SIZES if quick else SIZES:
            progress(f"{size} servers")
            found[size] = _run(size, FEW if quick else QUERIES)
        return Result(
            _claims(found),
            (_table(found),),
            (
                *DEVIATIONS,
                f"Here rates are {RATE:,.0f} tuples a second, as the paper counts them in a"
                f" millisecond, and a tuple takes {RATE / 30 / HEAVIER:.0f} times less work: 200 servers are"
                " not enough.",
                "What ants send is counted from when all queries have come, for a minute.",
                "Possible is what one after the other finds room by a local search that knows"
                " everything.",
            ),
        )


def _run(size: int, number: int) -> Scaled:
    made = _instance(size, number)
    options = AntOptions(again_us=60 * SECOND, scent_us=20 * SECOND)
    colony = AntsSimulation(made.network, size, options)
    colony.run(SETTLE_S * 4)
    for query in made.queries:
        colony.submit(query)
        colony.run(0.2)
    colony.run_until_placed(patience_s=30.0)
    placed = len(colony.placements)
    colony.weighs, colony.bytes, before = True, {}, colony.messages
    colony.run(OBSERVED_S)
    books = colony.books()
    shares = []
    for link, wire in made.network.links.items():
        data = books.use(link).load * wire.bytes_per_s
        ants = colony.bytes.get(link, 0) / OBSERVED_S
        if data > 0:
            shares.append(ants / (ants + data))
    messages = (colony.messages - before) / size / (OBSERVED_S / 60)
    return Scaled(placed / number, _possible(made) / number, fmean(shares), messages)


def _instance(size: int, number: int) -> Instance:
    return instance(size, size, number, TASKS, RATE, work=30.0 / RATE * HEAVIER)


def _possible(made: Instance) -> int:
    books = Books(made.network)
    rng = Random(1)
    placed = 0
    for query in made.queries:
        try:
            hosts, _ = local_search(query, books, rng, kicks=0)
        except UserError:
            continue
        books.add(query, Placement(hosts))
        placed += 1
    return placed


def _claims(found: dict[int, Scaled]) -> tuple[Claim, ...]:
    sizes = sorted(found)
    placed = [found[size].placed for size in sizes]
    worst = min(found[size].placed / found[size].possible for size in sizes)
    last = found[sizes[-1]]
    return (
        Claim(
            "The part that is placed grows with the servers",
            placed,
            never_falling(0.01),
            "grows",
            shown=" ".join(f"{value:.2f}" for value in placed),
        ),
        Claim(
            "The part that is placed, part of what is possible, at least over all sizes",
            worst,
            at_least(0.95),
            "similar to the optimum",
        ),
        Claim(
            f"The part of a link's traffic that is ants, {sizes[-1]} servers (%)",
            100 * last.traffic,
            at_most(100 * PAPER_TRAFFIC[600]),
            f"{PAPER_TRAFFIC[600]:.3%}",
            known_miss="the paper gives neither the rates and sizes of its tuples nor how often ants"
            " are sent, on which this part depends",
        ),
    )


def _table(found: dict[int, Scaled]) -> Table:
    rows = tuple(
        (
            size,
            f"{one.placed:.1%}",
            f"{one.possible:.1%}",
            f"{one.traffic:.4%}",
            f"{PAPER_TRAFFIC[size]:.3%}" if size in PAPER_TRAFFIC else "",
            round(one.messages),
        )
        for size, one in found.items()
    )
    columns = (
        "servers", "placed", "possible", "ants of a link's traffic", "paper", "messages of a cell/min",
    )  # fmt: skip
    return Table("The same number of queries on more servers", columns, rows)


EXPERIMENT = AntsScale()
