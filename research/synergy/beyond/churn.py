"""Peers that fail and join."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from research.claims import Claim, Table, own_claim
from research.predicates import at_most, exactly
from research.synergy.runs import outcome

CHURN = 0.01


@dataclass(frozen=True)
class Churned:
    """Runs in which peers fail and join, beside runs without churn."""

    failed: int
    recomposed: int
    waiting: int
    """The components without a replacement at the end."""
    lost: float
    """The part of the tuples that is lost."""
    delay: float
    """The delay relative to runs without churn."""


def measure_churn(seeds: range) -> Churned:
    runs = [outcome(seed, churn=CHURN) for seed in seeds]
    calm = fmean(fmean(outcome(seed).delays_s) for seed in seeds)
    sent = sum(run.delivered + run.lost for run in runs)
    return Churned(
        sum(run.failed for run in runs),
        sum(run.recomposed for run in runs),
        sum(run.homeless for run in runs),
        sum(run.lost for run in runs) / sent,
        fmean(fmean(run.delays_s) for run in runs) / calm,
    )


def churn_claims(found: Churned) -> list[Claim]:
    return [
        own_claim(
            f"{CHURN:.0%} of the peers fail each minute: delay, times that if nobody does",
            found.delay,
            at_most(1.5),
        ),
        own_claim(
            "and components that nobody was found for within a minute",
            found.waiting,
            exactly(0),
        ),
    ]


def churn_table(found: Churned) -> Table:
    row = (found.failed, found.recomposed, f"{found.lost:.2%}", round(found.delay, 2))
    columns = ("peers failed", "components found elsewhere", "tuples lost", "delay, times as long")
    return Table(f"{CHURN:.0%} of the peers fail each minute and others join", columns, (row,))
