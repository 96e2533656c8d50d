"""How much load moves after a sudden change (medusa 5.3, figure 11)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from australis.kernel.durations import SECOND
from research.claims import Claim, Picture, Progress, Result, Table
from research.medusa.topologies import Prices, priced
from research.plots import Plot, Series
from research.predicates import at_most, below, exactly
from research.thesis_contracts.arrays.changes import step_changes
from research.thesis_contracts.arrays.instance import FederationOutcome, simulate

SIZE = 50
CONTRACTS = 3
FROM_S, UNTIL_S, END_S = 60, 120, 180
EXTRA = 10
"""The number of operators added at each chosen participant."""
STEPS = {"30%": 10, "15%": 5}
"""The number of participants that receive them."""
BEGINS = (4, 9)
"""The number of operators at each participant before: 325 in all, on average, so that a hundred are
30%.
"""
RUNS = 20
MOST_MOVES = 2.0
"""An operator may have to pass through one participant to reach another."""


@dataclass(frozen=True)
class Moved:
    """The operators that moved when load was added, and when it was removed."""

    needed: float
    """The number of added operators above the capacity of their participants."""
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


def _run(prices: Prices, step: str, number: int) -> tuple[int, FederationOutcome]:
    """The operators above their participants' capacity, and the movements that follow."""
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
            large.came / large.needed,
            at_most(MOST_MOVES),
            "a few re-allocations",
        ),
        Claim(
            "30% more: fixed prices move no more than a range (part)",
            fixed.came / large.came,
            at_most(1),
            "fewer",
            shown=f"{fixed.came:.1f} and {large.came:.1f}",
        ),
        Claim(
            "15% more moves less than 30% more, range (part)",
            small.came / large.came,
            below(1),
            "almost insignificant",
            shown=f"{small.came:.1f} and {large.came:.1f}",
        ),
        Claim(
            "Load goes, fixed prices: operators moved",
            fixed.went,
            exactly(0),
            0,
        ),
        Claim(
            "Load goes, range: fewer operators move than when it came (part)",
            large.went / large.came,
            below(1),
            "a small number",
            shown=f"{large.went:.1f} and {large.came:.1f}",
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
    return Picture("11", Plot(title, "time (s)", "operators in a second", curves))


_DEVIATIONS = (
    "The paper does not say what participants have before: ours have four to nine operators each.",
    "When load goes, whatever operators run at the participants it came to go, as many as came.",
)
EXPERIMENT = MedusaStability()
