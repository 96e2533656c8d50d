"""Large queries on real networks, beside the best known placement and a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from australis.placement import generate
from australis.placement.model import Books
from research.ants.beyond.common import NEAR
from research.ants.bound import least_latency_s
from research.ants.networks import measured
from research.ants.runs import Instance, colony_on
from research.ants.search import local_search
from research.claims import Claim, Progress, Table, own_claim
from research.predicates import at_most, exactly

IMPROVE_S = 60


@dataclass(frozen=True)
class Large:
    """One query."""

    network: str
    servers: int
    tasks: int
    ants_s: float
    best_s: float
    bound_s: float


def measure_large(
    networks: Sequence[str], sizes: Sequence[int], seeds: range, progress: Progress
) -> list[Large]:
    found = []
    for name in networks:
        for tasks in sizes:
            progress(f"{tasks} tasks on {name}")
            for seed in seeds:
                rng = Random(f"{name} {tasks} {seed}")
                network = measured(name, rng)
                query = generate.query("q", network, tasks, rng, rate=10.0)
                colony = colony_on(Instance(network, (query,)), seed)
                colony.run(IMPROVE_S)
                ants = colony.books().latency_s("q")
                start = dict(colony.placements["q"].hosts)
                _, best = local_search(query, Books(network), rng, [start], kicks=5)
                bound = least_latency_s(query, network)
                found.append(Large(name, len(network.servers), tasks, ants, min(ants, best), bound))
    return found


def large_claims(found: list[Large]) -> list[Claim]:
    ratio = fmean(one.ants_s / one.best_s for one in found)
    below = sum(one.best_s < one.bound_s * (1 - 1e-9) for one in found)
    return [
        own_claim(
            f"Up to {max(o.tasks for o in found)} tasks on real networks: latency, times the best known,"
            " mean",
            ratio,
            at_most(NEAR),
        ),
        own_claim("Placements below the bound", below, exactly(0)),
    ]


def large_table(found: list[Large]) -> Table:
    rows = []
    for key in dict.fromkeys((one.network, one.servers, one.tasks) for one in found):
        these = [one for one in found if (one.network, one.servers, one.tasks) == key]
        rows.append(
            (
                *key,
                round(fmean(one.ants_s for one in these) * 1e3, 2),
                round(fmean(one.ants_s / one.best_s for one in these), 4),
                round(fmean(one.ants_s / one.bound_s for one in these), 3),
                round(fmean(one.best_s / one.bound_s for one in these), 3),
            )
        )
    columns = (
        "network", "servers", "tasks", "ants (ms)", "times best known", "times the bound",
        "best known, times the bound",
    )  # fmt: skip
    return Table("One large query on a real network", columns, tuple(rows))
