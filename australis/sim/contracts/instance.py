"""One run of the mechanism over arrays: who has what to do and which contracts, and what came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.protocols.contracts.costs import Costs, Load, per_task
from australis.sim.contracts import kernel
from australis.sim.contracts.graphs import Graph
from australis.sim.contracts.loads import Floats, Loads

PERIOD_US = SECOND
"""D: so long a participant waits after a movement, and after none was possible."""
STEP_US = PERIOD_US // 40
"""So long it waits after a counter-offer: ten of them take a quarter of a period."""
QUIET_US = 10 * PERIOD_US
"""A run is over when nothing has moved for so long, beyond the time that negotiations take."""


@dataclass(frozen=True)
class Instance:
    """Participants with equal tasks, their contracts and when they wake up."""

    graph: Graph
    load: Loads
    capacity: Loads
    low: Floats
    """The price range of each contract, in the order of the graph."""
    high: Floats
    marginal: Floats
    """What the first, second, ... task costs; a row for each kind of participant."""
    kind: Loads
    wakes: NDArray[np.int64]

    def __post_init__(self) -> None:
        if (self.load < 0).any():
            raise UserError("is negative", name=f"the load of participant {self.load.argmin()}")
        if (self.low > self.high).any():
            raise UserError("has a price range that ends below its beginning", name="a contract")


@dataclass(frozen=True)
class Changes:
    """Tasks that come (+) and go (-) while a run goes on."""

    at_us: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    node: Loads = field(default_factory=lambda: np.zeros(0, np.int32))
    by: Loads = field(default_factory=lambda: np.zeros(0, np.int32))


@dataclass(frozen=True)
class Outcome:
    """Where the tasks are in the end, and what it took."""

    load: Loads
    capacity: Loads
    movements: int
    tasks: int
    offers: int
    counters: int
    releases: int
    last_us: int
    """When the last movement was."""
    series: NDArray[np.int64]
    """For each period: movements, tasks moved, tasks above capacity at its end."""

    @property
    def excess(self) -> int:
        """Tasks above the capacity of whoever has them."""
        return int(np.maximum(0, self.load - self.capacity).sum())

    @property
    def unused(self) -> int:
        """Tasks that would still fit."""
        return int(np.maximum(0, self.capacity - self.load).sum())

    @property
    def messages(self) -> int:
        """Offers and their answers, movements, and room that is given up again."""
        return 2 * self.offers + self.movements + self.releases


def table(costs: Sequence[Costs], task: Load, most: int) -> Floats:
    """Marginal costs of equal tasks for kinds of participants."""
    return np.array([per_task(one, task, most) for one in costs])


def levels(most: int) -> Floats:
    """Marginal costs where a price is a load level (`costs.Levels`)."""
    return np.arange(0.5, most)[None, :].astype(np.float64)


def random_wakes(size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """When each wakes up first: within the first period, no two at the same moment, nor later on."""
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
) -> Outcome:
    """Run it; counter-offers are `above` what a task costs, the first time."""
    changes = changes or Changes()
    if quiet_us is None:  # whoever has many partners takes long to ask them all
        quiet_us = QUIET_US + 2 * STEP_US * int(instance.graph.degrees.max())
    graph, load = instance.graph, instance.load.astype(np.int32, copy=True)
    buyer = np.repeat(np.arange(graph.size), graph.degrees)
    # Cheapest first, and among equals in the order in which contracts were made.
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
    return Outcome(
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
    """How many tasks cost less than a price ("left"), or no more ("right")."""
    found = np.empty(len(price), np.int32)
    for k in range(len(marginal)):
        mine = kind == k
        found[mine] = np.searchsorted(marginal[k], price[mine], side=side)  # type: ignore[call-overload]
    return found
