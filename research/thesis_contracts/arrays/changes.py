"""Tasks that come and go at random during a run (thesis 7.1.5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from australis.kernel.durations import SECOND
from research.thesis_contracts.arrays.instance import Changes

ChangePhase = tuple[float, float, float]
"""The begin and end of a phase, and the mean seconds between two tasks that come to a
participant.
"""
THESIS_PHASES: tuple[ChangePhase, ...] = ((50, 300, 50), (300, 600, 10), (600, 900, 1))


def random_changes(size: int, phases: Sequence[ChangePhase], rng: np.random.Generator) -> Changes:
    """Draw arrivals and departures at each participant, with exponential times between them."""
    moments, nodes, signs = [], [], []
    for begin, end, mean in phases:
        for sign in (1, -1):
            count = rng.poisson((end - begin) / mean, size)
            moments.append(rng.uniform(begin, end, int(count.sum())))
            nodes.append(np.repeat(np.arange(size), count))
            signs.append(np.full(len(moments[-1]), sign))
    at = np.concatenate(moments)
    order = np.argsort(at, kind="stable")
    return Changes(
        (at[order] * SECOND).astype(np.int64),
        np.concatenate(nodes)[order].astype(np.int32),
        np.concatenate(signs)[order].astype(np.int32),
    )


def step_changes(nodes: Sequence[int], tasks: int, from_s: float, until_s: float) -> Changes:
    """Add this number of tasks to some participants, from one moment until another."""
    count = len(nodes)
    return Changes(
        np.repeat([round(from_s * SECOND), round(until_s * SECOND)], count).astype(np.int64),
        np.tile(np.asarray(nodes, np.int32), 2),
        np.repeat([tasks, -tasks], count).astype(np.int32),
    )
