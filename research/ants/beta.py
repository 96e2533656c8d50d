"""The improvement required for a new placement (ants, table 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from statistics import fmean

from australis.kernel.durations import SECOND
from australis.placement.model import Books, Placement, Spot
from australis.placement.use import Use
from australis.protocols.ants.events import AntOptions
from research.ants.runs import DEVIATIONS, Instance, colony_on, instance
from research.ants.search import local_search
from research.claims import Claim, Progress, Result, Source, Table
from research.predicates import never_falling, never_rising

PAPER = {1.1: (15, 0.0), 1.25: (10, 25.87), 1.5: (7, 59.23), 1.75: (2, 78.67), 2.0: (1, 101.23)}
"""The number of updates, and the loss in ms."""
SERVERS = 20
TASKS = 10
LASTS_S = 400
EVERY_S = 20
"""The interval between changes of other traffic."""
SEEDS = range(8)
QUICK = range(1)
QUICK_LASTS_S = 80
BUSY = (0.3, 0.85)
BUSY_SERVERS = 6
SERVICE_S = 0.005


@dataclass(frozen=True)
class Run:
    """One query while other queries come and go."""

    updates: int
    loss_ms: float
    """The mean over time of its latency beyond the optimum."""


class AntsBeta:
    """The same disturbances, with ants that require small and large improvements."""

    name = "ants-beta"
    description = "Updates of a placement and what latency is lost, by the factor beta."
    reproduces = "ants table 1"
    duration = "2 min, quick 15 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run all factors; with `quick` fewer seeds and a shorter time."""
        found: dict[float, list[Run]] = {beta: [] for beta in PAPER}
        for seed in QUICK if quick else SEEDS:
            made = instance(seed, SERVERS, 1, (TASKS, TASKS), rate=20.0)
            phases = _phases(made, seed, QUICK_LASTS_S if quick else LASTS_S)
            for beta, runs in found.items():
                progress(f"seed {seed}, beta {beta:g}")
                runs.append(_run(made, seed, beta, phases))
        return Result(
            _claims(found),
            (_table(found),),
            (
                *DEVIATIONS,
                "The paper does not say what disturbs its query, nor for how long. Here six of twenty"
                f" servers are used by others to {BUSY[0]:.0%} to {BUSY[1]:.0%}, other ones every"
                f" {EVERY_S} s for {LASTS_S} s.",
                "The paper's loss is an integral over time in ms; ours is the mean over time, and the"
                " best there is comes from a local search that knows everything.",
            ),
        )


@dataclass(frozen=True)
class LoadPhase:
    """An interval with fixed use of servers by others."""

    loads: Mapping[str, float]
    best_s: float
    """The latency of the query's optimal placement."""


def _phases(made: Instance, seed: int, lasts_s: int) -> list[LoadPhase]:
    rng = Random(seed)
    (query,) = made.queries
    found: list[LoadPhase] = []
    known: list[dict[str, str]] = []
    for _ in range(0, lasts_s, EVERY_S):
        busy = rng.sample(sorted(made.network.servers), BUSY_SERVERS)
        loads = {name: rng.uniform(*BUSY) for name in busy}
        others: dict[Spot, Use] = {
            name: Use(load, 2 * load * SERVICE_S, 0.0) for name, load in loads.items()
        }
        books = Books(made.network, others)
        hosts, _ = local_search(query, books, rng, known, kicks=4, nearby=SERVERS)
        books.add(query, Placement(hosts))
        found.append(LoadPhase(loads, books.latency_s(query.name)))
        known = [hosts]
    return found


def _run(made: Instance, seed: int, beta: float, phases: list[LoadPhase]) -> Run:
    (query,) = made.queries
    options = AntOptions(beta=beta, again_us=2 * SECOND, settle_us=4 * SECOND)
    colony = colony_on(made, seed, options)
    moves = colony.moves
    lost: list[float] = []
    for phase in phases:
        for name in made.network.servers:
            colony.disturb(name, phase.loads.get(name, 0.0), SERVICE_S)
        for _ in range(EVERY_S):
            colony.run(1)
            if query.name in colony.placements:
                lost.append(max(0.0, colony.books().latency_s(query.name) - phase.best_s))
    return Run(colony.moves - moves, fmean(lost) * 1e3)


def _claims(found: dict[float, list[Run]]) -> tuple[Claim, ...]:
    updates = [fmean(run.updates for run in runs) for runs in found.values()]
    losses = [fmean(run.loss_ms for run in runs) for runs in found.values()]
    return (
        Claim(
            "Updates fall with beta, from 1.1 to 2.0",
            updates,
            never_rising(),
            "15 10 7 2 1",
            Source.TABLE,
            " ".join(f"{value:.1f}" for value in updates),
        ),
        Claim(
            "The loss grows with beta (ms)",
            losses,
            never_falling(),
            "0 25.87 59.23 78.67 101.23",
            Source.TABLE,
            " ".join(f"{value:.2f}" for value in losses),
        ),
    )


def _table(found: dict[float, list[Run]]) -> Table:
    rows = tuple(
        (
            beta,
            round(fmean(run.updates for run in runs), 1),
            PAPER[beta][0],
            round(fmean(run.loss_ms for run in runs), 3),
            PAPER[beta][1],
        )
        for beta, runs in found.items()
    )
    columns = ("beta", "updates", "paper", "loss (ms)", "paper")
    return Table(f"A query of {TASKS} tasks on {SERVERS} servers, disturbed", columns, rows)


EXPERIMENT = AntsBeta()
