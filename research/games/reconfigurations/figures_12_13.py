"""Figures 12 and 13: arrivals, and cores over time."""

from __future__ import annotations

from research.claims import Picture
from research.games.runs import (
    both,
)
from research.games.workloads import Workload
from research.plots import Plot, Series


def pictures(workload: Workload) -> list[Picture]:
    selfish, cooperative, (_first, _), load = both(workload, 0)
    arrivals = [
        Series("in each step", tuple(enumerate(load)), dots_only=True, size=1.0),
        Series("curve", tuple(enumerate(workload.curve())), size=0.8, dash="-"),
    ]
    cores = [
        Series(
            f"{module}, {name}",
            tuple((n, c[module]) for n, c in enumerate(played.cores)),
            size=0.8,
            dash="-",
        )
        for module in ("edge-detector", "recognizer")
        for name, played in (("selfish", selfish), ("cooperative", cooperative))
    ]
    return [
        Picture(
            f"arrivals-{workload.name}",
            Plot(f"{workload.name}: time between tasks", "control step", "seconds", arrivals),
        ),
        Picture(
            f"cores-{workload.name}",
            Plot(f"{workload.name}: cores", "control step", "cores", cores),
        ),
    ]
