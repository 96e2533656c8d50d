"""Where replicas stabilise in turn, one of them always stays available (4.7.3)."""

from __future__ import annotations

from collections.abc import Callable

from australis.protocols.dpc.replica import ReplicaMachine
from australis.protocols.dpc.states import Phase
from australis.sim.dpc.probes import Checker


class OneAtATime(Checker):
    """Never do all replicas of a fragment have their turn at once, each by another's leave.

    Nor do all of them suspend new tuples of the same stream.
    """

    name = "turns"

    def __init__(
        self,
        peers: Callable[[str], tuple[str, ...]],
        machine: Callable[[str], ReplicaMachine | None],
    ) -> None:
        self._peers = peers
        self._machine = machine

    def looked(self, node: str, machine: ReplicaMachine) -> None:
        peers = self._peers(node)
        others = [self._machine(p) for p in peers]
        if not others:
            return
        if _has_turn(machine) and all(map(_has_turn, others)):
            self.fail(f"{node} stabilises while {' and '.join(peers)} does")
        for stream in set.intersection(*map(_suspended, (machine, *others))):
            told = f"{node} suspends new tuples of {stream} while {' and '.join(peers)} does"
            self.fail(told)


def _suspended(machine: ReplicaMachine | None) -> set[str]:
    """The streams whose new tuples a stabilising node leaves to the other replicas."""
    if machine is None:
        return set()
    outputs = machine.outputs.values()
    return {o.stream for o in outputs if o.phase is Phase.STABILIZATION and not o.available}


def _has_turn(machine: ReplicaMachine | None) -> bool:
    return machine is not None and machine.stagger.active and not machine.stagger.alone
