"""What a run without any fault would have logged, given what the sources logged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from australis.diagram.fragments import Plan
from australis.protocols.dpc.messages import Bucket
from australis.sim.dpc.engine import SharedEngine

UNKNOWN = object()
FORGET_AFTER = 1024
"""So many buckets of each stream are kept to compare with."""


class Oracle:
    """Computes every stream from the sources' logs, one bucket after the other."""

    def __init__(self, plans: Mapping[str, Plan], engines: Mapping[str, SharedEngine]) -> None:
        self._plans = plans
        self._engines = engines
        self._states = {stream: engines[stream].initial for stream in plans}
        sources = {s for plan in plans.values() for s in plan.inputs} - set(plans)
        self._known: dict[str, dict[int, Any]] = {s: {} for s in [*sorted(sources), *plans]}
        self._end = dict.fromkeys(self._known, -1)

    def entered(self, source: str, new: Sequence[Bucket]) -> None:
        """A source has logged buckets (those it had told of before are skipped)."""
        for bucket in new:
            if bucket.number == self._end[source] + 1:
                self._add(source, bucket.number, bucket.batch)
        for stream, plan in self._plans.items():
            while self._end[stream] < min(self._end[s] for s in plan.inputs):
                self._compute(stream, plan)

    def _compute(self, stream: str, plan: Plan) -> None:
        number = self._end[stream] + 1
        inputs = tuple(self._known[s][number] for s in plan.inputs)
        state, batch = self._engines[stream].step(self._states[stream], inputs, number)
        self._states[stream] = state
        self._add(stream, number, batch)

    def _add(self, stream: str, number: int, batch: Any) -> None:
        self._known[stream][number] = batch
        self._end[stream] = number
        self._known[stream].pop(number - FORGET_AFTER, None)

    def end(self, stream: str) -> int:
        """The last bucket of a stream that is known."""
        return self._end[stream]

    def same(self, stream: str, bucket: Bucket) -> bool:
        """Whether this is what a fault-free run has in that bucket."""
        known = self._known[stream].get(bucket.number, UNKNOWN)
        if known is bucket.batch:
            return True
        if known is UNKNOWN or known is None or bucket.batch is None:
            return False
        return bool(known == bucket.batch)
