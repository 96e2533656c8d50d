"""The clocks of other nodes, as the machines of this node estimate them (`protocols.dpc.clocks`),
and this machine's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from australis.kernel.machine import Machine
from australis.protocols.dpc.clocks import DRIFT_PPM, ClockOffset
from australis.protocols.dpc.effects import AnnounceClock
from australis.protocols.dpc.proxies import ClientMachine
from australis.protocols.dpc.replica import ReplicaMachine
from australis.runtime.node.events import WARNING, Tell

JUMP_NS = 500_000_000
"""The step of the wall clock that is told."""
READ_NS = 10_000_000
"""The time between two readings of clocks beyond which they are not compared."""
AHEAD_US = 1_000_000
"""How far a source may be ahead of its clock before that is told."""


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
            why = sentence_of_clock(peer, effect.offset_us / 1e6, sources)
            self._tell("clock_off", level=WARNING, kind=peer, why=why, sources=sources, **told)
        else:
            self._tell("clock_agrees", kind=peer, **told)

    def off(self, stream: str) -> str:
        """What to add where this node waits for a stream of a source on a node whose clock is off."""
        nodes = {peer for peer in self._off if stream in self._sources_on(peer)}
        return "".join(f"; the clock of {peer} is off: synchronise it (NTP)" for peer in nodes)

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


def sentence_of_clock(peer: str, offset_s: float, sources: Iterable[str]) -> str:
    """What follows from a clock that is off, and what to do.

    >>> sentence_of_clock("e2", -5.0, ["s2"])  # doctest: +NORMALIZE_WHITESPACE
    "the clock of e2 is 5.0 s behind this node's: what is merged with s2 waits that much longer, and
    is tentative for ever if that is beyond max_delay; synchronise the clocks (NTP), then start e2
    again"
    """
    names = ", ".join(sources)
    where = f"{abs(offset_s):,.1f} s {'ahead of' if offset_s > 0 else 'behind'} this node's"
    waits = (
        f"{names} waits for the others" if offset_s > 0 else f"what is merged with {names} waits"
    )
    follows = (
        f": {waits} that much longer, and is tentative for ever if that is beyond max_delay"
        if names
        else ""
    )
    return (
        f"the clock of {peer} is {where}{follows}; synchronise the clocks (NTP), then start {peer}"
        " again"
    )


class WallWatch:
    """Tells of the wall clock of this machine when it jumps, and of sources that are ahead of it.

    A node reads the wall clock once and counts on by the monotonic clock. So a jump changes nothing
    in it, but it makes the node disagree with those that are started later, or on other machines.
    """

    def __init__(
        self,
        tell: Tell,
        sources: Iterable[str],
        wall_ns: Callable[[], int] = time.time_ns,
        steady_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._tell = tell
        self._sources = ", ".join(sources)
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        self._first_ns = self._last_ns = wall_ns() - steady_ns()
        self._looked_ns = steady_ns()
        self._ahead: set[str] = set()

    @property
    def jumped_s(self) -> float:
        """How far the wall clock is ahead of the one by which this node counts."""
        return round((self._last_ns - self._first_ns) / 1e9, 3)

    def look(self) -> None:
        """Compare the wall clock with the monotonic clock."""
        before = self._steady_ns()
        wall = self._wall_ns()
        steady = self._steady_ns()
        if steady - before > READ_NS:
            return  # the process stood still between the two
        by_ns = wall - steady - self._last_ns
        slewed_ns = (steady - self._looked_ns) * DRIFT_PPM // 1_000_000
        self._last_ns, self._looked_ns = wall - steady, steady
        if abs(by_ns) > JUMP_NS + slewed_ns:
            self._tell(
                "clock_jumped", level=WARNING, by_s=round(by_ns / 1e9, 3), why=self._why(by_ns)
            )

    def _why(self, by_ns: int) -> str:
        by_s = abs(by_ns) / 1e9
        ahead = by_ns > 0
        how = "ahead (it was set, or the machine was suspended)" if ahead else "back"
        follows = ""
        if self._sources:
            where = "behind the clock" if ahead else "ahead of the clock"
            follows = f", so that {self._sources} may now be {by_s:,.1f} s {where} of other nodes"
        return (
            f"the wall clock of this machine jumped {by_s:,.1f} s {how}: the node counts on by the"
            f" clock as it was{follows}; once the clock is right, start the node again"
        )

    def look_at(self, source: str, ahead_us: int) -> None:
        """Tell, once, of a source whose stream is ahead of its clock."""
        if ahead_us > AHEAD_US and source not in self._ahead:
            self._ahead.add(source)
            why = (
                f"the stream of {source} is {ahead_us / 1e6:,.1f} s ahead of the clock, which was set"
                " back or had been ahead: it goes on from there at half the clock's speed until"
                " both agree again; if it is the clock that is wrong, synchronise it (NTP) and start"
                " the node again"
            )
            ahead_s = round(ahead_us / 1e6, 3)
            self._tell(
                "source_ahead", level=WARNING, kind=source, source=source, ahead_s=ahead_s, why=why
            )
        elif ahead_us == 0:
            self._ahead.discard(source)


def _seconds(offset_us: int, error_us: int) -> dict[str, float]:
    return {"offset_s": round(offset_us / 1e6, 6), "error_s": round(error_us / 1e6, 6)}
