"""How much a server or link is used, in three numbers."""

from __future__ import annotations

from math import inf

import msgspec

from australis.queueing.flows import Flow


class Use(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How much a server or link is used, or how much somebody uses it.

    Tuples come at random (Poisson arrivals). Then two sums say all that is to be said of a queue, and
    expression 9 of ants, which `queueing.flows` works out for any arrivals, is exact.
    """

    load: float = 0.0
    second: float = 0.0
    """Rates times the mean squares of the times that tuples take."""
    weight: float = 0.0
    """So many flows wait there: a part of a query's for each place where they do."""

    @classmethod
    def of(cls, flow: Flow, weight: float) -> Use:
        """What a flow does."""
        square = flow.service_s * flow.service_s * (flow.service_scv + 1)
        return cls(flow.rate * flow.service_s, flow.rate * square, weight)

    def plus(self, other: Use) -> Use:
        """Both together."""
        return Use(self.load + other.load, self.second + other.second, self.weight + other.weight)

    def minus(self, other: Use) -> Use:
        """What is left without a part of it."""
        return Use(
            max(0.0, self.load - other.load),
            max(0.0, self.second - other.second),
            max(0.0, self.weight - other.weight),
        )

    @property
    def wait_s(self) -> float:
        """How long a tuple waits there.

        >>> Use.of(Flow(5.0, 0.1), 1.0).wait_s
        0.1
        """
        if self.load >= 1:
            return inf
        return self.second / (2 * (1 - self.load))

    @property
    def waiting_s(self) -> float:
        """All waits together, each as often as it counts."""
        return self.wait_s * self.weight if self.weight else 0.0

    def costs_s(self, more: Use) -> float:
        """What more of it costs: its own waits, and longer ones of what is there."""
        after = self.plus(more).waiting_s
        return after - self.waiting_s if after < inf else inf


NOTHING = Use()
