"""Table V: cost and completed tasks with both strategies."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from research.claims import Claim, Source, Table
from research.games.runs import (
    STRATEGIES,
    Repetition,
    mean_of,
    shown,
)
from research.games.workloads import STEPS
from research.predicates import above, within

PAPER = {
    "cyclic": (1_792, 1_698, 241_736, 289_885),
    "trend": (2_123, 1_812, 248_377, 311_026),
    "rwalk": (1_941, 1_786, 240_851, 300_447),
}
"""Cost and completed tasks, non-cooperative and incentive-based (table V)."""
STABILITY = {"cyclic": 0.95, "trend": 0.82, "rwalk": 0.92}
FITTED = 0.05
"""The allowed distance from the paper's gain in completed tasks, to which loads are fitted without
noise.
"""


def _saving(runs: Sequence[Repetition]) -> float:
    return 1 - fmean(r.cooperative.cost for r in runs) / fmean(r.selfish.cost for r in runs)


def _gain(runs: Sequence[Repetition]) -> float:
    return (
        fmean(r.cooperative.completed for r in runs) / fmean(r.selfish.completed for r in runs) - 1
    )


def claims(found: dict[str, list[Repetition]]) -> list[Claim]:
    listed = []
    for name, runs in found.items():
        cost_a, cost_b, done_a, done_b = PAPER[name]
        sure, error = mean_of(r.selfish.cost - r.cooperative.cost for r in runs)
        listed.append(
            Claim(
                f"{name}: cooperation saves a part of the cost (tolerated: what is saved less its 95 %"
                " confidence interval)",
                sure - error,
                above(0),
                f"{1 - cost_b / cost_a:.1%}",
                Source.TABLE,
                f"{_saving(runs):.1%}",
            )
        )
        gain, paper = _gain(runs), done_b / done_a - 1
        listed.append(
            Claim(
                f"{name}: cooperation completes more tasks (%; fitted, but for noise and estimates)",
                round(100 * gain, 1),
                within(round(100 * paper, 1), absolute=100 * FITTED),
                f"{paper:.1%}",
                Source.TABLE,
            )
        )
    return listed


def table(found: dict[str, list[Repetition]]) -> Table:
    rows = []
    for name, runs in found.items():
        for at, strategy in enumerate(STRATEGIES):
            totals = [run[strategy] for run in runs]
            rows.append(
                (
                    name,
                    strategy,
                    shown(t.cost for t in totals),
                    PAPER[name][at],
                    shown((t.completed for t in totals), 0),
                    PAPER[name][at + 2],
                    round(fmean(t.completed for t in totals) / STEPS),
                    shown((t.beside for t in totals), 3),
                    round(fmean(t.stability for t in totals), 3),
                    round(1 / fmean(t.stability for t in totals), 3),
                    STABILITY[name],
                )
            )
    columns = (
        *("load", "strategy", "cost", "paper", "completed", "paper", "a step"),
        *("cost, times the optimum", "price of stability", "upside down", "paper"),
    )
    many_runs = len(next(iter(found.values())))
    return Table(f"Cost and completed tasks, {many_runs} repetitions", columns, tuple(rows))
