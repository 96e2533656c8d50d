"""Scents: servers beside the path that may be worth a detour.

A scout observes the servers on its path, and the fastest path need not pass a fast server. So cells
periodically tell their neighbours about the best servers they know, themselves included; each adds
the path to the neighbour that told it. Distant or busy servers drop out.
"""

from __future__ import annotations

from australis.kernel.machine import Effect, Send, SetTimer
from australis.protocols.ants.events import AntOptions
from australis.protocols.ants.messages import Known, Scent
from australis.protocols.ants.observations import Way
from australis.protocols.ants.path_search import Detour
from australis.protocols.ants.server_state import ServerState

SCENT = "scent"
STALE = 4
"""The number of rounds after which a server that is not mentioned again is forgotten."""


class Scents:
    """The servers that a cell knows."""

    def __init__(self, name: str, ground: ServerState, options: AntOptions) -> None:
        self._name = name
        self._ground = ground
        self._options = options
        self._known: dict[str, Known] = {}

    def tell(self, now: int) -> list[Effect]:
        """Tell the neighbours about the best known servers."""
        self._forget(now)
        me = Known(self._ground.here(), (self._name,), Way(), Way(), now)
        effects: list[Effect] = [SetTimer(SCENT, now + self._options.scent_us)]
        for neighbour in self._ground.links:
            told = [k for k in self._known.values() if neighbour not in k.path]
            best = tuple(sorted([me, *told], key=self._rank)[: self._options.known])
            link = self._ground.link(neighbour).way
            effects.append(Send(neighbour, Scent(best, link)))
        return effects

    def told(self, sender: str, scent: Scent, now: int) -> None:
        """Take the servers that a neighbour tells about."""
        if sender not in self._ground.links:
            return
        there = self._ground.link(sender).way
        for known in scent.known:
            name = known.server.name
            if name == self._name or self._name in known.path:
                continue
            new = Known(
                known.server,
                (self._name, *known.path),
                there.then(known.there),
                known.back.then(scent.link),
                known.seen_us,
            )
            old = self._known.get(name)
            if old is None or self._takes(new, old, now):
                self._known[name] = new
        if len(self._known) > 2 * self._options.known:
            keep = sorted(self._known.values(), key=self._rank)[: 2 * self._options.known]
            self._known = {k.server.name: k for k in keep}

    def _takes(self, new: Known, old: Known, now: int) -> bool:
        """Whether to replace the known path to a server: by news of the same path, by a better
        path, or by any path if the known one is not mentioned any more."""
        if new.path == old.path:
            return new.seen_us >= old.seen_us
        lost_us = (2 + len(old.path)) * self._options.scent_us
        return self._rank(new) < self._rank(old) or now - old.seen_us > lost_us

    def detours(self) -> tuple[Detour, ...]:
        """The best known servers, for a scout."""
        best = sorted(self._known.values(), key=self._rank)[: self._options.detours]
        return tuple(Detour(k.server, k.path, k.there, k.back) for k in best)

    def _rank(self, known: Known) -> tuple[float, str]:
        """The time of typical work at a server, including the paths there and back."""
        server = known.server
        free = max(1e-3, min(server.bound, 1.0) - server.use.load)
        away_s = (
            known.there.latency_s + known.there.wait_s + known.back.latency_s + known.back.wait_s
        )
        return away_s + self._options.typical_work / server.speed / free, server.name

    def _forget(self, now: int) -> None:
        # Each hop adds a round, since news of distant servers are old when they arrive.
        every = self._options.scent_us
        self._known = {
            name: known
            for name, known in self._known.items()
            if now - known.seen_us < (STALE + len(known.path)) * every
        }
