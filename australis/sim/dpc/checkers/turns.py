"""Where replicas stabilise in turn, one of them always stays available (4.7.3)."""

from __future__ import annotations

from collections.abc import Mapping

from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.states import Phase
from australis.sim.dpc.probes import Checker


class OneAtATime(Checker):
    """No two replicas of a fragment suspend new tuples for stabilising at once."""

    name = "turns"

    def __init__(self, peers: Mapping[str, tuple[str, ...]]) -> None:
        self._peers = peers
        self._suspended: set[str] = set()

    def looked(self, node: str, machine: ReplicaMachine) -> None:
        outputs = machine.outputs.values()
        if any(o.phase is Phase.STABILIZATION and not o.available for o in outputs):
            self._suspended.add(node)
            others = self._suspended.intersection(self._peers[node])
            if len(others) >= len(self._peers[node]):
                self.fail(f"{node} stabilises while {', '.join(sorted(others))} does")
        else:
            self._suspended.discard(node)

    def crashed(self, node: str) -> None:
        """A node that is down stabilises nothing."""
        self._suspended.discard(node)
