"""Logs keep what a node may still need: it goes on from its own disk (thesis 4.8)."""

from __future__ import annotations

from collections.abc import Set

from australis.protocols.dpc.replica import ReplicaMachine
from australis.sim.dpc.probes import Checker


class KeptUpstream(Checker):
    """A node that never lost its disk finds the next bucket in some upstream log.

    Unless an upstream node lost its own: then a replica's snapshot has to help.
    """

    name = "kept"

    def __init__(self, wiped: Set[str]) -> None:
        self._wiped = wiped

    def looked(self, node: str, machine: ReplicaMachine) -> None:
        if node in self._wiped or self._wiped & machine.monitors.keys():
            return
        for output in machine.outputs.values():
            if output.left_behind:
                self.fail(
                    f"upstream logs have forgotten what {node} needs next for {output.stream}"
                )
