"""Applications out of what peers offer: for each operator one of the peers that run it (synergy 2).

Who offers an operator is kept in the ring. Of those the least loaded is taken, or any of those that
are about as little loaded as it: loads are told seldom, and if all took the very least loaded one
they would all take the same.
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
"""Asks the ring what is kept under a name, as `TellKept` with this tag."""
_TAG = "compose:"
_OFFER = msgspec.msgpack.Decoder(Offer)


class _Wanted:
    """An application that is being composed."""

    def __init__(self, operators: tuple[str, ...]) -> None:
        self.operators = operators
        self.peers: list[str] = []


class Composer:
    """What is being composed at one peer."""

    def __init__(self, fetch: Fetch, rng: Random, near: float) -> None:
        self._fetch = fetch
        self._rng = rng
        self._near = near
        """Loads that differ by no more count as equal."""
        self._wanted: dict[str, _Wanted] = {}

    def compose(self, application: str, operators: tuple[str, ...], now: int) -> list[Effect]:
        """Find a peer for each operator, one after the other."""
        self._wanted[application] = _Wanted(operators)
        return self._next(application, now)

    def absorb(self, effects: Iterable[Effect], now: int) -> list[Effect]:
        """Take answers of the ring that are for us out of what is to be done."""
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
            return []  # it was asked for anew meanwhile, and is done
        if not entries:
            del self._wanted[application]
            return [NotComposed(application, one.operators[len(one.peers)], entries is None)]
        one.peers.append(self._choose(entries, one.peers))
        return self._next(application, now)

    def _choose(self, entries: tuple[Entry, ...], taken: list[str]) -> str:
        """One of the least loaded; each component it already gets here counts as one more."""
        loads = {
            entry.owner: _OFFER.decode(entry.value).averages.one + taken.count(entry.owner)
            for entry in entries
        }
        least = min(loads.values())
        return self._rng.choice([p for p in sorted(loads) if loads[p] <= least + self._near])
