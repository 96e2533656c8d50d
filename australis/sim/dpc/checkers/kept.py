"""Logs keep what a node may still need: it goes on from its own disk (thesis 4.8)."""

from __future__ import annotations

from collections.abc import Callable, Set

from australis.protocols.dpc.replica import ReplicaMachine
from australis.sim.dpc.probes import Checker


class KeptUpstream(Checker):
    """A node that never lost its disk finds the next bucket in some upstream log.

    If an upstream node lost its own disk, a replica's snapshot is needed instead. Behind a fragment
    whose replicas have all lost theirs, logs begin anew.
    """

    name = "kept"

    def __init__(
        self,
        wiped: Set[str],
        begun_anew: Set[str] = frozenset(),
        counts: Callable[[str], bool] = lambda node: True,
    ) -> None:
        """A checker for the nodes that count: not those that are joining, which may have to begin
        with a newer snapshot, and not those that have left and do not know it yet."""
        self._wiped = wiped
        self._counts = counts
        self._begun_anew = begun_anew
        """The streams of such fragments, and those computed from them."""

    def looked(self, node: str, machine: ReplicaMachine) -> None:
        if node in self._wiped or self._wiped & machine.monitors.keys():
            return
        if not self._counts(node):
            return
        for output in machine.outputs.values():
            if output.left_behind and output.stream not in self._begun_anew:
                self.fail(
                    f"upstream logs have forgotten what {node} needs next for {output.stream}"
                )
