"""The logs of a fault-free run, computed from what the sources logged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from australis.diagram.fragments import Plan
from australis.protocols.dpc.messages import Bucket
from australis.sim.dpc.engine import Inputs, SharedEngine

UNKNOWN = object()
FORGET_AFTER = 1024
"""The number of buckets of each stream kept for comparison."""


class Oracle:
    """Computes every stream from the sources' logs, one bucket after the other."""

    def __init__(self, plans: Mapping[str, Plan], engines: Mapping[str, SharedEngine]) -> None:
        self._plans = plans
        self._engines = engines
        self._states = {stream: {-1: engines[stream].initial} for stream in plans}
        sources = {s for plan in plans.values() for s in plan.inputs} - set(plans)
        self._known: dict[str, dict[int, Any]] = {s: {} for s in [*sorted(sources), *plans]}
        self._end = dict.fromkeys(self._known, -1)

    def entered(self, source: str, new: Sequence[Bucket]) -> None:
        """Take buckets that a source has logged; repeated ones are skipped."""
        for bucket in new:
            if bucket.number == self._end[source] + 1:
                self._add(source, bucket.number, bucket.batch)
        for stream, plan in self._plans.items():
            while self._end[stream] < min(self._end[s] for s in plan.inputs):
                self._compute(stream, plan)

    def _compute(self, stream: str, plan: Plan) -> None:
        number = self._end[stream] + 1
        inputs = tuple(self._known[s][number] for s in plan.inputs)
        states = self._states[stream]
        states[number], batch = self._engines[stream].step(states[number - 1], inputs, number)
        states.pop(number - FORGET_AFTER, None)
        self._add(stream, number, batch)

    def _add(self, stream: str, number: int, batch: Any) -> None:
        self._known[stream][number] = batch
        self._end[stream] = number
        self._known[stream].pop(number - FORGET_AFTER, None)

    def end(self, stream: str) -> int:
        """The last known bucket of a stream."""
        return self._end[stream]

    def content(self, stream: str, number: int) -> Any:
        """The content of a bucket in a fault-free run; UNKNOWN if it is not known."""
        return self._known[stream].get(number, UNKNOWN)

    def same(self, stream: str, bucket: Bucket) -> bool:
        """Whether a fault-free run has this content in that bucket."""
        return equal(self.content(stream, bucket.number), bucket.batch)

    def state(self, stream: str, number: int, after: int = -1) -> Any:
        """The state of a stream's lane after a bucket.

        A lane that began with an empty state `after` some bucket has read only what followed.
        """
        if after < 0:
            return self._states[stream].get(number, UNKNOWN)
        state = self._engines[stream].initial
        for each in range(after + 1, number + 1):
            inputs = tuple(self.content(s, each) for s in self._plans[stream].inputs)
            if any(one is UNKNOWN for one in inputs):
                return UNKNOWN
            state, _ = self._engines[stream].step(state, inputs, each)
        return state

    def step(self, stream: str, state: Any, inputs: Inputs, number: int) -> tuple[Any, Any]:
        """The state after one more bucket with these inputs, and the stream's bucket."""
        return self._engines[stream].step(state, inputs, number)


def equal(one: Any, other: Any) -> bool:
    """Whether two buckets have the same content; an unknown one equals nothing else."""
    if one is other:
        return True
    if one is UNKNOWN or one is None or other is None:
        return False
    return bool(one == other)
