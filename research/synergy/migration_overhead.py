"""The message overhead of load management, by its thresholds (synergy, figure 6)."""

from __future__ import annotations

from statistics import fmean

from australis.sim.hotspots.simulation import HotspotsSetting
from research.claims import Claim, Progress, Result, Table
from research.predicates import at_most, below
from research.synergy.runs import (
    DEVIATIONS,
    PAPER_TRANSFERS,
    PAPER_TUPLES,
    QUICK,
    SEEDS,
    outcome,
    per_paper,
)

OVERLOADS = (1.0, 2.0, 3.0, 4.0)
IMBALANCES = (0.2, 1.0)
MOST = 0.0635


class SynergyMigrationOverhead:
    """Messages of moves and of load updates, relative to the transfers of tuples."""

    name = "synergy-migration-overhead"
    description = "Messages of moves and load updates for different thresholds h and l."
    reproduces = "synergy figure 6, and the overhead of 6.35% in its prose"
    duration = "2 min, quick 20 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run ten seeds; with `quick` two, and one imbalance."""
        seeds = QUICK if quick else SEEDS
        imbalances = IMBALANCES[:1] if quick else IMBALANCES
        found: dict[tuple[float, float], tuple[float, float, float]] = {}
        for overload in OVERLOADS:
            for imbalance in imbalances:
                progress(f"h = {overload:g}, l = {imbalance:g}")
                runs = [outcome(s, overload=overload, imbalance=imbalance) for s in seeds]
                found[overload, imbalance] = (
                    fmean(per_paper(run, run.migration_messages) for run in runs),
                    fmean(per_paper(run, run.updates) for run in runs),
                    fmean(run.moved for run in runs),
                )
        runs = [outcome(seed) for seed in seeds]
        moving, updates, _ = found[2.0, 0.2]
        overhead = (moving + updates) / (PAPER_TUPLES * PAPER_TRANSFERS)
        setting = HotspotsSetting()
        minutes = setting.drawn.peers * setting.minutes
        managing = fmean((run.migration_messages + run.updates) / minutes for run in runs)
        everything = fmean(sum(run.messages.values()) / minutes for run in runs)
        strict, lax = found[OVERLOADS[0], 0.2][0], found[OVERLOADS[-1], 0.2][0]
        rows = tuple(
            (overload, imbalance, round(a), round(b), round(moves, 1))
            for (overload, imbalance), (a, b, moves) in found.items()
        )
        columns = ("h", "l", "migration messages", "load updates", "components moved")
        return Result(
            (
                Claim(
                    "Migration and update messages, part of 2,000 tuples times 4 transfers",
                    overhead,
                    at_most(MOST),
                    MOST,
                ),
                Claim(
                    "Migration messages fall with the threshold h: with h = 4, part of h = 1",
                    lax / max(strict, 1.0),
                    below(1),
                    "tunable by the thresholds",
                ),
            ),
            (
                Table("Messages for 2,000 delivered tuples", columns, rows),
                Table(
                    "Messages per peer and minute, with the paper's thresholds",
                    ("moves and load updates", "all, with the ring's own and copies"),
                    ((round(managing, 2), round(everything)),),
                ),
            ),
            DEVIATIONS,
        )


EXPERIMENT = SynergyMigrationOverhead()
