"""The experiment `synergy-beyond`: all its questions, one after the other."""

from __future__ import annotations

from statistics import fmean

from australis.sim.hotspots.simulation import HotspotsSetting, Managed
from research.claims import Progress, Result
from research.synergy.beyond.centre import centre_claims, large_claim, ways_table
from research.synergy.beyond.churn import churn_claims, churn_table, measure_churn
from research.synergy.beyond.rings import measure_ring, ring_claims, ring_table
from research.synergy.beyond.thresholds import means, sensitive_table
from research.synergy.runs import QUICK, outcome

SIZES = (30, 300, 10_000)
QUICK_SIZES = (30, 300)
SEEDS = range(5)
SENSITIVITY: dict[str, tuple[dict[str, float], ...]] = {
    "h": ({"overload": 1.0}, {"overload": 2.0}, {"overload": 3.0}, {"overload": 5.0}),
    "l": ({"imbalance": 0.0}, {"imbalance": 0.2}, {"imbalance": 1.0}, {"imbalance": 2.0}),
    "t": ({"minutes": 1}, {"minutes": 5}, {"minutes": 15}),
}


class SynergyBeyond:
    """The questions that the paper left open."""

    name = "synergy-beyond"
    description = "Larger rings, other thresholds, churn, and a central balancer beside the peers."
    reproduces = "nothing: it goes beyond the paper"
    duration = "6 min, quick 30 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run all questions; with `quick` on smaller rings and with fewer seeds."""
        seeds = QUICK if quick else SEEDS
        rings = {}
        for size in QUICK_SIZES if quick else SIZES:
            progress(f"a ring of {size:,}")
            rings[size] = measure_ring(size)
        ways = {}
        for way in Managed:
            progress(f"balanced by {way.value}")
            ways[way] = [fmean(outcome(seed, way).delays_s) for seed in seeds]
        progress("ten times as many peers")
        large = 60 if quick else 300
        ratios = [
            fmean(outcome(seed, peers=large).delays_s)
            / fmean(outcome(seed, Managed.NOBODY, peers=large).delays_s)
            for seed in seeds[: 1 if quick else 2]
        ]
        sensitive = {}
        for name, settings in SENSITIVITY.items():
            for one in settings if not quick else settings[:1]:
                progress(", ".join(f"{key} = {value}" for key, value in one.items()))
                sensitive[name, next(iter(one.values()))] = means(one, seeds)
        progress("1% of the peers fail each minute")
        churned = measure_churn(seeds)
        return Result(
            (
                *ring_claims(rings),
                *centre_claims(ways),
                large_claim(ratios, large),
                *churn_claims(churned),
            ),
            (ring_table(rings), ways_table(ways), sensitive_table(sensitive), churn_table(churned)),
            _DEVIATIONS,
        )  # fmt: skip


_DEVIATIONS = (
    "Components of a peer that fails have no replica here: tuples in its queues are lost, and all"
    " that come before a new place is found. With replicas (`protocols.dpc`) they are not.",
    f"Each run is {HotspotsSetting().minutes} minutes long; the centre decides as often as peers do.",
)
EXPERIMENT = SynergyBeyond()
