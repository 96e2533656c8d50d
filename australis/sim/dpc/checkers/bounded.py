"""Buffers are bounded by configuration, whatever fails and for how long."""

from __future__ import annotations

from australis.protocols.dpc.options import DpcOptions
from australis.protocols.dpc.replica import ReplicaMachine
from australis.sim.dpc.probes import Checker


class BoundedBuffers(Checker):
    """Nothing a node holds in memory grows beyond its window."""

    name = "bounded"

    def __init__(self, options: DpcOptions) -> None:
        self._options = options
        self.most = 0

    def looked(self, node: str, machine: ReplicaMachine) -> None:
        window = self._options.input_window
        for one in machine.inputs.values():
            held, over = len(one.stable), len(one.overlay)
            self.most = max(self.most, held)
            if held > window or over > 2 * window + 1:
                self.fail(
                    f"{node} holds {held} stable and {over} tentative buckets of {one.stream}"
                )
        for output in machine.outputs.values():
            if len(output.overlay.buckets) > window:
                self.fail(f"{node} keeps {len(output.overlay.buckets)} tentative buckets")
            limit = self._options.bounds_of(output.stream).max_buckets
            kept = output.end - output.trimmed_upto
            if limit is not None and kept > limit + self._options.batch_buckets:
                self.fail(f"{node} keeps {kept} buckets of {output.stream}, {limit} are allowed")
