"""The thesis' second version of the SPE (4.7.3), a stand-in for experiments only.

While a node reconciles, the thesis lets another version of the query diagram, which stays in
UP_FAILURE, process new tuples. It is a separate process, here with a separate CPU, and receives
only the new tuples of a healed input: the replay goes to the version that reconciles. Our nodes
have two lanes on one CPU and one set of input buffers instead.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

from australis.kernel.durations import MILLISECOND
from australis.kernel.machine import Effect
from australis.protocols.dpc.effects import RunStable, RunTentative
from australis.protocols.dpc.inputs import Input
from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.outputs import OutputConfig
from australis.sim.dpc.engine import Inputs
from australis.sim.dpc.hosts import ReplicaHost, rows_of
from research.thesis_dpc.replicas import ThesisOutput, ThesisReplica

LATE_US = 300 * MILLISECOND
"""A stable bucket that arrives this long after its end is part of a replay."""


class VersionedOutput(ThesisOutput):
    """An output that tracks which stable buckets were replayed."""

    def __init__(self, config: OutputConfig, inputs: Iterable[Input], options: DpcOptions) -> None:
        super().__init__(config, inputs, options)
        self.replayed: set[tuple[int, int]] = set()
        """The input and the number of each bucket that was replayed."""
        self._seen = [-1] * len(self.inputs)

    def release(self, now: int) -> list[Effect]:
        """Record what was replayed, then release what is due."""
        for i, one in enumerate(self.inputs):
            for number in range(self._seen[i] + 1, one.have + 1):
                if now - (number + 1) * self.options.bucket_us > LATE_US:
                    self.replayed.add((i, number))
            self._seen[i] = one.have
        return super().release(now)


class VersionedReplica(ThesisReplica):
    """A node with two versions of its diagram."""

    output_class = VersionedOutput


class TwoVersions(ReplicaHost):
    """A CPU for each version: tentative and stable work do not wait for each other."""

    _drafting = False
    _reconciling = False

    def _work(self) -> None:
        if self._urgent and not self._drafting:
            self._drafting = True
            *_, effect = heapq.heappop(self._urgent)
            inputs = self._without_replays(effect)
            self._spend(1, inputs, self._drafted, effect, inputs)
        if self._patient and not self._reconciling:
            self._reconciling = True
            _, job = self._patient.popleft()
            inputs = rows_of(job.inputs, job.after, job.upto)
            self._spend(job.upto - job.after, inputs, self._reconciled, job, inputs)

    def _without_replays(self, effect: RunTentative) -> list[tuple[int, Inputs]]:
        output = self.machine.outputs[effect.output]
        assert isinstance(output, VersionedOutput)
        n = effect.bucket
        ((_, batches),) = rows_of(effect.inputs, n - 1, n)
        return [(n, tuple(None if (i, n) in output.replayed else b for i, b in enumerate(batches)))]

    def _drafted(self, effect: RunTentative, inputs: Any) -> None:
        self._drafting = False
        self._tentative(effect, inputs)
        self._work()

    def _reconciled(self, job: RunStable, inputs: Any) -> None:
        self._reconciling = False
        self._stable(job, inputs)
