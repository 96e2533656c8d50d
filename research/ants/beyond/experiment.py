"""The experiment `ants-beyond`: all its questions, one after the other."""

from __future__ import annotations

from australis.kernel.durations import SECOND
from research.ants.beyond.failures import failing_claims, failing_table, measure_failing
from research.ants.beyond.large_queries import large_claims, large_table, measure_large
from research.ants.beyond.many_servers import measure_wide, wide_claims, wide_table
from research.ants.beyond.settings import (
    lossy_claims,
    lossy_table,
    measure_lossy,
    measure_sweep,
    sweep_claims,
    sweep_table,
)
from research.ants.runs import DEVIATIONS
from research.claims import Progress, Result

NETWORKS = ("sndlib/abilene", "sndlib/geant", "sndlib/germany50", "topozoo/Geant2012")
TASKS = (10, 20, 40)
SEEDS = range(3)
MANY = 5_000
FEW = 300
QUERIES = 50
EVERY_S = (0, 20, 5)
"""The interval between failures of a server and a link; 0 for none."""
LOSSES = (0.0, 0.05, 0.2)
SWEPT: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("scouts", (3, 6, 24)),
    ("detours", (0, 1, 4)),
    ("routing_ants", (10, 40)),
    ("reinforcement", (0.05, 0.5)),
    ("outstanding", (0.0, 0.1)),
    ("scent_us", (2 * SECOND, 20 * SECOND)),
)
SWEEP = range(30)


class AntsBeyond:
    """Five questions."""

    name = "ants-beyond"
    description = (
        "Large queries on real networks, 5,000 servers, failures, lost ants, other settings."
    )
    reproduces = "nothing: beyond the paper"
    duration = "6 min, quick 15 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run all parts; with `quick` fewer of everything."""
        large = measure_large(
            NETWORKS[:1] if quick else NETWORKS,
            TASKS[:2] if quick else TASKS,
            SEEDS[:1] if quick else SEEDS,
            progress,
        )
        wide = [measure_wide(size, QUERIES // 5 if quick else QUERIES, progress)
                for size in ((50, FEW) if quick else (FEW, MANY))]  # fmt: skip
        failing = [
            measure_failing(every, progress) for every in (EVERY_S[::2] if quick else EVERY_S)
        ]
        lossy = [measure_lossy(loss, SWEEP[:5] if quick else SWEEP, progress) for loss in LOSSES]
        swept = measure_sweep(
            SWEPT[1:2] if quick else SWEPT, SWEEP[:8] if quick else SWEEP, progress
        )
        return Result(
            (
                *large_claims(large),
                *wide_claims(wide),
                *failing_claims(failing),
                *lossy_claims(lossy),
                *sweep_claims(swept),
            ),
            (
                large_table(large),
                wide_table(wide),
                failing_table(failing),
                lossy_table(lossy),
                sweep_table(swept),
            ),
            (
                *DEVIATIONS[:2],
                "Real networks are those of topohub; its lengths give latencies, speeds are drawn.",
                "Best known: a local search that begins with the ants' placement. Bound: nobody waits,"
                " and links take no time but their latency (`placement.bound`); no placement may reach"
                " it.",
            ),
        )


EXPERIMENT = AntsBeyond()
