"""A failure shorter than X leaves no tentative tuple."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from australis.protocols.dpc.proxies import Tentatives
from australis.sim.dpc.probes import Checker
from australis.sim.dpc.truth import Span, gaps, merge


class ShortFailuresMasked(Checker):
    """Tentative tuples need an outage at least as long as the system may wait."""

    name = "masked"

    def __init__(
        self,
        outages: Mapping[str, list[Span]],
        shortest_us: int,
        settling_us: int,
        excused: Callable[[], bool] = lambda: False,
        more_us: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """`more_us` is what the accepted delay of a client's stream exceeds the others' by."""
        self._excused = excused
        self._long = {
            client: [
                (begin, end + settling_us + (end - begin) // 2)
                for begin, end in spans
                if end - begin >= shortest_us + more_us.get(client, 0)
            ]
            for client, spans in outages.items()
        }

    def judged_us(self, client: str, end_us: int) -> int:
        """The time up to a moment in which a client may get nothing tentative."""
        return sum(end - begin for begin, end in gaps(merge(self._long[client]), end_us))

    def delivered(self, client: str, what: Any, now: int) -> None:
        if not isinstance(what, Tentatives) or self._excused():
            return
        if not any(a <= now <= b for a, b in self._long[client]):
            self.fail(
                f"{client} got bucket {what.bucket.number} tentatively at {now / 1e6:.2f} s,"
                " though no outage was long enough for that"
            )
