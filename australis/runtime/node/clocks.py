"""The clocks of other nodes, as the machines of this node estimate them (`protocols.dpc.clocks`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from australis.kernel.machine import Machine
from australis.protocols.dpc.clocks import ClockOffset
from australis.protocols.dpc.effects import AnnounceClock
from australis.protocols.dpc.proxies import ClientMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.runtime.node.events import WARNING, Tell


class Clocks:
    """What a node tells of the clocks of others: in events beyond a bound, and in its status."""

    def __init__(
        self,
        node: str,
        places: Mapping[str, str],
        sources_on: Callable[[str], list[str]],
        bound_us: int,
        tell: Tell,
    ) -> None:
        """The clocks of the nodes in `places`, by machine."""
        self._node = node
        self._places = places
        self._sources_on = sources_on
        self._bound_us = bound_us
        self._tell = tell
        self._off: set[str] = set()
        """The nodes whose clocks are beyond the bound."""

    def announced(self, effect: AnnounceClock, about: Mapping[str, str]) -> None:
        """Tell that a clock has passed the bound, or come back, once for each node."""
        peer = self._places[effect.producer]
        if peer == self._node or effect.beyond == (peer in self._off):
            return
        self._off ^= {peer}
        told = {"peer": peer, **_seconds(effect.offset_us, effect.error_us), **about}
        if effect.beyond:
            sources = self._sources_on(peer)
            self._tell("clock_off", level=WARNING, kind=peer, sources=sources, **told)
        else:
            self._tell("clock_agrees", kind=peer, **told)

    def status(self, machines: Iterable[Machine], now: int) -> dict[str, dict[str, Any]]:
        """The best estimate for each other node that a machine of this one reads from."""
        best: dict[str, ClockOffset] = {}
        for machine in machines:
            if not isinstance(machine, ReplicaMachine | ClientMachine):
                continue
            for producer, monitor in machine.monitors.items():
                peer, found = self._places[producer], monitor.clock.estimate
                known = best.get(peer)
                if peer == self._node or found is None:
                    continue
                if known is None or found.error_us(now) < known.error_us(now):
                    best[peer] = found
        return {peer: self._told(peer, one, now) for peer, one in best.items()}

    def _told(self, peer: str, estimate: ClockOffset, now: int) -> dict[str, Any]:
        error_us = estimate.error_us(now)
        beyond = abs(estimate.offset_us) - error_us > self._bound_us
        told: dict[str, Any] = {"beyond": beyond, "sources": self._sources_on(peer)}
        return _seconds(estimate.offset_us, error_us) | told


def _seconds(offset_us: int, error_us: int) -> dict[str, float]:
    return {"offset_s": round(offset_us / 1e6, 6), "error_s": round(error_us / 1e6, 6)}
