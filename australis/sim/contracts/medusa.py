"""The configurations of the first evaluation (medusa section 5, tables 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from australis.protocols.contracts.costs import Costs, InFlight, Load
from australis.protocols.contracts.planning import price_at
from australis.sim.contracts.instance import Instance, Outcome, random_wakes, table
from australis.sim.contracts.loads import Loads
from australis.sim.contracts.variants import topology

SIZE = 995
HEAVY, HEAVY_TASKS = 299, 22
"""So many participants begin with so many operators."""
LIGHT_MEAN = {"underload": 7.7, "overload": 12.0}
"""What the others have on average."""
SPREAD = 6
CAPACITY = 14
CAPACITIES = (12, 18)
WIDTH = 2
MOST_TASKS = 80
COSTS = Costs(cpu=InFlight(1.0), bandwidth=InFlight(1.0))
OPERATOR = Load(cpu=0.025, bandwidth=0.04)
"""500 tuples/s of 1,000 bytes at 50 us each, and a link of 100 Mbps."""


class Prices(Enum):
    """How contracts are priced (table 2)."""

    FIXED = "fixed"
    RANGE = "range"
    RANDOM = "random fixed"
    RANDOM_RANGE = "random range"

    @property
    def range(self) -> bool:
        """Whether prices are negotiated."""
        return self in (Prices.RANGE, Prices.RANDOM_RANGE)

    @property
    def random(self) -> bool:
        """Whether each participant has a capacity of its own."""
        return self in (Prices.RANDOM, Prices.RANDOM_RANGE)


@dataclass(frozen=True)
class MedusaRun:
    """One run: prices, how loaded the system is, at least so many contracts, which topology."""

    prices: Prices
    load: str
    contracts: int
    number: int
    size: int = SIZE

    def instance(self) -> Instance:
        """Everything it begins with."""
        rng = np.random.default_rng([self.number, self.contracts, len(self.load)])
        heavy = round(self.size * HEAVY / SIZE)
        mean = LIGHT_MEAN[self.load]
        spread = min(SPREAD, mean - 0.5)
        light = rng.uniform(mean - spread, mean + spread, self.size - heavy).round()
        load = rng.permutation(np.concatenate([np.full(heavy, HEAVY_TASKS), light]))
        return priced(self.prices, load.astype(np.int32), self.contracts, self.number, rng)


def priced(
    prices: Prices, load: Loads, contracts: int, number: int, rng: np.random.Generator
) -> Instance:
    """Participants with these loads, and contracts as table 2 says."""
    size = len(load)
    graph = topology(size, contracts, number)
    most = np.full(size, CAPACITY)
    if prices.random:
        low, high = CAPACITIES
        most = rng.integers(low, high + 1, size)
    buyer = np.repeat(np.arange(size), graph.degrees)
    level = np.minimum(most[buyer], most[graph.partners])
    price = np.array([price_at(COSTS, OPERATOR, max(n, 1)) for n in range(CAPACITIES[1] + 1)])
    # What a participant can take is counted up to its highest contract (medusa 5.1).
    capacity = np.maximum.reduceat(level, graph.first[:-1]).astype(np.int32)
    return Instance(
        graph,
        load,
        capacity,
        price[level - WIDTH] if prices.range else price[level],
        price[level],
        table([COSTS], OPERATOR, MOST_TASKS),
        np.zeros(size, np.int32),
        random_wakes(size, rng),
    )


def total_cost(load: Loads) -> float:
    """Tuples in flight in the whole system."""
    costs = np.array([COSTS.cost(OPERATOR * n) for n in range(int(load.max()) + 1)])
    return float(costs[load].sum())


def redistributed(instance: Instance, outcome: Outcome) -> float:
    """The part of the excess load that found a place."""
    before = int(np.maximum(0, instance.load - instance.capacity).sum())
    return 1 - outcome.excess / before


def used(instance: Instance, outcome: Outcome) -> float:
    """The part of the capacity that was free at first and is not any more."""
    before = int(np.maximum(0, instance.capacity - instance.load).sum())
    return 1 - outcome.unused / before
