"""Applications composed of what peers offer: one peer for each operator (synergy 2).

The ring holds which peers offer an operator. The composer picks one of the least loaded at random
among those whose loads hardly differ: loads are announced rarely, and all applications would
otherwise pick the same peer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

import msgspec

from australis.kernel.machine import Effect
from australis.protocols.hotspots.events import Composed, NotComposed
from australis.protocols.hotspots.messages import Offer
from australis.protocols.ring.events import TellKept
from australis.protocols.ring.messages import Entry

Fetch = Callable[[str, str, int], list[Effect]]
"""Asks the ring for the entries under a name, answered by `TellKept` with this tag."""
_TAG = "compose:"
_OFFER = msgspec.msgpack.Decoder(Offer)


class _Wanted:
    """An application whose peers are still being chosen."""

    def __init__(self, operators: tuple[str, ...]) -> None:
        self.operators = operators
        self.peers: list[str] = []


class Composer:
    """The applications that one peer is composing."""

    def __init__(self, fetch: Fetch, rng: Random, near: float) -> None:
        self._fetch = fetch
        self._rng = rng
        self._near = near
        """Loads that differ by at most this amount count as equal."""
        self._wanted: dict[str, _Wanted] = {}

    def compose(self, application: str, operators: tuple[str, ...], now: int) -> list[Effect]:
        """Find a peer for each operator, one after the other."""
        self._wanted[application] = _Wanted(operators)
        return self._next(application, now)

    def absorb(self, effects: Iterable[Effect], now: int) -> list[Effect]:
        """Consume the ring's answers to this composer and return the other effects with its own."""
        found: list[Effect] = []
        for effect in effects:
            if isinstance(effect, TellKept) and effect.tag.startswith(_TAG):
                found += self._answered(effect.tag.removeprefix(_TAG), effect.entries, now)
            else:
                found.append(effect)
        return found

    def _next(self, application: str, now: int) -> list[Effect]:
        one = self._wanted[application]
        if len(one.peers) == len(one.operators):
            del self._wanted[application]
            return [Composed(application, tuple(one.peers))]
        operator = one.operators[len(one.peers)]
        return self.absorb(self._fetch(_TAG + application, operator, now), now)

    def _answered(
        self, application: str, entries: tuple[Entry, ...] | None, now: int
    ) -> list[Effect]:
        one = self._wanted.get(application)
        if one is None:
            return []  # a newer request for the same application has finished
        if not entries:
            del self._wanted[application]
            return [NotComposed(application, one.operators[len(one.peers)], entries is None)]
        one.peers.append(self._choose(entries, one.peers))
        return self._next(application, now)

    def _choose(self, entries: tuple[Entry, ...], taken: list[str]) -> str:
        """One of the least loaded peers, where components already assigned count as load 1."""
        loads = {
            entry.owner: _OFFER.decode(entry.value).averages.one + taken.count(entry.owner)
            for entry in entries
        }
        least = min(loads.values())
        return self._rng.choice([p for p in sorted(loads) if loads[p] <= least + self._near])
