"""One run of the mechanism over arrays: loads, contracts, and the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.protocols.contracts.costs import Costs, Load, per_task
from research.thesis_contracts.arrays import kernel
from research.thesis_contracts.arrays.graphs import Graph
from research.thesis_contracts.arrays.loads import Floats, Loads

PERIOD_US = SECOND
"""D: the time a participant waits after a movement, and after a round without one."""
STEP_US = PERIOD_US // 40
"""The wait after a counter-offer: ten of them take a quarter of a period."""
QUIESCENCE_US = 10 * PERIOD_US
"""A run is over when nothing has moved for this time, beyond the time that negotiations take."""


@dataclass(frozen=True)
class Instance:
    """Participants with equal tasks, their contracts, and their first wake-up times."""

    graph: Graph
    load: Loads
    capacity: Loads
    low: Floats
    """The price range of each contract, in the order of the graph."""
    high: Floats
    marginal: Floats
    """The marginal cost of the first, second, ... task, with a row for each kind of participant."""
    kind: Loads
    wakes: NDArray[np.int64]

    def __post_init__(self) -> None:
        if (self.load < 0).any():
            raise UserError("is negative", name=f"the load of participant {self.load.argmin()}")
        if (self.low > self.high).any():
            raise UserError("has a price range that ends below its beginning", name="a contract")


@dataclass(frozen=True)
class Changes:
    """Tasks that come (+) and go (-) during a run."""

    at_us: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    node: Loads = field(default_factory=lambda: np.zeros(0, np.int32))
    by: Loads = field(default_factory=lambda: np.zeros(0, np.int32))


@dataclass(frozen=True)
class FederationOutcome:
    """The final allocation, and the cost of reaching it."""

    load: Loads
    capacity: Loads
    movements: int
    tasks: int
    offers: int
    counters: int
    releases: int
    last_us: int
    """The time of the last movement."""
    series: NDArray[np.int64]
    """For each period: movements, tasks moved, and tasks above capacity at its end."""

    @property
    def excess(self) -> int:
        """The tasks above their participants' capacity."""
        return int(np.maximum(0, self.load - self.capacity).sum())

    @property
    def unused(self) -> int:
        """The tasks that would still fit."""
        return int(np.maximum(0, self.capacity - self.load).sum())

    @property
    def messages(self) -> int:
        """Offers and their answers, movements, and reservations that are released."""
        return 2 * self.offers + self.movements + self.releases


def table(costs: Sequence[Costs], task: Load, most: int) -> Floats:
    """Marginal costs of equal tasks for kinds of participants."""
    return np.array([per_task(one, task, most) for one in costs])


def levels(most: int) -> Floats:
    """Marginal costs where a price is a load level (`costs.Levels`)."""
    return np.arange(0.5, most)[None, :].astype(np.float64)


def random_wakes(size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw first wake-ups within the first period, at distinct moments while there are enough."""
    moments = STEP_US
    if size > moments:
        return rng.integers(0, PERIOD_US, size)
    within = rng.permutation(moments)[:size]
    return within + STEP_US * rng.integers(0, PERIOD_US // STEP_US, size)


def simulate(
    instance: Instance,
    *,
    above: float = 0.0,
    until_us: int = 100_000 * PERIOD_US,
    quiet_us: int | None = None,
    changes: Changes | None = None,
    periods: int = 0,
) -> FederationOutcome:
    """Run an instance; the first counter-offer is `above` a task's marginal cost."""
    changes = changes or Changes()
    if quiet_us is None:  # a participant with many partners takes long to ask all of them
        quiet_us = QUIESCENCE_US + 2 * STEP_US * int(instance.graph.degrees.max())
    graph, load = instance.graph, instance.load.astype(np.int32, copy=True)
    buyer = np.repeat(np.arange(graph.size), graph.degrees)
    # Cheapest first; equal ones in the order in which contracts were made.
    order = np.lexsort((np.arange(len(buyer)), instance.low, buyer))
    seller, low, high = graph.partners[order], instance.low[order], instance.high[order]
    buyer_kind, seller_kind = instance.kind[buyer], instance.kind[seller]
    keeps = _count(instance.marginal, buyer_kind, low, "right")
    takes = _count(instance.marginal, seller_kind, low, "left")
    takes_most = _count(instance.marginal, seller_kind, high, "left")
    series = np.zeros((periods, 3), np.int64)
    counted = np.zeros(7, np.int64)
    kernel.run(
        load,
        instance.kind.astype(np.int32),
        instance.marginal,
        instance.capacity,
        graph.first,
        seller,
        high,
        keeps,
        takes,
        takes_most,
        instance.wakes.astype(np.int64),
        PERIOD_US,
        STEP_US,
        above,
        quiet_us,
        until_us,
        changes.at_us,
        changes.node,
        changes.by,
        series,
        counted,
    )
    numbers = [int(n) for n in counted]
    return FederationOutcome(
        load,
        instance.capacity,
        movements=numbers[kernel.MOVEMENTS],
        tasks=numbers[kernel.TASKS],
        offers=numbers[kernel.OFFERS],
        counters=numbers[kernel.COUNTERS],
        releases=numbers[kernel.RELEASES],
        last_us=numbers[kernel.LAST_US],
        series=series,
    )


def _count(marginal: Floats, kind: Loads, price: Floats, side: str) -> Loads:
    """The number of tasks that cost less than a price ("left"), or at most the price ("right")."""
    found = np.empty(len(price), np.int32)
    for k in range(len(marginal)):
        mine = kind == k
        found[mine] = np.searchsorted(marginal[k], price[mine], side=side)  # type: ignore[call-overload]
    return found
