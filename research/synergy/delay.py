"""End-to-end delay with and without load management (synergy, figure 4)."""

from __future__ import annotations

from statistics import fmean

from australis.sim.hotspots.simulation import Managed
from research.claims import Claim, Progress, Result, Table, own_claim
from research.predicates import at_most, exactly
from research.synergy.runs import DEVIATIONS, QUICK, SEEDS, outcome

CLEARLY = 0.8


class SynergyDelay:
    """The same peers, applications and rates, once with hot spots relieved and once without."""

    name = "synergy-delay"
    description = "Delay of applications of five operators on 30 peers, with and without moves."
    reproduces = "synergy figure 4"
    duration = "1 min, quick 15 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run ten seeds; with `quick` two."""
        rows, ratios = [], []
        for seed in QUICK if quick else SEEDS:
            progress(f"seed {seed}")
            without, managed = outcome(seed, Managed.NOBODY), outcome(seed)
            before, after = fmean(without.delays_s), fmean(managed.delays_s)
            ratios.append(after / before)
            rows.append((seed, round(before, 1), round(after, 1), managed.moved))
        ratio = fmean(ratios)
        columns = ("seed", "without (s)", "with (s)", "components moved")
        return Result(
            (
                Claim(
                    "Mean end-to-end delay with load management, part of that without",
                    ratio,
                    at_most(CLEARLY),
                    "significantly less than 1",
                ),
                own_claim(
                    "Runs in which it is lower",
                    sum(r < 1 for r in ratios),
                    exactly(len(ratios)),
                ),
            ),
            (Table("Mean delay from source to receiver", columns, tuple(rows)),),
            DEVIATIONS,
        )


EXPERIMENT = SynergyDelay()
