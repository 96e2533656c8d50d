"""All replicas' stable logs are equal, and equal to those of a fault-free run."""

from __future__ import annotations

from collections.abc import Sequence

from australis.protocols.dpc.messages import Bucket
from australis.sim.dpc.oracle import Oracle
from australis.sim.dpc.probes import Checker


class EqualLogs(Checker):
    """What any replica appends is what the fault-free run has there."""

    name = "logs"

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def appended(self, node: str, stream: str, end: int, new: Sequence[Bucket]) -> None:
        for place, bucket in enumerate(new, end + 1):
            if bucket.number != place:
                self.fail(f"{node} logged bucket {bucket.number} of {stream} at place {place}")
            if not self._oracle.same(stream, bucket):
                self.fail(f"{node} logged other tuples in bucket {bucket.number} of {stream}")
