"""How long a module takes for a task, by the number of its cores (games 4.1, figure 3).

Numbers of cores are real numbers above 0: below 1 a module has a part of a core, and takes the longer.
All models are convex, and all fall up to their `fastest` number of cores; more are never used.

    Ideal(2.0).time_s(4.0)              # 0.5: n cores are n times as fast (figure 3a)
    Saturating(2.0, 3.0).time_s(4.0)    # 0.667: more than three change nothing (figure 3b)
    WithMinimum(2.0, 3.0).time_s(4.0)   # 1.167: more than three make it slower (figure 3c)
    Sampled(((1, 2.0), (4, 0.6)))       # between what was measured
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
    """How long a module takes for a task."""

    @property
    def running_s(self) -> float:
        """On one core."""
        ...

    @property
    def fastest(self) -> float:
        """The number of cores beyond which none helps (n0 in figure 3)."""
        ...

    @property
    def scales(self) -> bool:
        """Whether n cores are n times as fast, up to the fastest number of them."""
        ...

    def time_s(self, degree: float) -> float:
        """With so many cores."""
        ...

    def degree(self, time_s: float) -> float:
        """The fewest cores with which it takes no longer; the fastest number if none are enough."""
        ...

    def worth(self, price_s: float) -> float:
        """The number of cores at which time and cores together cost least, if a core costs as much as
        so many seconds: one more would save less than that."""
        ...

    def slope(self, degree: float) -> float:
        """By how much the time changes with a core, just below this number of them."""
        ...

    def taking(self, running_s: float) -> ServiceTime:
        """The same, but so long on one core."""
        ...


def _check_running(running_s: float) -> None:
    if not 0 < running_s < inf:
        raise UserError(f"takes {running_s:g} s for a task, not more than 0")


def _check_fastest(fastest: float) -> None:
    if not 1 <= fastest < inf:
        raise UserError(f"is fastest with {fastest:g} cores, not with at least 1")


@dataclass(frozen=True)
class Ideal:
    """n cores are n times as fast, however many (figure 3a)."""

    running_s: float
    fastest = inf
    scales = True

    def __post_init__(self) -> None:
        _check_running(self.running_s)

    def time_s(self, degree: float) -> float:
        """With so many cores."""
        return self.running_s / degree

    def degree(self, time_s: float) -> float:
        """The fewest cores with which it takes no longer."""
        return self.running_s / time_s

    def worth(self, price_s: float) -> float:
        """Where one more core saves less than it costs (expression 10)."""
        return sqrt(self.running_s / price_s) if price_s > 0 else inf

    def slope(self, degree: float) -> float:
        """By how much the time changes with a core."""
        return -self.running_s / (degree * degree)

    def taking(self, running_s: float) -> Ideal:
        """The same, but so long on one core."""
        return Ideal(running_s)


@dataclass(frozen=True)
class Saturating:
    """n cores are n times as fast, but more than so many change nothing (figure 3b)."""

    running_s: float
    fastest: float
    scales = True

    def __post_init__(self) -> None:
        _check_running(self.running_s)
        _check_fastest(self.fastest)

    def time_s(self, degree: float) -> float:
        """With so many cores."""
        return self.running_s / min(degree, self.fastest)

    def degree(self, time_s: float) -> float:
        """The fewest cores with which it takes no longer, if any are enough."""
        return min(self.running_s / time_s, self.fastest)

    def worth(self, price_s: float) -> float:
        """Where one more core saves less than it costs, or nothing."""
        return min(sqrt(self.running_s / price_s), self.fastest) if price_s > 0 else self.fastest

    def slope(self, degree: float) -> float:
        """By how much the time changes with a core."""
        return -self.running_s / (degree * degree) if degree <= self.fastest else 0.0

    def taking(self, running_s: float) -> Saturating:
        """The same, but so long on one core."""
        return Saturating(running_s, self.fastest)


@dataclass(frozen=True)
class WithMinimum:
    """Each core beyond the first also costs the others some time, which tells in the end (figure 3c).

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
        """What each core beyond the first adds."""
        return self.running_s / (self.fastest * self.fastest)

    def time_s(self, degree: float) -> float:
        """With so many cores."""
        return self.running_s / degree + self._each_s * max(0.0, degree - 1.0)

    def degree(self, time_s: float) -> float:
        """The fewest cores with which it takes no longer, if any are enough."""
        if time_s >= self.running_s:
            return self.running_s / time_s
        if time_s <= self.time_s(self.fastest):
            return self.fastest
        both = time_s + self._each_s
        root = sqrt(max(0.0, both * both - 4 * self._each_s * self.running_s))
        return 2 * self.running_s / (both + root)

    def worth(self, price_s: float) -> float:
        """Where one more core saves less than it costs; below the fastest number of them."""
        if price_s <= 0:
            return self.fastest
        shared = sqrt(self.running_s / price_s)
        if shared <= 1:
            return shared
        return max(1.0, sqrt(self.running_s / (price_s + self._each_s)))

    def slope(self, degree: float) -> float:
        """By how much the time changes with a core, just below this number of them."""
        alone = -self.running_s / (degree * degree)
        return alone if degree <= 1 else alone + self._each_s

    def taking(self, running_s: float) -> WithMinimum:
        """The same, but so long on one core."""
        return WithMinimum(running_s, self.fastest)


@dataclass(frozen=True)
class Sampled:
    """What was measured with some numbers of cores, and something between for the others.

    Tasks a second are interpolated, not seconds a task: of a module that scales, a straight line is
    right. The curve is the lowest one above all samples that rises and is concave; so service times
    fall and are convex, as all that follows needs, and a sample that was disturbed is passed over.
    Samples beyond the fastest one are not used.

    >>> model = Sampled(((1, 8.0), (2, 4.0), (4, 3.9), (8, 1.0), (16, 2.0)))
    >>> model.time_s(4), model.fastest, model.degree(2.0)
    (2.0, 8.0, 4.0)
    """

    samples: tuple[Point, ...]
    """Numbers of cores, and how long a task took then, in seconds."""
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
        """Numbers of cores and rates, from none on."""
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
        """On one core."""
        return self.time_s(1.0)

    @property
    def fastest(self) -> float:
        """The number of cores beyond which none helps."""
        return self._degrees[-1]

    def time_s(self, degree: float) -> float:
        """With so many cores."""
        if degree >= self.fastest:
            return 1 / self._rates[-1]
        (cores, rate), rise = self._piece(bisect_left(self._degrees, degree))
        return 1 / (rate + (degree - cores) * rise)

    def degree(self, time_s: float) -> float:
        """The fewest cores with which it takes no longer, if any are enough."""
        needed = 1 / time_s
        if needed >= self._rates[-1]:
            return self.fastest
        (cores, rate), rise = self._piece(bisect_left(self._rates, needed))
        return cores + (needed - rate) / rise

    def worth(self, price_s: float) -> float:
        """Where one more core saves less than it costs."""
        if price_s <= 0:
            return self.fastest
        for at in range(1, len(self._curve)):
            (cores, rate), rise = self._piece(at)
            if rise <= price_s * self._rates[at] ** 2:
                return cores + (max(rate, sqrt(rise / price_s)) - rate) / rise
        return self.fastest

    def slope(self, degree: float) -> float:
        """By how much the time changes with a core, just below this number of them."""
        if degree > self.fastest:
            return 0.0
        _, rise = self._piece(bisect_left(self._degrees, degree))
        return -rise * self.time_s(degree) ** 2

    def taking(self, running_s: float) -> Sampled:
        """The same, but so long on one core."""
        _check_running(running_s)
        part = running_s / self.running_s
        return Sampled(tuple((cores, part * time_s) for cores, time_s in self.samples))

    def _piece(self, at: int) -> tuple[Point, float]:
        """Where the piece up to this point begins, and how steep it is."""
        return self._curve[at - 1], _rise(self._curve[at - 1 : at + 1])


def _rise(ends: Sequence[Point]) -> float:
    (cores, rate), (more, faster) = ends
    return (faster - rate) / (more - cores)


@dataclass(frozen=True)
class Paced:
    """A source: it is no faster than tasks come to it (games 6.2)."""

    service: ServiceTime
    every_s: float

    def __post_init__(self) -> None:
        _check_every(self.every_s)

    @property
    def running_s(self) -> float:
        """On one core."""
        return self.service.running_s

    @cached_property
    def fastest(self) -> float:
        """The number of cores with which it keeps up."""
        return self.service.degree(self.every_s)

    @property
    def scales(self) -> bool:
        """Whether n cores are n times as fast, as long as it does not keep up."""
        return self.service.scales

    def time_s(self, degree: float) -> float:
        """With so many cores."""
        return max(self.service.time_s(degree), self.every_s)

    def degree(self, time_s: float) -> float:
        """The fewest cores with which it takes no longer, if any are enough."""
        return self.service.degree(max(time_s, self.every_s))

    def worth(self, price_s: float) -> float:
        """Where one more core saves less than it costs, or nothing."""
        return min(self.service.worth(price_s), self.fastest)

    def slope(self, degree: float) -> float:
        """By how much the time changes with a core, just below this number of them."""
        return self.service.slope(degree) if degree <= self.fastest else 0.0

    def taking(self, running_s: float) -> Paced:
        """The same, but so long on one core."""
        return Paced(self.service.taking(running_s), self.every_s)


@dataclass(frozen=True)
class Feed:
    """A virtual source: it passes tasks on as they come, and needs no cores for that."""

    every_s: float
    running_s = 0.0
    fastest = 0.0
    scales = True

    def __post_init__(self) -> None:
        _check_every(self.every_s)

    def time_s(self, degree: float) -> float:
        """Between two tasks."""
        return self.every_s

    def degree(self, time_s: float) -> float:
        """None."""
        return 0.0

    def worth(self, price_s: float) -> float:
        """None."""
        return 0.0

    def slope(self, degree: float) -> float:
        """No core changes anything."""
        return 0.0

    def taking(self, running_s: float) -> Feed:
        """The same: it does nothing that could take longer."""
        return self


def _check_every(every_s: float) -> None:
    if not 0 < every_s < inf:
        raise UserError(f"gets a task every {every_s:g} s, not more than 0")


def fed(service: ServiceTime, every_s: float) -> ServiceTime:
    """A source to which tasks come so often, whatever was said of that before."""
    if isinstance(service, Feed):
        return Feed(every_s)
    return Paced(service.service if isinstance(service, Paced) else service, every_s)
