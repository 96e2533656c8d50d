"""The configurations of the thesis' evaluation (tables 7.1 to 7.3): all runs of figure 7-1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TypeVar

import numpy as np

from research.thesis_contracts.arrays.graphs import Graph, random_graph
from research.thesis_contracts.arrays.instance import (
    FederationOutcome,
    Instance,
    levels,
    random_wakes,
)
from research.thesis_contracts.arrays.loads import MOST, THESIS_LOADS, thesis_loads

SIZE = 995
WIDTH = 5
"""The number of tasks that a price range covers."""
CAPACITY = 100
CAPACITIES = (80, 120)
THREADS = 2
T = TypeVar("T")


class Variant(Enum):
    """How capacities and prices are chosen (table 7.2)."""

    UNIFORM_FIXED = "uniform fixed"
    UNIFORM_RANGE = "uniform range"
    MIXED_FIXED = "heterogeneous fixed"
    MIXED_RANGE = "heterogeneous range"

    @property
    def uniform(self) -> bool:
        """Whether all participants have the same capacity."""
        return self in (Variant.UNIFORM_FIXED, Variant.UNIFORM_RANGE)

    @property
    def range(self) -> bool:
        """Whether prices are negotiated."""
        return self in (Variant.UNIFORM_RANGE, Variant.MIXED_RANGE)


@dataclass(frozen=True)
class Configuration:
    """One run: a variant, the load of the system, the least number of contracts, and the
    topology.
    """

    variant: Variant
    level: float
    contracts: int
    number: int
    size: int = SIZE

    @property
    def overloaded(self) -> bool:
        """Whether the total load exceeds the total capacity."""
        return self.level > 1

    def instance(self) -> Instance:
        """The initial state of the run."""
        graph = topology(self.size, self.contracts, self.number)
        rng = np.random.default_rng([self.number, round(self.level * 100), 1])
        load = thesis_loads(self.level, self.size, rng)
        capacity = np.full(self.size, CAPACITY, np.int32)
        if not self.variant.uniform:
            low, high = CAPACITIES
            capacity = rng.integers(low, high + 1, self.size).astype(np.int32)
        buyer = np.repeat(np.arange(self.size), graph.degrees)
        price = np.minimum(capacity[buyer], capacity[graph.partners]).astype(np.float64)
        return Instance(
            graph,
            load,
            capacity,
            price - WIDTH if self.variant.range else price,
            price,
            levels(int(MOST) + CAPACITIES[1]),
            np.zeros(self.size, np.int32),
            random_wakes(self.size, rng),
        )

    def misplaced(self, outcome: FederationOutcome) -> float:
        """The distance from an acceptable allocation: the part of the tasks above their
        participants' capacity, or the unused part of the capacity if the system is overloaded.
        """
        if self.overloaded:
            return outcome.unused / int(outcome.capacity.sum())
        return outcome.excess / int(outcome.load.sum())


@lru_cache(maxsize=256)
def topology(size: int, contracts: int, number: int) -> Graph:
    """One of the topologies, shared by all variants and loads."""
    return random_graph(size, contracts, np.random.default_rng([number, contracts, 0]))


def figure_7_1(
    topologies: int = 10, contracts: Sequence[int] = range(1, 11), size: int = SIZE
) -> Iterator[Configuration]:
    """The sixteen hundred runs of figure 7-1."""
    for variant in Variant:
        for level in THESIS_LOADS:
            for least in contracts:
                for number in range(topologies):
                    yield Configuration(variant, level, least, number, size)


def run_all(
    configurations: Sequence[Configuration],
    one: Callable[[Configuration], T],
    done: Callable[[int], None] = lambda n: None,
) -> list[T]:
    """Run the configurations on all cores, and report the number done."""
    results: list[T] = []
    with ThreadPoolExecutor(THREADS) as pool:
        for result in pool.map(one, configurations):
            results.append(result)
            done(len(results))
    return results
