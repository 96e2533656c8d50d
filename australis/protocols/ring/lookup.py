"""Iterative lookups: a peer asks one peer after the other and so detects failed ones."""

from __future__ import annotations

from collections.abc import Callable

from australis.kernel.machine import Effect
from australis.protocols.ring.keys import between, key_of
from australis.protocols.ring.messages import Ask, Closer
from australis.protocols.ring.questions import Questions
from australis.protocols.ring.table import Table

ASKED = 3
"""A peer that leaves this number of questions unanswered is taken to have failed."""
Done = Callable[[tuple[str, ...], int, int], list[Effect]]
"""Called with the responsible peers (empty if the lookup failed), the number of hops, and now."""


class Lookup:
    """One lookup, from its first question to its result.

    A lookup that is `sure` also asks the responsible peer itself, a hop that other lookups leave to
    the user of the result: a peer that has just failed is skipped in favour of its successor.
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
        """Peers before the place that have not been asked yet, the closest last."""
        self._failed: set[str] = set()
        self._hops = 0

    def start(self, now: int, through: tuple[str, ...] = ()) -> list[Effect]:
        """Start from this peer's own table, or from the peers in `through` if there are any."""
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
        """Ask the peer found responsible whether it is alive."""
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
            if not message.found:  # a peer that answers with one further away would cause a loop
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
        """Start again when no candidate is left, or give up after the last attempt."""
        self._tries_left -= 1
        if self._tries_left <= 0:
            return self._done((), self._hops, now)
        self._failed.clear()  # some may only have been slow
        found, peers = self._table.closer(self._key)
        if not peers:
            return self._done((), self._hops, now)
        return self._take(found, peers, now)
