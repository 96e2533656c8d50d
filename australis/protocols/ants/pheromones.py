"""Pheromones: how often ants take which neighbour towards a destination, and what trips took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from random import Random

LEAST = 0.01
"""No neighbour is ever quite forgotten: its part of an even share does not fall below this."""
WINDOW = 50
"""Means and variances are over about so many trips."""
Z = 1.7
"""A trip is good up to so many standard errors above the mean."""


class Vector:
    """The probabilities of the neighbours of a cell, for one destination.

    >>> vector = Vector(["a", "b"])
    >>> vector.reinforce("a", 0.5)
    >>> vector.probability("a"), vector.probability("b")
    (0.75, 0.25)
    """

    def __init__(self, neighbours: Sequence[str]) -> None:
        self._names = tuple(neighbours)
        self._parts = [1 / len(self._names)] * len(self._names)

    def probability(self, neighbour: str) -> float:
        """How likely it is that an ant takes this one."""
        return self._parts[self._names.index(neighbour)]

    def reinforce(self, neighbour: str, r: float) -> None:
        """Make one likelier and the others less so (1, 2)."""
        assert 0 <= r <= 1, "reinforcements are parts"
        at = self._names.index(neighbour)
        self._parts = [p * (1 - r) for p in self._parts]
        self._parts[at] += r
        self._level()

    def discourage(self, neighbour: str, r: float) -> None:
        """Make one less likely and the others more so."""
        assert 0 <= r <= 1, "reinforcements are parts"
        if len(self._names) > 1:
            self._parts[self._names.index(neighbour)] *= 1 - r
            self._level()

    def _level(self) -> None:
        least = LEAST / len(self._parts)
        parts = [max(p, least) for p in self._parts]
        total = sum(parts)
        self._parts = [p / total for p in parts]

    def choose(self, rng: Random, allowed: Iterable[str]) -> str:
        """One of these, as the probabilities say."""
        names = [name for name in self._names if name in set(allowed)]
        weights = [self.probability(name) for name in names]
        return rng.choices(names, weights)[0]


@dataclass
class Trips:
    """How long ants took to a destination: mean, variance, and the best of late."""

    mean_s: float = 0.0
    variance: float = 0.0
    best_s: float = 0.0
    number: int = 0

    def add(self, took_s: float) -> None:
        """One more."""
        self.number += 1
        if self.number == 1:
            self.mean_s = self.best_s = took_s
            return
        part = 1 / min(self.number, WINDOW)
        off = took_s - self.mean_s
        self.mean_s += part * off
        self.variance += part * (off * off - self.variance)
        # What was best long ago may not be possible any more.
        self.best_s = min(took_s, self.best_s + part * (self.mean_s - self.best_s) / 5)

    def good(self, took_s: float) -> bool:
        """Whether a trip is below the mean and its confidence interval.

        >>> trips = Trips()
        >>> for took in (1.0, 1.2, 0.8):
        ...     trips.add(took)
        >>> trips.good(1.05), trips.good(2.0)
        (True, False)
        """
        if self.number < 2:
            return True
        return took_s < self.mean_s + Z * sqrt(self.variance / min(self.number, WINDOW))
