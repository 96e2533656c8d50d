"""Contracts beside the centralized optimum and auctions, from the same initial loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from research.claims import Claim, Table, own_claim
from research.predicates import at_least, at_most, below, each
from research.thesis_contracts.arrays.auction import auction, optimum, total_cost
from research.thesis_contracts.arrays.instance import (
    PERIOD_US,
    FederationOutcome,
    simulate,
)
from research.thesis_contracts.arrays.loads import Loads
from research.thesis_contracts.arrays.variants import Configuration, Variant
from research.thesis_contracts.beyond.common import LEVEL

CLEARED = 0.05
"""An allocation counts as nearly final when this part of the excess is left."""
PERIODS = 5_000
"""The number of periods for which a run is watched, far more than it takes."""


@dataclass(frozen=True)
class Way:
    """One way to distribute load."""

    name: str
    excess: int
    cost: float
    tasks: int
    messages: int | None = None
    last_s: float | None = None
    """When the last task moved."""
    cleared_s: float | None = None
    """When only a twentieth of the excess was left."""


Ways = dict[str, Way]


def measure_ways(number: int) -> Ways:
    instance = Configuration(Variant.UNIFORM_RANGE, LEVEL, 5, number).instance()
    best = optimum(instance)
    needed = int(np.maximum(0, instance.load - instance.capacity).sum())
    least = int(np.maximum(0, instance.load - best).sum())
    ours = simulate(instance, periods=PERIODS)
    fixed = simulate(replace(instance, low=instance.high), periods=PERIODS)
    bids = auction(instance)

    def way(name: str, load: Loads, tasks: int) -> Way:
        excess = int(np.maximum(0, load - instance.capacity).sum())
        return Way(name, excess, total_cost(instance, load), tasks)

    def contracts(name: str, found: FederationOutcome) -> Way:
        last = found.last_us / PERIOD_US
        excess = [needed, *found.series[: round(last) + 1, 2]]
        there = way(name, found.load, found.tasks)
        return replace(
            there, messages=found.messages, last_s=last, cleared_s=_cleared(excess, there.excess)
        )

    auctioned = way("auctions", bids.load, bids.tasks)
    return {
        "before": way("before", instance.load, 0),
        "needed": Way("the fewest movements to an acceptable one", 0, float("nan"), needed),
        "optimum": way("central optimum", best, least),
        "fixed": contracts("fixed prices", fixed),
        "range": contracts("range of five tasks", ours),
        "auction": replace(
            auctioned,
            messages=bids.messages,
            last_s=float(bids.rounds),
            cleared_s=_cleared(bids.excess.tolist(), auctioned.excess),
        ),
    }


def _cleared(excess: Sequence[int], final: int) -> float:
    """The first period after which at most a twentieth of the eventual reduction is left."""
    enough = final + CLEARED * (excess[0] - final)
    return float(next(n for n, left in enumerate(excess) if left <= enough))


def _mean(ways: list[Ways], way: str, what: str) -> float:
    return float(np.mean([getattr(one[way], what) for one in ways]))


def way_claims(ways: list[Ways]) -> list[Claim]:
    def ratio(what: str, way: str, other: str) -> float:
        return _mean(ways, way, what) / _mean(ways, other, what)

    before, best = _mean(ways, "before", "cost"), _mean(ways, "optimum", "cost")
    saved = (before - _mean(ways, "range", "cost")) / (before - best)
    sooner = [one["fixed"].last_s / one["auction"].last_s for one in ways]  # type: ignore[operator]
    moves = ratio("tasks", "range", "auction")
    said = ratio("messages", "fixed", "auction")
    ranged = ratio("messages", "range", "auction")
    needed = ratio("tasks", "range", "needed")
    return [
        own_claim("Contracts move fewer tasks than auctions (part)", moves, below(1)),
        own_claim(
            "Contracts at fixed prices send fewer messages than auctions (part)",
            said,
            below(1),
        ),
        own_claim(
            "A range, whose last tasks are negotiated one by one, sends at most twice as many (part)",
            ranged,
            below(2),
        ),
        own_claim(
            "Fixed prices come to rest sooner than auctions in each instance (mean, part of the time)",
            sooner,
            each(below(1)),
            shown=round(ratio("last_s", "fixed", "auction"), 4),
        ),
        own_claim(
            "Contracts save, of what a central optimum saves in cost (part)",
            saved,
            at_least(0.7),
        ),
        own_claim("A range moves, for each task that has to move (tasks)", needed, at_most(3)),
    ]


def ways_table(ways: list[Ways]) -> Table:
    def cell(way: str, what: str) -> int | float | str | None:
        first = getattr(ways[0][way], what)
        if first is None or np.isnan(first):
            return None
        mean = _mean(ways, way, what)
        return round(mean, 1) if what.endswith("_s") else round(mean)

    names = ("excess", "cost", "tasks", "messages", "last_s", "cleared_s")
    rows = tuple((one.name, *(cell(way, name) for name in names)) for way, one in ways[0].items())
    columns = (
        "way",
        "tasks above capacity",
        "cost",
        "tasks moved",
        "messages",
        "at rest after (s)",
        "95% of the effect after (s)",
    )
    title = f"995 participants, five contracts, 75% load: means over {len(ways)} instances"
    return Table(title, columns, rows)
