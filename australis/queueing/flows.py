"""Flows through a server, alone and aggregated (ants expressions 3 to 10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from australis.kernel.errors import UserError


@dataclass(frozen=True)
class Flow:
    """The tuples that one query sends through a server."""

    rate: float
    """Tuples per second."""
    service_s: float
    """The mean time for which a tuple occupies the server."""
    arrivals_scv: float = 1.0
    """The squared coefficient of variation of the times between tuples: 1 for Poisson arrivals."""
    service_scv: float = 1.0
    """The squared coefficient of variation of the service times: 1 for exponential ones."""

    def __post_init__(self) -> None:
        for what in ("rate", "service_s", "arrivals_scv", "service_scv"):
            value = getattr(self, what)
            if not 0 <= value < inf:
                raise UserError(f"should not be negative, not {value:g}", name=what)


@dataclass(frozen=True)
class Demand:
    """The aggregate of all flows through a server, as sums over the flows."""

    rate: float = 0.0
    load: float = 0.0
    """rho: the utilisation of the server; above 1 it cannot keep up."""
    _second: float = 0.0
    """The sum of rates times mean squares of service times."""
    _squares: float = 0.0
    """The sum of squared rates."""
    _arrivals: float = 0.0
    """The sum of rates times the variability of arrivals."""

    @classmethod
    def of(cls, flow: Flow) -> Demand:
        """The demand of one flow."""
        square = flow.service_s**2 * (flow.service_scv + 1)
        return cls(
            flow.rate,
            flow.rate * flow.service_s,
            flow.rate * square,
            flow.rate**2,
            flow.rate * flow.arrivals_scv,
        )

    @classmethod
    def total(cls, flows: Iterable[Flow]) -> Demand:
        """The demand of several flows together."""
        return sum((cls.of(flow) for flow in flows), cls())

    def __add__(self, other: Demand) -> Demand:
        return Demand(
            self.rate + other.rate,
            self.load + other.load,
            self._second + other._second,
            self._squares + other._squares,
            self._arrivals + other._arrivals,
        )

    def __sub__(self, other: Demand) -> Demand:
        return Demand(
            max(0.0, self.rate - other.rate),
            max(0.0, self.load - other.load),
            max(0.0, self._second - other._second),
            max(0.0, self._squares - other._squares),
            max(0.0, self._arrivals - other._arrivals),
        )

    @property
    def service_scv(self) -> float:
        """The squared coefficient of variation of service times (5).

        >>> one, other = Flow(1.0, 0.1), Flow(1.0, 0.3)
        >>> round(Demand.of(one).service_scv, 9), round(Demand.total([one, other]).service_scv, 9)
        (1.0, 1.5)
        """
        if self.load == 0:
            return 0.0
        mean = self.load / self.rate
        return max(0.0, self._second / self.rate / mean**2 - 1)

    @property
    def arrivals_scv(self) -> float:
        """The squared coefficient of variation of arrivals (6 to 8); near 1 for many flows.

        >>> steady = [Flow(1.0, 0.01, arrivals_scv=0.0)] * 50
        >>> round(Demand.total(steady[:1]).arrivals_scv, 3), round(Demand.total(steady).arrivals_scv, 3)
        (0.0, 0.98)
        """
        if self.rate == 0:
            return 0.0
        streams = self.rate**2 / self._squares
        weight = 1 / (1 + 4 * (1 - min(1.0, self.load)) ** 2 * (streams - 1))
        return (1 - weight) + weight * self._arrivals / self.rate

    @property
    def wait_s(self) -> float:
        """The mean time a tuple waits for service (9); infinite if the server cannot keep up.

        >>> Demand.of(Flow(5.0, 0.1)).wait_s, Demand.of(Flow(10.0, 0.1)).wait_s
        (0.1, inf)
        """
        if self.load >= 1:
            return inf
        if self.load == 0:
            return 0.0
        mean = self.load / self.rate
        return self.load / (1 - self.load) * (self.arrivals_scv + self.service_scv) / 2 * mean

    def latency_s(self, flow: Flow) -> float:
        """The mean time a tuple of a flow spends at the server, waiting and in service (10)."""
        return self.wait_s + flow.service_s
