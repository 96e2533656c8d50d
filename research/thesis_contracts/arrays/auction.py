"""Baselines for contracts: the centralized optimum, and auctions without agreed prices.

In an auction a participant asks all its partners for their marginal cost of a task, and moves the
task to the cheapest one if that costs less than its own (thesis 6.8, properties 3 and 4). Half of
the difference goes at once, so that neither side is worse off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from research.thesis_contracts.arrays.instance import Instance
from research.thesis_contracts.arrays.loads import Loads


@dataclass(frozen=True)
class Auctioned:
    """The final allocation, and the cost of reaching it."""

    load: Loads
    movements: int
    tasks: int
    messages: int
    excess: NDArray[np.int64]
    """The tasks above capacity after each round, from the start to the last round with a
    movement.
    """

    @property
    def rounds(self) -> int:
        """The number of rounds; a round is a period in which every participant auctions once."""
        return len(self.excess) - 1


def auction(instance: Instance, rounds: int = 10_000) -> Auctioned:
    """Run auctions of all participants, one after the other, until no task moves."""
    load = instance.load.astype(np.int64)
    graph = instance.graph
    order = np.argsort(instance.wakes, kind="stable")
    counted = np.zeros(4, np.int64)
    excess = np.zeros(rounds + 1, np.int64)
    _auction(
        load, instance.marginal, instance.kind, graph.first, graph.partners, order,
        instance.capacity, excess, counted,
    )  # fmt: skip
    movements, tasks, messages, last = (int(n) for n in counted)
    return Auctioned(load.astype(np.int32), movements, tasks, messages, excess[: last + 1])


@njit(cache=True, nogil=True)
def _auction(load, marginal, kind, first, partners, order, capacity, excess, counted):  # type: ignore[no-untyped-def]
    excess[0] = np.maximum(0, load - capacity).sum()
    for n in range(1, len(excess)):
        moved = False
        for i in order:
            # A round of bids: every partner is asked, and answers.
            if load[i] == 0:
                continue
            best = -1
            here = marginal[kind[i], load[i] - 1]
            bid = here
            for e in range(first[i], first[i + 1]):
                j = partners[e]
                counted[2] += 2
                cost = marginal[kind[j], load[j]]
                if cost < bid:
                    bid, best = cost, j
            if best < 0:
                continue
            went = 0
            while load[i] > 0 and marginal[kind[i], load[i] - 1] > marginal[kind[best], load[best]]:
                load[i] -= 1
                load[best] += 1
                went += 1
            if went:
                counted[0] += 1
                counted[1] += went
                counted[2] += 1
                moved = True
        excess[n] = np.maximum(0, load - capacity).sum()
        if not moved:
            break
        counted[3] = n


def total_cost(instance: Instance, load: Loads) -> float:
    """The total cost of a load for all participants."""
    sums = np.concatenate(
        [np.zeros((len(instance.marginal), 1)), np.cumsum(instance.marginal, axis=1)], axis=1
    )
    return float(sums[instance.kind, load].sum())


def optimum(instance: Instance) -> Loads:
    """The cheapest allocation if any task could run anywhere: equal marginal costs."""
    total = int(instance.load.sum())
    low, high = 0.0, float(instance.marginal.max())
    for _ in range(100):
        price = (low + high) / 2
        fit = np.array([np.searchsorted(row, price) for row in instance.marginal])
        if int(fit[instance.kind].sum()) < total:
            low = price
        else:
            high = price
    load = np.array([np.searchsorted(row, low) for row in instance.marginal])[instance.kind]
    missing = total - int(load.sum())
    next_cost = instance.marginal[instance.kind, load]
    load[np.argsort(next_cost, kind="stable")[:missing]] += 1
    return load.astype(np.int32)
