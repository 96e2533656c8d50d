"""The spread of the peers' loads (synergy, figure 5)."""

from __future__ import annotations

from statistics import fmean, pstdev

from australis.sim.hotspots.simulation import HotspotsOutcome, Managed
from research.claims import Claim, Progress, Result, Table
from research.predicates import above, below
from research.synergy.runs import DEVIATIONS, QUICK, SEEDS, outcome

PARTS = 4


class SynergyBalance:
    """Loads that peers measured, by how many tuples had been delivered by then."""

    name = "synergy-balance"
    description = "Loads of 30 peers over time, with and without moves."
    reproduces = "synergy figure 5"
    duration = "1 min, quick 15 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run ten seeds; with `quick` two."""
        seeds = QUICK if quick else SEEDS
        spread: dict[bool, list[list[float]]] = {False: [], True: []}
        who = {False: Managed.NOBODY, True: Managed.PEERS}
        for seed in seeds:
            progress(f"seed {seed}")
            for managed in (False, True):
                spread[managed].append(_spread(outcome(seed, who[managed])))
        means = {m: [fmean(part) for part in zip(*runs, strict=True)] for m, runs in spread.items()}
        rows = tuple(
            (f"{part + 1} of {PARTS}", round(means[False][part], 2), round(means[True][part], 2))
            for part in range(PARTS)
        )
        last = means[True][-1] / means[False][-1]
        grows = means[False][-1] / means[False][0]
        return Result(
            (
                Claim(
                    "Spread of loads in the last quarter with management, part of that without",
                    last,
                    below(1),
                    "less: they disperse further without",
                ),
                Claim(
                    "Without management the spread grows, last quarter against first",
                    grows,
                    above(1),
                    "disperses further",
                ),
            ),
            (
                Table(
                    "Standard deviation of the loads, by part of the run",
                    ("part", "without", "with"),
                    rows,
                ),
            ),
            DEVIATIONS,
        )


def _spread(found: HotspotsOutcome) -> list[float]:
    """The standard deviation of the loads in each part of a run."""
    size = len(found.loads) // PARTS
    loads = [load for _, load in found.loads]
    return [pstdev(loads[part * size : (part + 1) * size]) for part in range(PARTS)]


EXPERIMENT = SynergyBalance()
