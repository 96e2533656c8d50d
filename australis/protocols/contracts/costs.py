"""The cost of load to a participant: convex functions of its load (thesis 6.1.2, 7.2.1).

A participant's cost is the sum of the costs of several resources, each with its own curve:

    costs = Costs(cpu=InFlight(1.0), bandwidth=InFlight(100.0))
    costs.marginal(task.load, load)  # what one more task costs now

Curves rise and are convex: another task never costs less than the one before, which is why moving
load from where it costs more to where it costs less terminates. `Step` is the exception, for
memory: use below its limit is free, and each byte beyond it costs the same, since it displaces
other data to disk. A fixed price below that of a byte moves the excess. A range of prices adds
nothing, since no price within it corresponds to a load level (thesis 7.4.2).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol

import msgspec

from australis.kernel.errors import UserError

RESOURCES = ("cpu", "bandwidth", "memory")
NEARLY_ALL = 0.995
"""The utilisation above which the queueing formula is replaced by a steep polynomial."""
SAMPLES = 256


class Load(msgspec.Struct, frozen=True, gc=False):
    """The amount of each resource that is used.

    >>> Load(cpu=0.5) + Load(cpu=0.25, memory=8.0)
    Load(cpu=0.75, bandwidth=0.0, memory=8.0)
    """

    cpu: float = 0.0
    bandwidth: float = 0.0
    memory: float = 0.0

    def __add__(self, other: Load) -> Load:
        return Load(
            self.cpu + other.cpu, self.bandwidth + other.bandwidth, self.memory + other.memory
        )

    def __sub__(self, other: Load) -> Load:
        return self + other * -1.0

    def __mul__(self, times: float) -> Load:
        return Load(self.cpu * times, self.bandwidth * times, self.memory * times)


NOTHING = Load()


class Curve(Protocol):
    """The cost of one resource as a function of its use."""

    def cost(self, used: float) -> float:
        """The cost of using this amount."""
        ...


class InFlight(msgspec.Struct, frozen=True, gc=False):
    """Tuples in a queue and in service, as in an M/M/1 queue (expression 7.1).

    >>> InFlight(1.0).cost(0.5)
    1.0
    """

    capacity: float

    def __post_init__(self) -> None:
        if not self.capacity > 0:
            raise UserError("should be more than nothing", name="capacity")

    def cost(self, used: float) -> float:
        """The utilisation divided by the free fraction; a polynomial near full utilisation."""
        share = used / self.capacity
        if share <= NEARLY_ALL:
            return share / (1.0 - share)
        left = 1.0 - NEARLY_ALL
        beyond = share - NEARLY_ALL
        # Ever steeper, so that the marginal cost of a task differs at any two load levels.
        return NEARLY_ALL / left + beyond / left**2 + beyond**2 / left**3


class Levels(msgspec.Struct, frozen=True, gc=False):
    """Half the square of the load: prices are load levels, as in the thesis' simulator (7.1.2).

    A participant with 101 tasks sheds one at the price of 100, and one with 99 takes it.

    >>> Levels(1.0).cost(101) - Levels(1.0).cost(100), Levels(1.0).cost(100) - Levels(1.0).cost(99)
    (100.5, 99.5)
    """

    unit: float = 1.0

    def cost(self, used: float) -> float:
        """The cost whose slope at a load is the load."""
        return (used / self.unit) ** 2 / 2.0


class Polyline(msgspec.Struct, frozen=True, gc=False):
    """A piecewise linear curve through points that a participant chose; its last slope continues.

    >>> Polyline(((0.0, 0.0), (10.0, 1.0), (20.0, 5.0))).cost(15.0)
    3.0
    """

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        refuse_unless_convex(self.points)

    def cost(self, used: float) -> float:
        """The linear interpolation between two points."""
        after = bisect_left(self.points, used, key=lambda point: point[0])
        after = min(max(after, 1), len(self.points) - 1)
        (x0, y0), (x1, y1) = self.points[after - 1 : after + 1]
        return y0 + (used - x0) * (y1 - y0) / (x1 - x0)


class Step(msgspec.Struct, frozen=True, gc=False):
    """Free up to a limit, with a constant price per unit beyond it: memory, and a swap disk."""

    limit: float
    penalty: float

    def __post_init__(self) -> None:
        for name, value in (("limit", self.limit), ("penalty", self.penalty)):
            if not value >= 0:
                raise UserError("should not be negative", name=name)

    def cost(self, used: float) -> float:
        """The penalty times the excess over the limit."""
        return max(0.0, used - self.limit) * self.penalty


def sampled(function: Callable[[float], float], upto: float) -> Polyline:
    """A function of the participant's own, sampled at many points up to a load.

    >>> round(sampled(lambda x: x**2, 100.0).cost(50.0), 3)
    2500.0
    """
    xs = [upto * n / SAMPLES for n in range(SAMPLES + 1)]
    return Polyline(tuple((x, function(x)) for x in xs))


def refuse_unless_convex(points: Sequence[tuple[float, float]]) -> None:
    """Refuse points whose cost does not rise ever faster."""
    if len(points) < 2:
        raise UserError("needs two points at least", name="cost")
    slope = 0.0
    for (x0, y0), (x1, y1) in pairwise(points):
        if not x1 > x0:
            raise UserError(f"goes back from {x0:g} to {x1:g}", name="cost")
        steeper = (y1 - y0) / (x1 - x0)
        if steeper < 0:
            raise UserError(f"falls between {x0:g} and {x1:g}", name="cost")
        if steeper < slope * (1 - 1e-9):
            raise UserError(f"is not convex: it rises less steeply from {x0:g} on", name="cost")
        slope = steeper


class Costs(msgspec.Struct, frozen=True, gc=False):
    """The cost of a participant's load: a curve for each resource that it pays for."""

    cpu: Curve | None = None
    bandwidth: Curve | None = None
    memory: Curve | None = None

    def __post_init__(self) -> None:
        if all(getattr(self, name) is None for name in RESOURCES):
            raise UserError("counts nothing: give it a curve for cpu, bandwidth or memory")

    def cost(self, load: Load) -> float:
        """The total cost, D of expression 6.1."""
        total = 0.0
        if self.cpu is not None:
            total += self.cpu.cost(load.cpu)
        if self.bandwidth is not None:
            total += self.bandwidth.cost(load.bandwidth)
        if self.memory is not None:
            total += self.memory.cost(load.memory)
        return total

    def marginal(self, task: Load, load: Load) -> float:
        """The marginal cost of a task on top of a load, MC of expression 6.2."""
        return self.cost(load + task) - self.cost(load)


def per_task(costs: Costs, task: Load, upto: int) -> list[float]:
    """The marginal costs of the first, second, ... of equal tasks.

    >>> per_task(Costs(cpu=Levels()), Load(cpu=1.0), 3)
    [0.5, 1.5, 2.5]
    """
    return [costs.marginal(task, task * n) for n in range(upto)]
