"""Links as servers: a tuple waits for those before it, takes its time on the wire, and travels."""

from __future__ import annotations

from dataclasses import dataclass

from australis.kernel.errors import UserError
from australis.queueing.flows import Demand, Flow


@dataclass(frozen=True)
class Wire:
    """What a link can do."""

    bytes_per_s: float
    latency_s: float = 0.0
    """How long the way is, whatever is on it."""

    def __post_init__(self) -> None:
        if self.bytes_per_s <= 0:
            raise UserError("should be more than 0", name="bandwidth")
        if self.latency_s < 0:
            raise UserError("should not be negative", name="latency")

    def flow(self, rate: float, tuple_bytes: float, arrivals_scv: float = 1.0) -> Flow:
        """What tuples of one size are to the link: each takes its time on the wire.

        >>> Wire(1_000_000.0).flow(100.0, 5_000.0)
        Flow(rate=100.0, service_s=0.005, arrivals_scv=1.0, service_scv=0.0)
        """
        return Flow(rate, tuple_bytes / self.bytes_per_s, arrivals_scv, service_scv=0.0)

    def delay_s(self, demand: Demand, flow: Flow) -> float:
        """From one end to the other: wait, transmission and way."""
        return demand.latency_s(flow) + self.latency_s
