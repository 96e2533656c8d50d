"""What a sudden change of load moves (medusa 5.3, figure 11)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from australis.experiments.claims import Claim, Picture, Progress, Result, Source, Table
from australis.experiments.svg import Series, plot
from australis.kernel.durations import SECOND
from australis.sim.contracts.changes import step_changes
from australis.sim.contracts.instance import Outcome, simulate
from australis.sim.contracts.medusa import Prices, priced

SIZE = 50
CONTRACTS = 3
FROM_S, UNTIL_S, END_S = 60, 120, 180
EXTRA = 10
"""Operators that come to each of some participants."""
STEPS = {"30%": 10, "15%": 5}
"""To how many of them."""
BEGINS = (4, 9)
"""Operators at each before that: 325 in all, on average, so that a hundred are 30%."""
RUNS = 20
MOST_MOVES = 2.0
"""An operator may have to pass through one participant to reach another."""


@dataclass(frozen=True)
class Moved:
    """Operators that moved when load came, and when it went."""

    needed: float
    """So many were above the capacity of whoever they came to."""
    came: float
    went: float


class MedusaStability:
    """Load is added at 60 s and removed at 120 s."""

    name = "medusa-stability"
    description = "How many operators move when a tenth of the participants get more to do."
    reproduces = "medusa figure 11"
    duration = "5 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """A large and a small step, with fixed prices and with a range."""
        runs = 5 if quick else RUNS
        found = {
            (prices, step): _moved(prices, step, runs)
            for prices in (Prices.RANGE, Prices.FIXED)
            for step in STEPS
        }
        return Result(_claims(found), (_table(found),), _DEVIATIONS, (_picture(),))


def _run(prices: Prices, step: str, number: int) -> tuple[int, Outcome]:
    """Operators above the capacity of whoever they came to, and what became of it."""
    rng = np.random.default_rng([number, 11])
    low, high = BEGINS
    load = rng.integers(low, high + 1, SIZE).astype(np.int32)
    instance = priced(prices, load, CONTRACTS, number, rng)
    chosen = rng.permutation(SIZE)[: STEPS[step]]
    changes = step_changes(chosen.tolist(), EXTRA, FROM_S, UNTIL_S)
    needed = int(np.maximum(0, load[chosen] + EXTRA - instance.capacity[chosen]).sum())
    return needed, simulate(instance, changes=changes, until_us=END_S * SECOND, periods=END_S)


def _moved(prices: Prices, step: str, runs: int) -> Moved:
    needed, outcomes = zip(*(_run(prices, step, number) for number in range(runs)), strict=True)
    series = [outcome.series[:, 1] for outcome in outcomes]
    came = float(np.mean([one[FROM_S:UNTIL_S].sum() for one in series]))
    went = float(np.mean([one[UNTIL_S:].sum() for one in series]))
    return Moved(float(np.mean(needed)), came, went)


Found = dict[tuple[Prices, str], Moved]


def _claims(found: Found) -> tuple[Claim, ...]:
    large, small = found[Prices.RANGE, "30%"], found[Prices.RANGE, "15%"]
    fixed = found[Prices.FIXED, "30%"]
    return (
        Claim(
            "30% more, range: operators moved for each that was above a capacity",
            round(large.came / large.needed, 2),
            large.came <= MOST_MOVES * large.needed,
            "a few re-allocations",
            tolerance=f"≤ {MOST_MOVES:g}",
        ),
        Claim(
            "30% more: fixed prices move no more than a range",
            f"{fixed.came:.1f} and {large.came:.1f}",
            fixed.came <= large.came,
            "fewer",
        ),
        Claim(
            "15% more moves less than 30% more, range",
            f"{small.came:.1f} and {large.came:.1f}",
            small.came < large.came,
            "almost insignificant",
        ),
        Claim(
            "Load goes, fixed prices: operators moved",
            round(fixed.went, 2),
            fixed.went == 0,
            0,
            Source.PROSE,
            "exact",
        ),
        Claim(
            "Load goes, range: fewer operators move than when it came",
            round(large.went, 1),
            large.went < large.came,
            "a small number",
        ),
    )


def _table(found: Found) -> Table:
    rows = tuple(
        (f"{prices.value}, {step} more", one.needed, one.came, one.went)
        for (prices, step), one in found.items()
    )
    columns = ("prices", "above capacity", "moved when it came", "moved when it went")
    return Table("Figure 11: operators moved (mean of the runs)", columns, rows)


def _picture() -> Picture:
    curves = []
    for prices in (Prices.RANGE, Prices.FIXED):
        _, outcome = _run(prices, "30%", 0)
        moved = outcome.series[:, 1]
        points = tuple((float(t), float(v)) for t, v in enumerate(moved))
        curves.append(Series(prices.value, points))
    title = "Figure 11: operators moved, 30% more from 60 to 120 s"
    return Picture("11", plot(title, "time (s)", "operators in a second", curves))


_DEVIATIONS = (
    "The paper does not say what participants have before: ours have four to nine operators each.",
    "When load goes, whatever operators run at the participants it came to go, as many as came.",
)
EXPERIMENT = MedusaStability()
