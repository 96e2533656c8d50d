"""Links as servers: a tuple waits in a queue, is transmitted, and propagates."""

from __future__ import annotations

from dataclasses import dataclass

from australis.kernel.errors import UserError
from australis.queueing.flows import Demand, Flow


@dataclass(frozen=True)
class Wire:
    """The capacity and the latency of a link."""

    bytes_per_s: float
    latency_s: float = 0.0
    """The propagation delay, which does not depend on the load."""

    def __post_init__(self) -> None:
        if self.bytes_per_s <= 0:
            raise UserError("should be more than 0", name="bandwidth")
        if self.latency_s < 0:
            raise UserError("should not be negative", name="latency")

    def flow(self, rate: float, tuple_bytes: float, arrivals_scv: float = 1.0) -> Flow:
        """The flow that tuples of one size put on the link: each takes its transmission time.

        >>> Wire(1_000_000.0).flow(100.0, 5_000.0)
        Flow(rate=100.0, service_s=0.005, arrivals_scv=1.0, service_scv=0.0)
        """
        return Flow(rate, tuple_bytes / self.bytes_per_s, arrivals_scv, service_scv=0.0)

    def delay_s(self, demand: Demand, flow: Flow) -> float:
        """The delay from one end to the other: waiting, transmission and propagation."""
        return demand.latency_s(flow) + self.latency_s
