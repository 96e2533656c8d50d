"""Figure 14: the cost of each module over time."""

from __future__ import annotations

from statistics import fmean

from research.claims import Picture, Table
from research.games.runs import (
    SHOWN,
    both,
)
from research.games.workloads import RANDOM_WALK, STEPS
from research.plots import Plot, Series

SMOOTH = 20


def module_table() -> Table:
    """The cost of each module under pressure, on the random walk."""
    alone, together, _, _ = both(RANDOM_WALK, 0)
    rows = []
    for module in SHOWN:
        paid = [
            fmean(costs[module] for costs in played.costs[130:400]) for played in (alone, together)
        ]
        rows.append((module, round(paid[0], 3), round(paid[1], 3), f"{paid[1] / paid[0] - 1:+.1%}"))
    columns = ("module", "selfish", "cooperative", "change")
    return Table("rwalk, steps 130 to 400: what each module pays a step", columns, tuple(rows))


def picture() -> Picture:
    alone, together, _, _ = both(RANDOM_WALK, 0)
    series = [
        Series(
            f"{module}, {name}",
            tuple(
                (n, fmean(c[module] for c in played.costs[n : n + SMOOTH]))
                for n in range(0, STEPS, SMOOTH)
            ),
            size=1.0,
        )
        for module in ("denoiser-1", "recognizer")
        for name, played in (("selfish", alone), ("cooperative", together))
    ]
    title = f"rwalk: what modules pay, means of {SMOOTH} steps"
    return Picture("modules", Plot(title, "control step", "cost", series))
