"""The service time of a module as a function of its number of cores (games 4.1, figure 3).

Numbers of cores are real numbers above 0: below 1 a module has a fraction of a core and is slower.
All models are convex, and all fall up to their `fastest` number of cores; more are never used.

    Ideal(2.0).time_s(4.0)              # 0.5: n cores are n times as fast (figure 3a)
    Saturating(2.0, 3.0).time_s(4.0)    # 0.667: more than three change nothing (figure 3b)
    WithMinimum(2.0, 3.0).time_s(4.0)   # 1.167: more than three make it slower (figure 3c)
    Sampled(((1, 2.0), (4, 0.6)))       # interpolates between measurements
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt
from typing import Protocol

from australis.kernel.errors import UserError

Point = tuple[float, float]


class ServiceTime(Protocol):
    """The service time of a task as a function of the number of cores."""

    @property
    def running_s(self) -> float:
        """The service time on one core."""
        ...

    @property
    def fastest(self) -> float:
        """The number of cores beyond which no core helps (n0 in figure 3)."""
        ...

    @property
    def scales(self) -> bool:
        """Whether n cores are n times as fast, up to the fastest number of them."""
        ...

    def time_s(self, degree: float) -> float:
        """The service time with this number of cores."""
        ...

    def degree(self, time_s: float) -> float:
        """The fewest cores with which a task takes at most this time, or `fastest` if none do."""
        ...

    def worth(self, price_s: float) -> float:
        """The number of cores with the least cost of time and cores, if a core costs as much as
        `price_s` seconds: another core would save less than its price."""
        ...

    def slope(self, degree: float) -> float:
        """The derivative of the service time, just below this number of cores."""
        ...

    def taking(self, running_s: float) -> ServiceTime:
        """The same model with another service time on one core."""
        ...


def _check_running(running_s: float) -> None:
    if not 0 < running_s < inf:
        raise UserError(f"takes {running_s:g} s for a task, not more than 0")


def _check_fastest(fastest: float) -> None:
    if not 1 <= fastest < inf:
        raise UserError(f"is fastest with {fastest:g} cores, not with at least 1")


@dataclass(frozen=True)
class Ideal:
    """n cores are n times as fast, for every n (figure 3a)."""

    running_s: float
    fastest = inf
    scales = True

    def __post_init__(self) -> None:
        _check_running(self.running_s)

    def time_s(self, degree: float) -> float:
        """The service time with this number of cores."""
        return self.running_s / degree

    def degree(self, time_s: float) -> float:
        """The fewest cores with which a task takes at most this time."""
        return self.running_s / time_s

    def worth(self, price_s: float) -> float:
        """The number of cores at which another one saves less than its price (expression 10)."""
        return sqrt(self.running_s / price_s) if price_s > 0 else inf

    def slope(self, degree: float) -> float:
        """The derivative of the service time at this number of cores."""
        return -self.running_s / (degree * degree)

    def taking(self, running_s: float) -> Ideal:
        """The same model with another service time on one core."""
        return Ideal(running_s)


@dataclass(frozen=True)
class Saturating:
    """n cores are n times as fast up to `fastest`, and more change nothing (figure 3b)."""

    running_s: float
    fastest: float
    scales = True

    def __post_init__(self) -> None:
        _check_running(self.running_s)
        _check_fastest(self.fastest)

    def time_s(self, degree: float) -> float:
        """The service time with this number of cores."""
        return self.running_s / min(degree, self.fastest)

    def degree(self, time_s: float) -> float:
        """The fewest cores with which a task takes at most this time, if any are enough."""
        return min(self.running_s / time_s, self.fastest)

    def worth(self, price_s: float) -> float:
        """The number of cores at which another one saves less than its price or nothing."""
        return min(sqrt(self.running_s / price_s), self.fastest) if price_s > 0 else self.fastest

    def slope(self, degree: float) -> float:
        """The derivative of the service time at this number of cores."""
        return -self.running_s / (degree * degree) if degree <= self.fastest else 0.0

    def taking(self, running_s: float) -> Saturating:
        """The same model with another service time on one core."""
        return Saturating(running_s, self.fastest)


@dataclass(frozen=True)
class WithMinimum:
    """Each core beyond the first adds overhead, which dominates in the end (figure 3c).

    The paper draws such a curve and gives no formula. Here a task takes T / n + c (n - 1), with c such
    that it takes least with `fastest` cores.

    >>> model = WithMinimum(9.0, 3.0)
    >>> model.time_s(1.0), model.time_s(3.0), model.time_s(9.0)
    (9.0, 5.0, 9.0)
    """

    running_s: float
    fastest: float
    scales = False

    def __post_init__(self) -> None:
        _check_running(self.running_s)
        _check_fastest(self.fastest)

    @cached_property
    def _each_s(self) -> float:
        """The overhead that each core beyond the first adds."""
        return self.running_s / (self.fastest * self.fastest)

    def time_s(self, degree: float) -> float:
        """The service time with this number of cores."""
        return self.running_s / degree + self._each_s * max(0.0, degree - 1.0)

    def degree(self, time_s: float) -> float:
        """The fewest cores with which a task takes at most this time, if any are enough."""
        if time_s >= self.running_s:
            return self.running_s / time_s
        if time_s <= self.time_s(self.fastest):
            return self.fastest
        both = time_s + self._each_s
        root = sqrt(max(0.0, both * both - 4 * self._each_s * self.running_s))
        return 2 * self.running_s / (both + root)

    def worth(self, price_s: float) -> float:
        """The number of cores at which another one saves less than its price, at most `fastest`."""
        if price_s <= 0:
            return self.fastest
        shared = sqrt(self.running_s / price_s)
        if shared <= 1:
            return shared
        return max(1.0, sqrt(self.running_s / (price_s + self._each_s)))

    def slope(self, degree: float) -> float:
        """The derivative of the service time, just below this number of cores."""
        alone = -self.running_s / (degree * degree)
        return alone if degree <= 1 else alone + self._each_s

    def taking(self, running_s: float) -> WithMinimum:
        """The same model with another service time on one core."""
        return WithMinimum(running_s, self.fastest)


@dataclass(frozen=True)
class Sampled:
    """Measurements with some numbers of cores, interpolated for the others.

    Rates are interpolated, not times: for a module that scales, a straight line is exact. The curve
    is the lowest one above all samples that rises and is concave; so service times fall and are
    convex, as the rest of the model requires, and a disturbed sample is ignored. Samples beyond the
    fastest one are not used.

    >>> model = Sampled(((1, 8.0), (2, 4.0), (4, 3.9), (8, 1.0), (16, 2.0)))
    >>> model.time_s(4), model.fastest, model.degree(2.0)
    (2.0, 8.0, 4.0)
    """

    samples: tuple[Point, ...]
    """Numbers of cores with the measured service time in seconds."""
    scales = False

    def __post_init__(self) -> None:
        if not self.samples:
            raise UserError("has no samples of its service time")
        if len({cores for cores, _ in self.samples}) < len(self.samples):
            raise UserError("has two samples of its service time for one number of cores")
        for cores, time_s in self.samples:
            if not 0 < cores < inf or not 0 < time_s < inf:
                raise UserError(f"has a sample of {time_s:g} s with {cores:g} cores, not above 0")

    @cached_property
    def _curve(self) -> tuple[Point, ...]:
        """Numbers of cores with rates, from zero cores on."""
        points: list[Point] = [(0.0, 0.0)]
        fastest, _ = min(self.samples, key=lambda sample: (sample[1], sample[0]))
        for cores, time_s in sorted(self.samples):
            if cores > fastest:
                break
            point = float(cores), 1 / time_s
            while len(points) > 1 and _rise(points[-2:]) <= _rise((points[-1], point)):
                points.pop()
            points.append(point)
        return tuple(points)

    @cached_property
    def _degrees(self) -> list[float]:
        return [cores for cores, _ in self._curve]

    @cached_property
    def _rates(self) -> list[float]:
        return [rate for _, rate in self._curve]

    @property
    def running_s(self) -> float:
        """The service time on one core."""
        return self.time_s(1.0)

    @property
    def fastest(self) -> float:
        """The number of cores beyond which no core helps."""
        return self._degrees[-1]

    def time_s(self, degree: float) -> float:
        """The service time with this number of cores."""
        if degree >= self.fastest:
            return 1 / self._rates[-1]
        (cores, rate), rise = self._piece(bisect_left(self._degrees, degree))
        return 1 / (rate + (degree - cores) * rise)

    def degree(self, time_s: float) -> float:
        """The fewest cores with which a task takes at most this time, if any are enough."""
        needed = 1 / time_s
        if needed >= self._rates[-1]:
            return self.fastest
        (cores, rate), rise = self._piece(bisect_left(self._rates, needed))
        return cores + (needed - rate) / rise

    def worth(self, price_s: float) -> float:
        """The number of cores at which another one saves less than its price."""
        if price_s <= 0:
            return self.fastest
        for at in range(1, len(self._curve)):
            (cores, rate), rise = self._piece(at)
            if rise <= price_s * self._rates[at] ** 2:
                return cores + (max(rate, sqrt(rise / price_s)) - rate) / rise
        return self.fastest

    def slope(self, degree: float) -> float:
        """The derivative of the service time, just below this number of cores."""
        if degree > self.fastest:
            return 0.0
        _, rise = self._piece(bisect_left(self._degrees, degree))
        return -rise * self.time_s(degree) ** 2

    def taking(self, running_s: float) -> Sampled:
        """The same model with another service time on one core."""
        _check_running(running_s)
        part = running_s / self.running_s
        return Sampled(tuple((cores, part * time_s) for cores, time_s in self.samples))

    def _piece(self, at: int) -> tuple[Point, float]:
        """The start of the segment up to this point, and its slope."""
        return self._curve[at - 1], _rise(self._curve[at - 1 : at + 1])


def _rise(ends: Sequence[Point]) -> float:
    (cores, rate), (more, faster) = ends
    return (faster - rate) / (more - cores)


@dataclass(frozen=True)
class Paced:
    """A source, which is no faster than tasks come to it (games 6.2)."""

    service: ServiceTime
    every_s: float

    def __post_init__(self) -> None:
        _check_every(self.every_s)

    @property
    def running_s(self) -> float:
        """The service time on one core."""
        return self.service.running_s

    @cached_property
    def fastest(self) -> float:
        """The number of cores with which the source keeps up."""
        return self.service.degree(self.every_s)

    @property
    def scales(self) -> bool:
        """Whether n cores are n times as fast, while the source does not keep up."""
        return self.service.scales

    def time_s(self, degree: float) -> float:
        """The service time with this number of cores."""
        return max(self.service.time_s(degree), self.every_s)

    def degree(self, time_s: float) -> float:
        """The fewest cores with which a task takes at most this time, if any are enough."""
        return self.service.degree(max(time_s, self.every_s))

    def worth(self, price_s: float) -> float:
        """The number of cores at which another one saves less than its price or nothing."""
        return min(self.service.worth(price_s), self.fastest)

    def slope(self, degree: float) -> float:
        """The derivative of the service time, just below this number of cores."""
        return self.service.slope(degree) if degree <= self.fastest else 0.0

    def taking(self, running_s: float) -> Paced:
        """The same model with another service time on one core."""
        return Paced(self.service.taking(running_s), self.every_s)


@dataclass(frozen=True)
class Feed:
    """A virtual source: it passes tasks on as they come, and needs no cores."""

    every_s: float
    running_s = 0.0
    fastest = 0.0
    scales = True

    def __post_init__(self) -> None:
        _check_every(self.every_s)

    def time_s(self, degree: float) -> float:
        """The time between two tasks, for any number of cores."""
        return self.every_s

    def degree(self, time_s: float) -> float:
        """The number of cores it needs, which is none."""
        return 0.0

    def worth(self, price_s: float) -> float:
        """The number of cores worth their price, which is none."""
        return 0.0

    def slope(self, degree: float) -> float:
        """The derivative of the service time, which is zero."""
        return 0.0

    def taking(self, running_s: float) -> Feed:
        """The same feed: it has no service time of its own."""
        return self


def _check_every(every_s: float) -> None:
    if not 0 < every_s < inf:
        raise UserError(f"gets a task every {every_s:g} s, not more than 0")


def fed(service: ServiceTime, every_s: float) -> ServiceTime:
    """The service of a source with this time between two tasks, in place of an earlier one."""
    if isinstance(service, Feed):
        return Feed(every_s)
    return Paced(service.service if isinstance(service, Paced) else service, every_s)
