"""The configurations of the first evaluation (medusa section 5, tables 1 and 2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from australis.protocols.contracts.costs import Costs, InFlight, Load
from australis.protocols.contracts.planning import price_at
from research.thesis_contracts.arrays.instance import (
    FederationOutcome,
    Instance,
    random_wakes,
    table,
)
from research.thesis_contracts.arrays.loads import Loads
from research.thesis_contracts.arrays.variants import topology

SIZE = 995
HEAVY, HEAVY_TASKS = 299, 22
"""The number of heavily loaded participants, and the operators at each of them."""
LIGHT_MEAN = {"underload": 7.7, "overload": 12.0}
"""The mean number of operators at the other participants."""
SPREAD = 6
CAPACITY = 14
CAPACITIES = (12, 18)
WIDTH = 2
MAX_TASKS = 80
COSTS = Costs(cpu=InFlight(1.0), bandwidth=InFlight(1.0))
OPERATOR = Load(cpu=0.025, bandwidth=0.04)
"""The load of an operator: 500 tuples/s of 1,000 bytes at 50 us each, and a link of 100 Mbps."""


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
        """Whether participants differ in capacity."""
        return self in (Prices.RANDOM, Prices.RANDOM_RANGE)


@dataclass(frozen=True)
class MedusaRun:
    """One run: prices, the load of the system, the least number of contracts, and the topology."""

    prices: Prices
    load: str
    contracts: int
    number: int
    size: int = SIZE

    def instance(self) -> Instance:
        """The initial state of the run."""
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
    """Participants with these loads, and contracts as in table 2."""
    size = len(load)
    graph = topology(size, contracts, number)
    most = np.full(size, CAPACITY)
    if prices.random:
        low, high = CAPACITIES
        most = rng.integers(low, high + 1, size)
    buyer = np.repeat(np.arange(size), graph.degrees)
    level = np.minimum(most[buyer], most[graph.partners])
    price = np.array([price_at(COSTS, OPERATOR, max(n, 1)) for n in range(CAPACITIES[1] + 1)])
    # A participant's capacity counts up to its highest contract (medusa 5.1).
    capacity = np.maximum.reduceat(level, graph.first[:-1]).astype(np.int32)
    return Instance(
        graph,
        load,
        capacity,
        price[level - WIDTH] if prices.range else price[level],
        price[level],
        table([COSTS], OPERATOR, MAX_TASKS),
        np.zeros(size, np.int32),
        random_wakes(size, rng),
    )


def total_cost(load: Loads) -> float:
    """The number of tuples in flight in the whole system."""
    costs = np.array([COSTS.cost(OPERATOR * n) for n in range(int(load.max()) + 1)])
    return float(costs[load].sum())


def redistributed(instance: Instance, outcome: FederationOutcome) -> float:
    """The part of the excess load that was redistributed."""
    before = int(np.maximum(0, instance.load - instance.capacity).sum())
    return 1 - outcome.excess / before


def used(instance: Instance, outcome: FederationOutcome) -> float:
    """The part of the initially free capacity that is used."""
    before = int(np.maximum(0, instance.capacity - instance.load).sum())
    return 1 - outcome.unused / before
