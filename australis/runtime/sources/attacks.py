"""Scans and floods: the attacks in the generated connections, and their times.

They depend on the seed alone and not on the site, so that generators that share
a seed see the same attackers at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from australis.kernel.durations import SECOND

START_US = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z."""

HOUR_US = 3600 * SECOND
HOSTS_PER_RATE = 5


@dataclass(frozen=True)
class AttackKind:
    """The parameters of one kind of attack."""

    name: str
    network: str
    connections: int
    lasts_us: int
    stream: int
    """The key that separates the random numbers of the kinds."""

    @property
    def step_us(self) -> int:
        """The time between two connections."""
        return self.lasts_us // self.connections


SCAN = AttackKind("scan", "203.0.113", 300, 20 * SECOND, 1)
FLOOD = AttackKind("flood", "198.51.100", 3000, 30 * SECOND, 2)


@dataclass(frozen=True)
class Attack:
    """One scan or flood, with absolute times."""

    kind: str
    src: str
    start_us: int
    end_us: int
    connections: int


@dataclass(frozen=True)
class ConnectionOptions:
    """The options of the generator; see `generate` for what they mean."""

    rate: float = 1000.0
    duration_us: int | None = None
    seed: int = 1
    site: int = 0
    hosts: int | None = None
    scans: float = 1.0
    floods: float = 0.5
    start_us: int = START_US

    @property
    def host_count(self) -> int:
        """The number of ordinary hosts."""
        return self.hosts or max(200, int(self.rate * HOSTS_PER_RATE))

    @property
    def rows(self) -> int | None:
        """The number of ordinary connections; None: no limit."""
        if self.duration_us is None:
            return None
        return int(Fraction(self.rate) * self.duration_us / SECOND)

    def attacks(self, kind: AttackKind, since_us: int, until_us: int) -> Iterator[Attack]:
        """The attacks of a kind that touch [since, until), which count from the start."""
        per_minute = self.scans if kind is SCAN else self.floods
        if not per_minute:
            return
        slot_us = int(60 * SECOND / per_minute)
        first = max(0, (since_us - kind.lasts_us) // slot_us - 1)
        for number in range(first, until_us // slot_us + 1):
            begin = number * slot_us + int(lot(self.seed, kind.stream, number) * slot_us)
            end = begin + kind.lasts_us
            fits = self.duration_us is None or end <= self.duration_us
            if fits and begin < until_us and end > since_us:
                source = f"{kind.network}.{number % 254 + 1}"
                start = self.start_us + begin
                yield Attack(kind.name, source, start, start + kind.lasts_us, kind.connections)


@lru_cache(maxsize=4096)
def lot(*key: int) -> float:
    """A random number in [0, 1) that belongs to this key."""
    return float(np.random.default_rng(key).random())


def truth(options: ConnectionOptions, horizon_us: int = HOUR_US) -> dict[str, list[Attack]]:
    """The attacks of a run, by kind; of a run without end, those up to the horizon."""
    until_us = options.duration_us or horizon_us
    return {kind.name: list(options.attacks(kind, 0, until_us)) for kind in (SCAN, FLOOD)}
