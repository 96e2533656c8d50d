"""Placements that adapt to changes (ants, figure 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean

from australis.placement.queries import Query
from australis.protocols.ants.events import AntOptions
from australis.sim.ants.simulation import AntsSimulation
from research.ants.runs import DEVIATIONS, Instance, colony_on, instance
from research.claims import Claim, Progress, Result, Table, own_claim
from research.predicates import at_most, below, exactly

CHANGES_S = (20, 60)
LASTS_S = 100
EVERY_S = 10
SEEDS = range(8)
QUICK = range(2)
SERVERS = 20
TASKS = 10
RATE = 90.0
RAISE = 1.6
"""The factor by which rates grow each time."""
QUERIES = 200
MORE = 50
FEW, FEW_MORE = 16, 8
MANY_SERVERS = 100
FEW_SERVERS = 12
NEVER_US = 1 << 60


@dataclass(frozen=True)
class Course:
    """Latencies over time, and the number of times queries were placed anew."""

    latencies_s: tuple[float, ...]
    moves: tuple[int, ...]


class AntsAdaptation:
    """The same changes with ants that look for better placements, and with ants that do not."""

    name = "ants-adaptation"
    description = "Rates that rise and queries that come, with and without self-optimisation."
    reproduces = "ants figure 3"
    duration = "3 min, quick 15 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run both parts; with `quick` fewer seeds and queries."""
        seeds = QUICK if quick else SEEDS
        rates: dict[bool, list[Course]] = {True: [], False: []}
        for seed in seeds:
            for optimises in (True, False):
                progress(f"rates rise, seed {seed}, {_way(optimises)}")
                rates[optimises].append(_rates_rise(seed, optimises))
        number, more = (FEW, FEW_MORE) if quick else (QUERIES, MORE)
        added = {}
        servers = FEW_SERVERS if quick else MANY_SERVERS
        for optimises in (True, False):
            progress(f"{2 * more} queries come, {_way(optimises)}")
            added[optimises] = _queries_come(servers, number, more, optimises)
        return Result(
            (*_rate_claims(rates), *_query_claims(added)),
            (_rate_table(rates), _query_table(added)),
            (
                *DEVIATIONS,
                "The paper raises its rates by 10 ms, which is no rate; here they grow to"
                f" {RAISE:g} times what they were, twice.",
                "How a latency is at a moment is worked out by the model from where tasks are then.",
            ),
        )


def _way(optimises: bool) -> str:
    return "with self-optimisation" if optimises else "without"


def _options(optimises: bool) -> AntOptions:
    return AntOptions() if optimises else AntOptions(again_us=NEVER_US)


def _rates_rise(seed: int, optimises: bool) -> Course:
    one = instance(seed, SERVERS, 1, (TASKS, TASKS), RATE)
    colony = colony_on(one, seed, _options(optimises))
    (query,) = one.queries

    def change(step: int) -> None:
        colony.change_rates(faster(query, RAISE ** (step + 1)))

    return _course(colony, change)


def faster(query: Query, times: float) -> Query:
    """The same query with higher rates."""
    producers = tuple(replace(p, rate=p.rate * times) for p in query.producers)
    return replace(query, producers=producers)


def _queries_come(servers: int, number: int, more: int, optimises: bool) -> Course:
    every = instance(1, servers, number + 2 * more, (2, 5), rate=30.0)
    first = Instance(every.network, every.queries[:number])
    colony = colony_on(first, 1, _options(optimises), apart_s=0.2)

    def change(step: int) -> None:
        for query in every.queries[number + step * more : number + (step + 1) * more]:
            colony.submit(query)

    return _course(colony, change)


def _course(colony: AntsSimulation, change: Callable[[int], None]) -> Course:
    latencies, moves = [], []
    for at in range(0, LASTS_S + 1, EVERY_S):
        if at in CHANGES_S:
            change(CHANGES_S.index(at))
        latencies.append(colony.books().mean_latency_s())
        moves.append(colony.moves)
        colony.run(EVERY_S)
    return Course(tuple(latencies), tuple(moves))


# --- results -------------------------------------------------------------------------------------


def _after(course: Course, change: int) -> float:
    """The mean from a while after a change to the next one or the end."""
    end = CHANGES_S[change + 1] if change + 1 < len(CHANGES_S) else LASTS_S + EVERY_S
    values = course.latencies_s[CHANGES_S[change] // EVERY_S + 1 : end // EVERY_S]
    return fmean(values)


def _rate_claims(found: dict[bool, list[Course]]) -> list[Claim]:
    ratios = [
        _after(a, change) / _after(b, change)
        for a, b in zip(found[True], found[False], strict=True)
        for change in range(len(CHANGES_S))
    ]
    late = sum(course.moves[-1] - course.moves[-3] for course in found[True])
    return [
        Claim(
            "Rates rise: latency with self-optimisation, part of that without",
            fmean(ratios),
            below(1),
            "clearly better",
        ),
        own_claim("Rates rise: placements in the last 20 s, all runs", late, at_most(1)),
    ]


def _query_claims(found: dict[bool, Course]) -> list[Claim]:
    ratio = _after(found[True], 1) / _after(found[False], 1)
    moved = found[True].moves
    late = moved[-1] - moved[-2]
    return [
        Claim(
            "Queries come: mean latency with self-optimisation, part of that without",
            ratio,
            below(1),
            "improves",
        ),
        Claim(
            f"Queries come: placements in the last {EVERY_S} s",
            late,
            exactly(0),
            "does not go on for ever",
        ),
    ]


def _rate_table(found: dict[bool, list[Course]]) -> Table:
    rows = tuple(
        (
            at * EVERY_S,
            *(
                round(fmean(course.latencies_s[at] for course in found[way]) * 1e3, 2)
                for way in (True, False)
            ),
            sum(course.moves[at] for course in found[True]),
        )
        for at in range(len(found[True][0].latencies_s))
    )
    columns = ("time (s)", "with (ms)", "without (ms)", "moves, all runs")
    return Table(f"A query of {TASKS} tasks; rates rise at 20 s and 60 s", columns, rows)


def _query_table(found: dict[bool, Course]) -> Table:
    rows = tuple(
        (
            at * EVERY_S,
            round(found[True].latencies_s[at] * 1e3, 2),
            round(found[False].latencies_s[at] * 1e3, 2),
            found[True].moves[at],
        )
        for at in range(len(found[True].latencies_s))
    )
    columns = ("time (s)", "with (ms)", "without (ms)", "moves")
    return Table("Many queries; more come at 20 s and 60 s", columns, rows)


EXPERIMENT = AntsAdaptation()
