"""Decisions before signing contracts: prices, ranges, and the number of contracts (6.5, 6.6.1).

Loads here are fractions of a participant's capacity, drawn from distributions or taken from a
record of its past. Randomness comes from the generator that the caller passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from australis.kernel.errors import UserError
from australis.protocols.contracts.costs import Costs, Load

Floats = NDArray[np.float64]
Draw = Callable[[tuple[int, ...]], Floats]
"""Draws loads of the given shape."""


# --- prices -----------------------------------------------------------------------------------


def price_at(costs: Costs, task: Load, tasks: int, units: float = 1.0) -> float:
    """The price for a load level: with one more task it pays to shed one, with one fewer to take
    one. It lies half-way between the marginal costs of the last task and of the next.

    >>> from australis.protocols.contracts.costs import Levels
    >>> price_at(Costs(cpu=Levels()), Load(cpu=1.0), 100)
    100.0
    """
    if tasks < 1:
        raise UserError("should be one task at least", name="the load level of a price")
    last, following = (costs.marginal(task, task * n) for n in (tasks - 1, tasks))
    return (last + following) / 2 / units


def capacity_at(costs: Costs, task: Load, price: float, units: float = 1.0) -> int:
    """The number of tasks that a participant keeps at a price: taskset^F of lemma 1."""
    tasks = 0
    while costs.marginal(task, task * tasks) <= price * units:
        tasks += 1
        if tasks > 1_000_000:
            raise UserError("is above what a million tasks cost", name=f"a price of {price:g}")
    return tasks


def decrease(costs: Costs, task: Load, tasks: int, fewer: int, units: float = 1.0) -> float:
    """delta_k: the decrease of the last task's cost with k fewer tasks (expression 6.15)."""
    if fewer >= tasks:
        raise UserError(
            f"of {fewer + 1} is too far: with {tasks} tasks a price can fall {tasks - 1} steps",
            name="a diameter",
        )
    last, before = (costs.marginal(task, task * (n - 1)) for n in (tasks, tasks - fewer))
    return (last - before) / units


def minimal_range(
    costs: Costs, task: Load, high: float, diameter: int, units: float = 1.0
) -> tuple[float, float]:
    """The smallest range with which load crosses any contract graph of this diameter (lemma 1).

    >>> from australis.protocols.contracts.costs import Levels
    >>> minimal_range(Costs(cpu=Levels()), Load(cpu=1.0), 100.0, 6)
    (95.0, 100.0)
    """
    if diameter < 1:
        raise UserError("should be one at least", name="diameter")
    tasks = capacity_at(costs, task, high, units)
    return high - decrease(costs, task, tasks, diameter - 1, units), high


def best_counter_offer(worth: float, competitors: int) -> float:
    """The counter-offer within [0, 1] that maximizes expression 6.17 (table 6.2).

    It approaches the worth of the task as the number of competitors grows.

    >>> [round(best_counter_offer(s, 5), 2) for s in (0, 0.25, 0.5, 0.75)]
    [0.14, 0.36, 0.57, 0.79]
    """
    return worth + (1 - worth) / (competitors + 2)


# --- how many contracts -------------------------------------------------------------------------


@dataclass(frozen=True)
class Benefit:
    """The benefit of a number of contracts for a participant when its load exceeds its capacity."""

    contracts: int
    overloaded: float
    """The probability that it remains overloaded nevertheless (expression 6.13)."""
    excess: float
    """The mean excess over the capacity, over all spikes."""
    saved: float
    """The mean savings, given the probability of spikes (expression 6.14)."""


def benefits(
    spike: Draw,
    partner: Draw,
    most: int,
    samples: int,
    probability: float = 1.0,
    capacity: float = 1.0,
    savings: Callable[[float], float] = lambda excess: excess,
) -> list[Benefit]:
    """Overload and savings with 0 to `most` contracts at the price of full capacity, by sampling.

    A spike is the excess of a load over the capacity; partners take what fits their free capacity.
    """
    left = spike((samples,))
    first = float(left.mean())
    found = [Benefit(0, float((left > 0).mean()), first, 0.0)]
    for n in range(1, most + 1):
        left = np.maximum(0.0, left - np.maximum(0.0, capacity - partner((samples,))))
        excess = float(left.mean())
        saved = probability * savings(first - excess)
        found.append(Benefit(n, float((left > 0).mean()), excess, saved))
    return found


def best_number(found: list[Benefit], each_costs: float) -> int:
    """The most valuable number of contracts, if each has its cost."""
    return max(found, key=lambda b: b.saved - each_costs * b.contracts).contracts


# --- advice from the past -------------------------------------------------------------------------


@dataclass(frozen=True)
class Advice:
    """The advice that follows from a record of past loads."""

    samples: int
    median: float
    spikes: float
    """The fraction of the time in which the load was above capacity."""
    largest: float
    """The highest load in the record."""
    benefits: tuple[Benefit, ...]
    contracts: int
    price: float
    range: tuple[float, float]


def advise(
    record: Floats,
    capacity: float,
    costs: Costs,
    task: Load,
    diameter: int,
    each_costs: float,
    rng: np.random.Generator,
    most: int = 20,
    draws: int = 100_000,
) -> Advice:
    """The number of contracts to sign as a buyer and their price, if partners are loaded alike.

    Loads are numbers of tasks.
    """
    if len(record) == 0:
        raise UserError("is empty: a record of past loads is needed", name="record")
    if not np.isfinite(record).all() or (record < 0).any():
        raise UserError("has a load that is negative or no number", name="record")
    above = record[record > capacity] - capacity
    price = price_at(costs, task, round(capacity))

    def draw(values: Floats) -> Draw:
        return lambda shape: rng.choice(values, shape)

    found = [Benefit(0, 0.0, 0.0, 0.0)]
    if len(above):
        rate = len(above) / len(record)
        found = benefits(draw(above), draw(record), most, draws, rate, capacity)
    return Advice(
        len(record),
        float(np.median(record)),
        len(above) / len(record),
        float(record.max()),
        tuple(found),
        best_number(found, each_costs),
        price,
        minimal_range(costs, task, price, diameter),
    )
