"""The objective of a placement: low latency, little traffic, or a weighted sum of both."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from australis.kernel.errors import UserError


@dataclass(frozen=True)
class Metric:
    """The prices of a second of latency and of traffic.

    With traffic alone many placements are equally good, so latency has a positive weight.
    """

    latency: float = 1.0
    """The price of a second of the query's latency, and of each second it adds to other queries."""
    bandwidth: float = 0.0
    """The price of a byte per second on a link."""
    usage: float = 0.0
    """The price of a byte per second on a link, times the latency of the link in seconds."""

    def __post_init__(self) -> None:
        if not 0 < self.latency < inf:
            raise UserError("should count for something", name="latency")
        if min(self.bandwidth, self.usage) < 0:
            raise UserError("should not be negative", name="a weight of a metric")

    def traffic(self, bytes_per_s: float, latency_s: float, hops: int = 1) -> float:
        """The price of traffic over `hops` links with this total latency.

        >>> Metric(bandwidth=2.0, usage=10.0).traffic(100.0, 0.03, hops=2)
        430.0
        """
        return bytes_per_s * (hops * self.bandwidth + latency_s * self.usage)


LATENCY = Metric()
