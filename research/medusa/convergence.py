"""The part of the excess load that contracts redistribute (medusa tables 1 and 2, figures 8 to
10).
"""

from __future__ import annotations

from math import inf

import numpy as np

from research.claims import Claim, Picture, Progress, Result, Table
from research.medusa.topologies import (
    SIZE,
    MedusaRun,
    Prices,
    redistributed,
    total_cost,
    used,
)
from research.plots import Plot, Series
from research.predicates import at_least, at_most
from research.thesis_contracts.arrays.graphs import diameter
from research.thesis_contracts.arrays.instance import simulate
from research.thesis_contracts.arrays.variants import topology

CONTRACTS = (1, 3, 5, 7, 9, 10)
RUNS = 9
TABLE_1 = {
    1: (11, 19),
    3: (13, 8),
    5: (14, 6),
    7: (15, 5),
    9: (17, 4),
    10: (18, 4),
}
Found = dict[tuple[Prices, int], float]


class MedusaConvergence:
    """Participants with in-flight costs and fourteen operators each."""

    name = "medusa-convergence"
    description = "How much excess load is redistributed, and how much free capacity is used."
    reproduces = "medusa tables 1 and 2, figures 8 to 10"
    duration = "15 s, quick 5 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run underloaded and overloaded systems, with four kinds of prices."""
        runs = 2 if quick else RUNS
        under: Found = {}
        over: Found = {}
        worst: dict[int, float] = {}
        for prices in Prices:
            for contracts in CONTRACTS:
                progress(f"{prices.value}, {contracts} contracts")
                parts = [_under(prices, contracts, number) for number in range(runs)]
                under[prices, contracts] = float(np.mean(parts))
                if prices is Prices.RANGE:
                    worst[contracts] = min(parts)
                over[prices, contracts] = float(
                    np.mean([_over(prices, contracts, number) for number in range(runs)])
                )
        return Result(
            _claims(under, over, worst),
            (
                _topologies(runs),
                _table("Figure 8: % of the excess load redistributed, underload", under),
                _table("Figure 9: % of the free capacity used, overload", over),
            ),
            _DEVIATIONS,
            (_speed(),),
        )


def _under(prices: Prices, contracts: int, number: int) -> float:
    instance = MedusaRun(prices, "underload", contracts, number).instance()
    return redistributed(instance, simulate(instance))


def _over(prices: Prices, contracts: int, number: int) -> float:
    instance = MedusaRun(prices, "overload", contracts, number).instance()
    return used(instance, simulate(instance))


def _claims(under: Found, over: Found, worst: dict[int, float]) -> tuple[Claim, ...]:
    acceptable = [n for n in CONTRACTS if all(worst[m] == 1 for m in CONTRACTS if m >= n)]
    first = min(acceptable, default=inf)
    return (
        _above("Fixed, ten contracts: excess load redistributed (%)", under[Prices.FIXED, 10], 99),
        _above("Fixed, ten contracts: free capacity used (%)", over[Prices.FIXED, 10], 95),
        Claim(
            "Range: acceptable in all runs from so many contracts on",
            first,
            at_most(7),
            7,
        ),
        _above("Range, ten contracts: free capacity used (%)", over[Prices.RANGE, 10], 98),
        _above(
            "Random fixed, ten contracts: excess load redistributed (%)",
            under[Prices.RANDOM, 10],
            94,
            paper=94,
        ),
    )


def _above(text: str, ours: float, bound: float, paper: float | str | None = None) -> Claim:
    return Claim(text, round(100 * ours, 2), at_least(bound), paper or f"over {bound:g}")


def _topologies(runs: int) -> Table:
    rows = []
    for least in CONTRACTS:
        graphs = [topology(SIZE, least, number) for number in range(runs)]
        most = max(int(graph.degrees.max()) for graph in graphs)
        span = float(np.mean([diameter(graph) for graph in graphs]))
        rows.append((least, most, TABLE_1[least][0], round(span, 1), TABLE_1[least][1]))
    columns = ("least contracts", "most", "paper", "diameter", "paper")
    return Table("Table 1: the topologies", columns, tuple(rows))


def _table(title: str, found: Found) -> Table:
    rows = tuple(
        (prices.value, *(round(100 * found[prices, n], 2) for n in CONTRACTS)) for prices in Prices
    )
    return Table(title, ("contracts", *map(str, CONTRACTS)), rows)


def _speed() -> Picture:
    """Figure 10: the cost of the whole system over time, with five contracts."""
    curves = []
    for prices in Prices:
        points = []
        for seconds in range(31):
            instance = MedusaRun(prices, "underload", 5, 0).instance()
            outcome = simulate(instance, until_us=seconds * 1_000_000)
            points.append((float(seconds), total_cost(outcome.load)))
        curves.append(Series(prices.value, tuple(points)))
    title = "Figure 10: tuples in flight, five contracts, underload"
    return Picture("10", Plot(title, "time (s)", "cost", curves))


_DEVIATIONS = (
    "The papers' averages of 7.7 and 12 operators are drawn uniformly within six of them; the paper"
    " does not say how.",
    "A price that corresponds to fourteen operators lies half-way between what the fourteenth and"
    " the fifteenth cost, so that with one more it pays to shed and with one less to take.",
    "A participant tries to move load every second, in the paper every two: times halve.",
)
EXPERIMENT = MedusaConvergence()
