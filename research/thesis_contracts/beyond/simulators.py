"""The machines and the arrays, each with its own order of wake-ups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from research.claims import Claim, own_claim
from research.predicates import at_most
from research.thesis_contracts.arrays.instance import (
    random_wakes,
    simulate,
)
from research.thesis_contracts.arrays.variants import Configuration, Variant
from research.thesis_contracts.beyond.common import NEAR, PAIR_CONTRACTS
from research.thesis_contracts.beyond.loss import at_end

PAIR_SECONDS = 60
"""Runs with fixed prices converge within ten seconds."""
PAIR_LEVELS = (0.75, 1.25)
"""Load levels at which fixed prices leave load misplaced, so that differences can show."""


def measure_pair(number: int, size: int) -> float:
    """The final difference between the two simulators, each with its own order of wake-ups."""
    level = PAIR_LEVELS[number % len(PAIR_LEVELS)]
    instance = Configuration(Variant.UNIFORM_FIXED, level, PAIR_CONTRACTS, number, size).instance()
    other = replace(instance, wakes=random_wakes(size, np.random.default_rng([number, 9])))
    arrays = simulate(other).excess
    messages = at_end(instance, 0.0, number, PAIR_SECONDS).excess
    return (messages - arrays) / int(instance.load.sum())


def pair_claim(gaps: list[float]) -> Claim:
    gap = abs(float(np.mean(gaps)))
    return own_claim(
        f"The two simulators under random orders, {len(gaps)} pairs: mean difference of the final"
        " excess (part of the load)",
        gap,
        at_most(NEAR),
    )
