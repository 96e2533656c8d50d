"""Lookups: one asks its way around the ring, a peer at a time, and so notices who has failed."""

from __future__ import annotations

from collections.abc import Callable

from australis.kernel.machine import Effect
from australis.protocols.ring.keys import between, key_of
from australis.protocols.ring.messages import Ask, Closer
from australis.protocols.ring.questions import Questions
from australis.protocols.ring.table import Table

ASKED = 3
"""Whoever would be responsible is taken to have failed when it was asked so often in vain."""
Done = Callable[[tuple[str, ...], int, int], list[Effect]]
"""What to do with whoever is responsible (nobody: it failed), the number of hops, and now."""


class Lookup:
    """One lookup, from the beginning to its end.

    One that is to be `sure` asks whomever it would name, the last hop that others leave to
    whoever uses the answer: a peer that has just failed is not named then, but the next one.
    """

    def __init__(
        self,
        table: Table,
        questions: Questions,
        key: bytes,
        done: Done,
        tries: int,
        sure: bool = False,
    ) -> None:
        self._table = table
        self._questions = questions
        self._key = key
        self._done = done
        self._tries_left = tries
        self._sure = sure
        self._candidates: list[str] = []
        """Peers before the place that were not asked yet, the closest last."""
        self._failed: set[str] = set()
        self._hops = 0

    def start(self, now: int, through: tuple[str, ...] = ()) -> list[Effect]:
        """Begin with what this peer knows itself, or through others if it knows nobody."""
        if through:
            self._candidates = [p for p in through if p not in self._failed][::-1]
            return self._next(now)
        found, peers = self._table.closer(self._key)
        return self._take(found, peers, now)

    def _take(self, found: bool, peers: tuple[str, ...], now: int) -> list[Effect]:
        alive = tuple(p for p in peers if p not in self._failed)
        if found and alive:
            if self._sure and alive[0] != self._table.name:
                return self._make_sure(alive, ASKED, now)
            return self._name(alive, now)
        self._candidates += [p for p in reversed(alive) if p not in self._candidates]
        return self._next(now)

    def _name(self, peers: tuple[str, ...], now: int) -> list[Effect]:
        return self._done(peers, self._hops + (peers[0] != self._table.name), now)

    def _make_sure(self, peers: tuple[str, ...], asks_left: int, now: int) -> list[Effect]:
        """Ask the one who would be responsible whether it is there."""
        peer = peers[0]

        def silent(at: int) -> list[Effect]:
            self._table.silent(peer)
            if asks_left > 1:
                return self._make_sure(peers, asks_left - 1, at)
            self._failed.add(peer)
            return self._take(True, peers, at)

        return self._questions.ask(
            peer,
            lambda number: Ask(number, self._key),
            lambda _, at: self._name(peers, at),
            silent,
            now,
        )

    def _next(self, now: int) -> list[Effect]:
        if not self._candidates:
            return self._again(now)
        peer = self._candidates.pop()
        if peer == self._table.name:
            return self._next(now)
        self._hops += 1

        def answered(message: Closer, at: int) -> list[Effect]:
            closer = message.peers
            if not message.found:  # whoever sends back would send in circles
                place = key_of(peer)
                closer = tuple(p for p in closer if between(key_of(p), place, self._key))
            return self._take(message.found, closer, at)

        def silent(at: int) -> list[Effect]:
            self._failed.add(peer)
            self._table.silent(peer)
            return self._next(at)

        return self._questions.ask(
            peer, lambda number: Ask(number, self._key), answered, silent, now
        )

    def _again(self, now: int) -> list[Effect]:
        """Nobody is left to ask: begin anew, or give up."""
        self._tries_left -= 1
        if self._tries_left <= 0:
            return self._done((), self._hops, now)
        self._failed.clear()  # some may only have been slow
        found, peers = self._table.closer(self._key)
        if not peers:
            return self._done((), self._hops, now)
        return self._take(found, peers, now)
