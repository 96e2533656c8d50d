"""Where replicas stabilise in turn, one of them always stays available (4.7.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.states import Phase
from australis.sim.dpc.probes import Checker


class OneAtATime(Checker):
    """Never do all replicas of a fragment suspend new tuples for stabilising at once."""

    name = "turns"

    def __init__(
        self,
        peers: Mapping[str, tuple[str, ...]],
        machine: Callable[[str], ReplicaMachine | None],
    ) -> None:
        self._peers = peers
        self._machine = machine

    def looked(self, node: str, machine: ReplicaMachine) -> None:
        peers = self._peers[node]
        if peers and _suspends(machine) and all(_suspends(self._machine(p)) for p in peers):
            self.fail(f"{node} stabilises while {' and '.join(peers)} does")


def _suspends(machine: ReplicaMachine | None) -> bool:
    if machine is None:
        return False
    outputs = machine.outputs.values()
    return any(o.phase is Phase.STABILIZATION and not o.available for o in outputs)
