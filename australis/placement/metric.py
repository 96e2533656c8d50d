"""What a good placement is: short latencies, little traffic, or something in between."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from australis.kernel.errors import UserError


@dataclass(frozen=True)
class Metric:
    """What a second of latency costs, and traffic.

    Traffic alone leaves many placements equally good: some latency always counts.
    """

    latency: float = 1.0
    """For every second a query's results take, and by which others take longer,"""
    bandwidth: float = 0.0
    """for every byte a second on a link,"""
    usage: float = 0.0
    """and for that times the latency of the link, in seconds."""

    def __post_init__(self) -> None:
        if not 0 < self.latency < inf:
            raise UserError("should count for something", name="latency")
        if min(self.bandwidth, self.usage) < 0:
            raise UserError("should not be negative", name="a weight of a metric")

    def traffic(self, bytes_per_s: float, latency_s: float, hops: int = 1) -> float:
        """What traffic over some links costs, whose latencies are so long together.

        >>> Metric(bandwidth=2.0, usage=10.0).traffic(100.0, 0.03, hops=2)
        430.0
        """
        return bytes_per_s * (hops * self.bandwidth + latency_s * self.usage)


LATENCY = Metric()
BANDWIDTH = Metric(latency=1e-3, bandwidth=1.0)
USAGE = Metric(latency=1e-3, usage=1.0)
"""Bandwidth times latency."""
