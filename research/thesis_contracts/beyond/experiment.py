"""The experiment `contracts-beyond`: all its questions, one after the other."""

from __future__ import annotations

from research.claims import Progress, Result
from research.thesis_contracts.arrays.peering import LARGEST
from research.thesis_contracts.beyond.loss import loss_claims, loss_table, with_loss
from research.thesis_contracts.beyond.optimum import Ways, measure_ways, way_claims, ways_table
from research.thesis_contracts.beyond.property_3 import (
    extreme_claims,
    extremes_table,
    measure_extremes,
)
from research.thesis_contracts.beyond.real_networks import (
    measure_peering,
    peering_claims,
    peering_table,
)
from research.thesis_contracts.beyond.simulators import measure_pair, pair_claim

PAIRS = 30
PAIR_SIZE = 200
LOSS_SECONDS = 300
LOSSES = (0.0, 0.01, 0.05)
WAYS = 10
"""The number of instances from which the optimum, contracts and auctions begin."""


class ContractsBeyond:
    """Contracts, the optimum and auctions from the same loads; then loss, then both simulators."""

    name = "contracts-beyond"
    description = "Contracts beside a central optimum and auctions; lost messages; two simulators."
    reproduces = "nothing: it goes beyond the papers (thesis 6.8, properties 3 and 4)"
    duration = "8 min, quick 40 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run all questions; with `quick` on fewer and smaller instances."""
        ways: list[Ways] = []
        for number in range(2 if quick else WAYS):
            progress(f"optimum and auctions, instance {number + 1}")
            ways.append(measure_ways(number))
        progress("the best and the worst case")
        extremes = measure_extremes()
        progress("real networks")
        networks = {name: measure_peering(system) for name, system in LARGEST.items()}
        size, runs = (40, 1) if quick else (PAIR_SIZE, 3)
        lost = {}
        for loss in LOSSES:
            progress(f"{loss:.0%} of the messages lost")
            lost[loss] = with_loss(loss, size, runs, LOSS_SECONDS // 2 if quick else LOSS_SECONDS)
        gaps = []
        for number in range(PAIRS):
            progress(f"pair {number + 1} of {PAIRS}")
            gaps.append(measure_pair(number, size))
        return Result(
            (
                *way_claims(ways),
                *extreme_claims(extremes),
                *peering_claims(networks),
                *loss_claims(lost),
                pair_claim(gaps),
            ),
            (
                ways_table(ways),
                extremes_table(extremes),
                peering_table(networks),
                loss_table(lost),
            ),
            _DEVIATIONS,
        )


_DEVIATIONS = (
    "The worst case is counted by tasks that come to the end of the chain, which include those that"
    " make room on the way. By tasks that were too many at first, which is how the thesis counts (two"
    " periods each), short chains stay near one period and chains of ten take two to five.",
    "An auction here moves half of the difference to the cheapest partner at once; it goes on until"
    " no two partners differ by a task.",
)
EXPERIMENT = ContractsBeyond()
