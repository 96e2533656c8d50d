"""Pheromones: the probabilities of neighbours towards a destination, and statistics of trips."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from random import Random

LEAST = 0.01
"""The least probability of a neighbour, as a fraction of an equal share."""
WINDOW = 50
"""The approximate number of trips in the moving mean and variance."""
Z = 1.7
"""A trip is good if it exceeds the mean by at most this number of standard errors."""


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
        """The probability that an ant takes this neighbour."""
        return self._parts[self._names.index(neighbour)]

    def reinforce(self, neighbour: str, r: float) -> None:
        """Raise the probability of one neighbour and lower the others (1, 2)."""
        assert 0 <= r <= 1, "reinforcements are parts"
        at = self._names.index(neighbour)
        self._parts = [p * (1 - r) for p in self._parts]
        self._parts[at] += r
        self._level()

    def discourage(self, neighbour: str, r: float) -> None:
        """Lower the probability of one neighbour and raise the others."""
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
        """Choose one of these neighbours at random, by their probabilities."""
        names = [name for name in self._names if name in set(allowed)]
        weights = [self.probability(name) for name in names]
        return rng.choices(names, weights)[0]


@dataclass
class Trips:
    """The durations of trips to a destination: mean, variance, and the recent best."""

    mean_s: float = 0.0
    variance: float = 0.0
    best_s: float = 0.0
    number: int = 0

    def add(self, took_s: float) -> None:
        """Add the duration of a trip."""
        self.number += 1
        if self.number == 1:
            self.mean_s = self.best_s = took_s
            return
        part = 1 / min(self.number, WINDOW)
        off = took_s - self.mean_s
        self.mean_s += part * off
        self.variance += part * (off * off - self.variance)
        # The best decays towards the mean, since it may not be possible any more.
        self.best_s = min(took_s, self.best_s + part * (self.mean_s - self.best_s) / 5)

    def good(self, took_s: float) -> bool:
        """Whether a trip is at most the mean plus its confidence interval.

        >>> trips = Trips()
        >>> for took in (1.0, 1.2, 0.8):
        ...     trips.add(took)
        >>> trips.good(1.05), trips.good(2.0)
        (True, False)
        """
        if self.number < 2:
            return True
        return took_s < self.mean_s + Z * sqrt(self.variance / min(self.number, WINDOW))
