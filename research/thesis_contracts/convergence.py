"""How close contracts come to acceptable allocations (thesis tables 7.1 to 7.3, figure 7-1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

import numpy as np

from research.claims import Claim, Picture, Progress, Result, Table, Value
from research.plots import Plot, Series
from research.predicates import at_most, between
from research.thesis_contracts.arrays.graphs import diameter
from research.thesis_contracts.arrays.instance import simulate
from research.thesis_contracts.arrays.loads import THESIS_LOADS
from research.thesis_contracts.arrays.variants import (
    SIZE,
    Configuration,
    Variant,
    figure_7_1,
    run_all,
    topology,
)

TOPOLOGIES = 10
CONTRACTS = range(1, 11)
TABLE_7_1 = {
    "max": (13, 14, 15, 16, 16, 17, 18, 18, 18, 18),
    "diameter": (20, 11, 8, 7, 6, 5, 5, 5, 4, 4),
}

Key = tuple[Variant, float, int]


@dataclass(frozen=True)
class Cell:
    """The misplaced load in the runs of one configuration, as parts of one."""

    runs: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the runs."""
        return float(np.mean(self.runs))

    @property
    def worst(self) -> float:
        """The worst run."""
        return max(self.runs)


class ContractsConvergence:
    """Sixteen hundred runs, from skewed loads until movements stop."""

    name = "contracts-convergence"
    description = "How much load stays misplaced with 1 to 10 contracts of four kinds."
    reproduces = "thesis tables 7.1 to 7.3, figure 7-1"
    duration = "1 min, quick 10 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run all configurations, or with `quick` two topologies of ten and every other
        contract.
        """
        topologies = 2 if quick else TOPOLOGIES
        contracts = (1, 2, 4, 5, 8, 10) if quick else tuple(CONTRACTS)
        cells = _cells(topologies, contracts, progress)
        progress("the diameters of the topologies")
        return Result(
            _claims(cells),
            (_topologies(topologies, contracts), *(_table(cells, contracts, v) for v in Variant)),
            _DEVIATIONS,
            tuple(_picture(cells, contracts, level) for level in THESIS_LOADS),
        )


def _one(configuration: Configuration) -> float:
    return configuration.misplaced(simulate(configuration.instance()))


def _cells(topologies: int, contracts: Iterable[int], progress: Progress) -> dict[Key, Cell]:
    every = list(figure_7_1(topologies, tuple(contracts)))
    found = run_all(every, _one, lambda n: progress(f"run {n:,} of {len(every):,}"))
    cells: dict[Key, list[float]] = {}
    for configuration, misplaced in zip(every, found, strict=True):
        key = configuration.variant, configuration.level, configuration.contracts
        cells.setdefault(key, []).append(misplaced)
    return {key: Cell(tuple(runs)) for key, runs in cells.items()}


# --- claims -------------------------------------------------------------------------------


def _claims(cells: dict[Key, Cell]) -> tuple[Claim, ...]:
    fixed, ranged = Variant.UNIFORM_FIXED, Variant.UNIFORM_RANGE
    return (
        *(
            _most(
                f"Uniform range, two contracts, {level:.0%} load: nothing misplaced (%, worst run)",
                cells[ranged, level, 2].worst,
                0.0,
                "0",
            )
            for level in (0.5, 0.75)
        ),
        *(
            _most(
                f"Uniform range, two contracts, {level:.0%} load: capacity unused (%, mean)",
                cells[ranged, level, 2].mean,
                0.005,
                "less than 0.5",
            )
            for level in (1.25, 1.5)
        ),
        Claim(
            "Uniform fixed, two contracts, 50% load: about 5% misplaced (%, mean)",
            _percent(cells[fixed, 0.5, 2].mean),
            between(4, 6),
            5,
        ),
        _most(
            "Uniform fixed, five contracts, 50% load: under 1% misplaced (%, worst run)",
            cells[fixed, 0.5, 5].worst,
            0.01,
            "less than 1",
        ),
        _most(
            "Uniform fixed, eight contracts, 75% load: under 2% misplaced (%, worst run)",
            cells[fixed, 0.75, 8].worst,
            0.02,
            "less than 2",
        ),
        *(
            _most(
                f"Uniform fixed, four contracts, {level:.0%} load: over 95% of capacity used"
                " (% unused, worst run)",
                cells[fixed, level, 4].worst,
                0.05,
                "less than 5",
            )
            for level in (1.25, 1.5)
        ),
        _most(
            "Uniform fixed, five contracts, 150% load: over 99% of capacity used"
            " (% unused, worst run)",
            cells[fixed, 1.5, 5].worst,
            0.01,
            "less than 1",
        ),
        *(
            _most(
                f"Heterogeneous range, two contracts, {level:.0%} load: at most 5% left (%, mean)",
                cells[Variant.MIXED_RANGE, level, 2].mean,
                0.05,
                "5",
            )
            for level in THESIS_LOADS
        ),
        _acceptable_with_six(cells),
    )


def _most(text: str, ours: float, bound: float, paper: str) -> Claim:
    return Claim(text, _percent(ours), at_most(100 * bound), paper)


def _percent(part: float) -> float:
    return round(100 * part, 3)


def _acceptable_with_six(cells: dict[Key, Cell]) -> Claim:
    """Light load, heterogeneous ranges: acceptable from some number of contracts on."""
    mixed = {n: cell.worst for (v, level, n), cell in cells.items() if v is Variant.MIXED_RANGE and level == 0.5}  # fmt: skip
    good = [n for n in mixed if all(mixed[m] == 0 for m in mixed if m >= n)]
    first = min(good, default=inf)
    return Claim(
        "Heterogeneous range, 50% load: acceptable in all runs from so many contracts on",
        first,
        at_most(8),
        6,
    )


# --- tables and plots ----------------------------------------------------------------------


def _topologies(topologies: int, contracts: tuple[int, ...]) -> Table:
    rows = []
    for least in contracts:
        graphs = [topology(SIZE, least, number) for number in range(topologies)]
        spans = [diameter(graph) for graph in graphs]
        rows.append(
            (
                least,
                max(int(graph.degrees.max()) for graph in graphs),
                TABLE_7_1["max"][least - 1],
                round(float(np.mean(spans)), 1),
                TABLE_7_1["diameter"][least - 1],
                min(spans),
                max(spans),
            )
        )
    columns = ("least contracts", "most", "paper", "diameter", "paper", "smallest", "largest")
    return Table("Table 7.1: the topologies", columns, tuple(rows))


def _table(cells: dict[Key, Cell], contracts: tuple[int, ...], variant: Variant) -> Table:
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (
            f"{level:.0%} load, % {'unused' if level > 1 else 'misplaced'}",
            *(_percent(cells[variant, level, n].mean) for n in contracts),
        )
        for level in THESIS_LOADS
    )
    columns = ("contracts", *map(str, contracts))
    return Table(f"Figure 7-1: {variant.value} (mean of the runs)", columns, rows)


def _picture(cells: dict[Key, Cell], contracts: tuple[int, ...], level: float) -> Picture:
    series = [
        Series(v.value, tuple((float(n), 100 * cells[v, level, n].mean) for n in contracts))
        for v in Variant
    ]
    what = "capacity unused (%)" if level > 1 else "tasks misplaced (%)"
    title = f"Figure 7-1: {what} at {level:.0%} load"
    return Picture(f"7-1-{level * 100:.0f}", Plot(title, "contracts at least", what, series))


_DEVIATIONS = (
    "Heterogeneous capacities are uniform between 80 and 120 as in table 7.2; the text of 7.1.2"
    " also says that prices are at most 100, which would make five of six contracts equal.",
    "Participants wake up at random moments of the first second; the thesis does not say when.",
    "Load and capacity are the node's own; figure 7-1 is a plot, so its values are not here.",
)
EXPERIMENT = ContractsConvergence()
