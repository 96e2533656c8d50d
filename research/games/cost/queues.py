"""The same loads task by task, with finite queues."""

from __future__ import annotations

from functools import partial
from statistics import fmean

from research.claims import Claim, Progress, Source, Table, own_claim
from research.games.runs import (
    STRATEGIES,
    many,
    shown,
)
from research.games.trial import (
    BUFFER,
    Worked,
    cooperative,
    load_named,
    repetition,
    selfish,
    with_queues,
)
from research.games.workloads import RANDOM_WALK, STEPS, WORKLOADS
from research.predicates import above, each, within

AGREES = 0.03
QUEUED = range(10)
BUFFERS = (1, 2, 5, 10, 20, 50)
LASTS_QUICK = 60


def _queue(name: str, steps: int, seed: int) -> tuple[Worked, Worked]:
    load = repetition(load_named(name), seed)
    load = load[:: len(load) // steps]
    return with_queues(selfish, load, seed), with_queues(cooperative, load, seed)


def measure_queued(quick: bool, progress: Progress) -> dict[str, list[tuple[Worked, Worked]]]:
    steps = LASTS_QUICK if quick else STEPS
    seeds = range(1) if quick else QUEUED
    return {
        workload.name: many(
            partial(_queue, workload.name, steps), seeds, progress, f"{workload.name}, queues"
        )
        for workload in WORKLOADS
    }


def queue_claims(found: dict[str, list[tuple[Worked, Worked]]]) -> list[Claim]:
    agreements = [w.agreement for runs in found.values() for pair in runs for w in pair]
    worst = max(agreements, key=lambda a: abs(a - 1))
    savings = [
        1 - fmean(b.cost for _, b in runs) / fmean(a.cost for a, _ in runs)
        for runs in found.values()
    ]
    return [
        own_claim(
            f"Loads of 600 steps: tasks completed with queues of {BUFFER}, times what the model says; the"
            " farthest from 1",
            worst,
            within(1, absolute=AGREES),
        ),
        Claim(
            "Cooperation saves a part of the cost with queues too (cyclic, trend, rwalk)",
            savings,
            each(above(0)),
            "5.2% 14.6% 8.0%",
            Source.TABLE,
            " ".join(f"{saving:.1%}" for saving in savings),
        ),
    ]


def queue_table(found: dict[str, list[tuple[Worked, Worked]]]) -> Table:
    rows = []
    for name, runs in found.items():
        for at, strategy in enumerate(STRATEGIES):
            worked = [pair[at] for pair in runs]
            rows.append(
                (
                    name,
                    strategy,
                    shown((w.completed for w in worked), 0),
                    shown((w.model_completed for w in worked), 0),
                    round(fmean(w.agreement for w in worked), 4),
                    f"{fmean(w.apart(AGREES) for w in worked):.0%}",
                    shown(w.cost for w in worked),
                    shown(w.model_cost for w in worked),
                )
            )
    columns = (
        "load",
        "strategy",
        "completed",
        "by the model",
        "part",
        "steps off",
        "cost",
        "by the model",
    )
    times = len(next(iter(found.values())))
    return Table(f"Task by task with queues of {BUFFER}, {times} repetitions", columns, tuple(rows))


def measure_steady(quick: bool, every_s: float) -> tuple[float, float, float]:
    """A constant load: completed tasks relative to the model's prediction, by strategy."""
    load = [every_s] * (12 if quick else 60)
    return (
        every_s,
        with_queues(selfish, load, 1).agreement,
        with_queues(cooperative, load, 1).agreement,
    )


def steady_claim(found: list[tuple[float, float, float]]) -> Claim:
    worst = max((part for _, *parts in found for part in parts), key=lambda part: abs(part - 1))
    return own_claim(
        f"Loads that stay: tasks completed with queues of {BUFFER}, times what the model says; the"
        " farthest from 1",
        worst,
        within(1, absolute=AGREES),
    )


def steady_table(found: list[tuple[float, float, float]]) -> Table:
    rows = tuple((every_s, round(a, 4), round(b, 4)) for every_s, a, b in found)
    return Table(
        f"Loads that stay: completed tasks, times what the model says, queues of {BUFFER}",
        ("a task every (s)", "selfish", "cooperative"),
        rows,
    )


def _size(steps: int, buffer: int) -> tuple[int, float, float]:
    load = repetition(RANDOM_WALK, 0)
    load = load[:: len(load) // steps]
    return (
        buffer,
        with_queues(selfish, load, 0, buffer).agreement,
        with_queues(cooperative, load, 0, buffer).agreement,
    )


def measure_sizes(quick: bool, progress: Progress) -> list[tuple[int, float, float]]:
    steps = LASTS_QUICK if quick else STEPS // 4
    return many(partial(_size, steps), BUFFERS, progress, "sizes of queues")


def size_table(found: list[tuple[int, float, float]]) -> Table:
    rows = tuple((buffer, round(a, 4), round(b, 4)) for buffer, a, b in found)
    return Table(
        "rwalk: completed tasks, times what the model says, by the size of queues",
        ("size", "selfish", "cooperative"),
        rows,
    )
