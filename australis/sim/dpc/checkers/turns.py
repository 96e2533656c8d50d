"""Where replicas stabilise in turn, one of them always stays available (4.7.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from australis.protocols.dpc.replica import ReplicaMachine
from australis.sim.dpc.probes import Checker


class OneAtATime(Checker):
    """Never do all replicas of a fragment take their turn at once, each by another's leave."""

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
        if peers and _has_turn(machine) and all(_has_turn(self._machine(p)) for p in peers):
            self.fail(f"{node} stabilises while {' and '.join(peers)} does")


def _has_turn(machine: ReplicaMachine | None) -> bool:
    return machine is not None and machine.stagger.active and not machine.stagger.alone
