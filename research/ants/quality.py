"""The quality of the ants' placements (ants, figure 2)."""

from __future__ import annotations

from random import Random
from statistics import fmean

from australis.placement.model import Books, footprint
from research.ants.runs import (
    DEVIATIONS,
    best_known,
    colony_on,
    instance,
    random_books,
)
from research.ants.search import descent, local_search, optimum
from research.claims import Claim, Progress, Result, Table, own_claim
from research.predicates import at_most, below, exactly

SERVERS = 12
TASKS = (2, 4, 6, 8, 10)
EXHAUSTIVE = 10_000_000
"""The largest number of placements for which the optimum is searched exhaustively."""
SEEDS = range(20)
QUICK = range(4)
QUERIES = (10, 25, 50, 100)
FEW = (5, 10)
MANY_SERVERS = 30
IMPROVE_S = 60
NOT_MUCH_WORSE = 1.05


class AntsQuality:
    """One query beside the optimum; many beside a centralized search, random choice, and the best
    known.
    """

    name = "ants-quality"
    description = "Latency of placements by ants, beside the optimum, a centre and chance."
    reproduces = "ants figure 2"
    duration = "4 min, quick 40 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run both parts; with `quick` fewer seeds and queries."""
        one = _one_query(QUICK if quick else SEEDS, progress)
        many = _many_queries(FEW if quick else QUERIES, progress)
        return Result(
            (*_one_claims(one), *_many_claims(many)),
            (_one_table(one), _many_table(many)),
            (
                *DEVIATIONS,
                "With more placements than ten million the best is what a local search finds, which"
                " moves tasks alone and together, with kicks.",
                "Many queries: the ants improve their placements for a minute. The centre's steepest"
                " descent starts once at random. The best known is the better of both, improved query"
                " by query by moves of tasks.",
            ),
        )


# --- one query -----------------------------------------------------------------------------------

Ratios = dict[int, list[tuple[float, float, float]]]
"""The latencies of ants, the optimum and random choice for each seed, by the number of tasks."""


def _one_query(seeds: range, progress: Progress) -> Ratios:
    found: Ratios = {}
    for tasks in TASKS:
        progress(f"a query of {tasks} tasks")
        found[tasks] = []
        for seed in seeds:
            made = instance(1_000 * tasks + seed, SERVERS, 1, (tasks, tasks), rate=30.0)
            (query,) = made.queries
            colony = colony_on(made, seed)
            empty = Books(made.network)
            placement = colony.placements[query.name]
            reached = footprint(query, placement, made.network)
            assert reached is not None
            ants = empty.cost_s(reached)
            hosts, best = local_search(
                query, empty, Random(seed), [dict(placement.hosts)], kicks=10
            )
            if SERVERS**tasks <= EXHAUSTIVE:
                _, best = optimum(query, empty, hosts)
            chance = random_books(made, Random(seed)).latency_s(query.name)
            found[tasks].append((ants, min(best, ants), chance))
    return found


def _one_claims(found: Ratios) -> list[Claim]:
    small = [a / b for n, rows in found.items() if SERVERS**n <= EXHAUSTIVE for a, b, _ in rows]
    large = [a / b for n, rows in found.items() if SERVERS**n > EXHAUSTIVE for a, b, _ in rows]
    return [
        Claim(
            "Latency of a query, times the optimum (at most ten million placements), mean",
            fmean(small),
            at_most(NOT_MUCH_WORSE),
            "not much worse",
        ),
        own_claim(
            "The same for larger queries, times the best that is known",
            fmean(large),
            at_most(NOT_MUCH_WORSE),
        ),
    ]


def _one_table(found: Ratios) -> Table:
    rows = []
    for tasks, values in found.items():
        ratios = [ants / best for ants, best, _ in values]
        ants, best, chance = (fmean(column) * 1e3 for column in zip(*values, strict=True))
        sure = "optimum" if SERVERS**tasks <= EXHAUSTIVE else "best known"
        rows.append(
            (
                tasks,
                round(ants, 2),
                round(best, 2),
                sure,
                round(chance, 2),
                round(fmean(ratios), 4),
                round(max(ratios), 3),
            )
        )
    columns = ("tasks", "ants (ms)", "best (ms)", "which is", "random (ms)", "ratio", "worst")
    return Table(f"Latency of one query on {SERVERS} servers", columns, tuple(rows))


# --- many queries --------------------------------------------------------------------------------

Means = dict[int, dict[str, float]]


def _many_queries(numbers: tuple[int, ...], progress: Progress) -> Means:
    found: Means = {}
    for number in numbers:
        progress(f"{number} queries: ants")
        made = instance(number, MANY_SERVERS, number, (2, 5), rate=15.0)
        colony = colony_on(made, number)
        colony.run(IMPROVE_S)
        ants = colony.books()
        progress(f"{number} queries: a centre")
        rng = Random(number)
        hosts, total, _ = descent(made.queries, made.network, rng, starts=1)
        progress(f"{number} queries: the best that is known")
        by_ants = {name: dict(p.hosts) for name, p in colony.placements.items()}
        starts = [hosts, *([by_ants] if len(by_ants) == number else [])]
        best = best_known(made, starts, rng)
        chance = random_books(made, rng)
        found[number] = {
            "placed": len(colony.placements),
            "ants": ants.mean_latency_s(),
            "centre": total / number,
            "best": min(best.mean_latency_s(), ants.mean_latency_s()),
            "random": chance.mean_latency_s(),
        }
    return found


def _many_claims(found: Means) -> list[Claim]:
    last = max(found)
    most = found[last]
    missing = sum(number - int(means["placed"]) for number, means in found.items())
    beside = most["ants"] / most["best"]
    return [
        own_claim("Queries that ants could not place", missing, exactly(0)),
        Claim(
            f"{last} queries: mean latency, part of that of a centre",
            most["ants"] / most["centre"],
            below(1),
            "better",
        ),
        Claim(
            f"{last} queries: mean latency, part of that by chance",
            most["ants"] / most["random"],
            below(1),
            "better",
        ),
        Claim(
            f"{last} queries: mean latency, times the best that is known",
            beside,
            at_most(NOT_MUCH_WORSE),
            "similar",
        ),
    ]


def _many_table(found: Means) -> Table:
    rows = tuple(
        (number, *(round(means[key] * 1e3, 2) for key in ("ants", "best", "centre", "random")))
        for number, means in found.items()
    )
    columns = ("queries", "ants (ms)", "best known (ms)", "centre (ms)", "random (ms)")
    return Table(f"Mean latency of many queries on {MANY_SERVERS} servers", columns, rows)


EXPERIMENT = AntsQuality()
