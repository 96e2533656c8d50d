"""The savings and losses of hysteresis, if a change has a cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import fmean

from australis.elasticity.inertia import Inertia
from research.claims import Claim, Progress, Table, own_claim
from research.games.runs import (
    QUICK,
    REPETITIONS,
    many,
)
from research.games.strategies import Playing
from research.games.trial import ROUNDS, in_model, repetition
from research.games.workloads import WORKLOADS
from research.predicates import above, below

INERTIA = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
"""The cost of a change; a core of the Recognizer costs 0.0177 a step."""
STEPS_WEIGHED = 5.0
SLACK = 0.02


@dataclass(frozen=True)
class Stiff:
    """The savings and losses of hysteresis, if a change has a cost."""

    price: float
    changes: float
    """The changes of all modules together per repetition, with hysteresis."""
    cost: float
    """The cost of cores and delay, without the cost of changes, with hysteresis."""
    plain_changes: float
    """The changes without hysteresis."""
    plain_cost: float

    @property
    def saved(self) -> float:
        """The part of the total cost, including changes, that hysteresis saves."""
        plain = self.plain_cost + self.price * self.plain_changes
        return 1 - (self.cost + self.price * self.changes) / plain

    @property
    def lost(self) -> float:
        """The relative increase of the cost of cores and delay."""
        return self.cost / self.plain_cost - 1


def _stiff_one(price: float, seed: int) -> tuple[float, float]:
    inertia = Inertia(price, STEPS_WEIGHED, SLACK if price else 0.0)
    changes = cost = 0.0
    for workload in WORKLOADS:
        load = repetition(workload, seed)
        played = in_model(lambda game, _: Playing(game, rounds=ROUNDS, inertia=inertia), load, seed)
        changes += sum(played.changes().values())
        cost += played.cost
    return changes, cost


def measure_stiff(quick: bool, progress: Progress) -> list[Stiff]:
    seeds = range(QUICK // 2 if quick else REPETITIONS // 10)
    means = {}
    for price in INERTIA:
        found = many(partial(_stiff_one, price), seeds, progress, f"a change costs {price:g}")
        means[price] = (fmean(c for c, _ in found), fmean(c for _, c in found))
    plain_changes, plain_cost = means[0.0]
    return [
        Stiff(price, changes, cost, plain_changes, plain_cost)
        for price, (changes, cost) in means.items()
    ]


def stiff_claims(found: list[Stiff]) -> list[Claim]:
    priced = [one for one in found if one.price]
    return [
        own_claim(
            "Hysteresis saves something whatever a change costs: the least part of the cost with it",
            min(one.saved for one in priced),
            above(0),
        ),
        own_claim(
            "Changes left with hysteresis, the most of all prices, part of those without",
            max(one.changes / one.plain_changes for one in priced),
            below(1),
        ),
    ]


def stiff_table(found: list[Stiff]) -> Table:
    rows = tuple(
        (
            one.price,
            round(one.changes, 1),
            round(one.cost, 1),
            f"{one.lost:+.2%}",
            f"{one.saved:+.2%}",
        )
        for one in found
    )
    columns = ("a change costs", "changes", "cost without them", "more than before", "saved in all")
    return Table(
        f"Hysteresis, all three loads: cores are given back if they cost more than a change in"
        f" {STEPS_WEIGHED:g} steps, and taken if a module is late by more than {SLACK:.0%}",
        columns,
        rows,
    )
