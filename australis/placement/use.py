"""The utilisation of a server or link in three numbers."""

from __future__ import annotations

from math import inf

import msgspec

from australis.queueing.flows import Flow


class Use(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The use of a server or link, in total or by one of its users.

    Arrivals are Poisson. Then two sums describe a queue completely, and expression 9 of ants, which
    `queueing.flows` computes for any arrivals, is exact.
    """

    load: float = 0.0
    second: float = 0.0
    """The sum of rates times the mean squares of service times."""
    weight: float = 0.0
    """The number of flows that wait there; a query's flows count as fractions."""

    @classmethod
    def of(cls, flow: Flow, weight: float) -> Use:
        """The use by one flow."""
        square = flow.service_s * flow.service_s * (flow.service_scv + 1)
        return cls(flow.rate * flow.service_s, flow.rate * square, weight)

    def plus(self, other: Use) -> Use:
        """The sum of two uses."""
        return Use(self.load + other.load, self.second + other.second, self.weight + other.weight)

    def minus(self, other: Use) -> Use:
        """The rest without a part of it."""
        return Use(
            max(0.0, self.load - other.load),
            max(0.0, self.second - other.second),
            max(0.0, self.weight - other.weight),
        )

    @property
    def wait_s(self) -> float:
        """The mean waiting time of a tuple.

        >>> Use.of(Flow(5.0, 0.1), 1.0).wait_s
        0.1
        """
        if self.load >= 1:
            return inf
        return self.second / (2 * (1 - self.load))

    @property
    def waiting_s(self) -> float:
        """The weighted sum of all waiting times."""
        return self.wait_s * self.weight if self.weight else 0.0

    def costs_s(self, more: Use) -> float:
        """The cost of additional use: its own waiting time, and its effect on the present use."""
        after = self.plus(more).waiting_s
        return after - self.waiting_s if after < inf else inf


NOTHING = Use()
