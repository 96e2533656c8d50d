"""Whom a peer knows: the one before it, those behind it, and fingers across the ring."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from australis.protocols.ring.keys import BITS, ahead, between, key_of

CANDIDATES = 3
"""An answer names so many closer peers: if the closest has failed, the next will do."""


class Table:
    """The neighbours and fingers of one peer."""

    def __init__(self, name: str, successors: int) -> None:
        self.name = name
        self.key = key_of(name)
        self.before: str | None = None
        self.after: list[str] = []
        self._most = successors
        self._fingers: dict[int, str] = {}
        self._names: list[str] = []
        """Everybody in it, sorted by place,"""
        self._places: list[bytes] = []
        """and their places."""
        self._next = self.key
        """The place of the peer behind it."""
        self._suspects: set[str] = set()
        """Who did not answer the last time."""

    # --- what it knows -----------------------------------------------------------------

    @property
    def alone(self) -> bool:
        """Whether it knows nobody else."""
        return not self.after

    def responsible(self, key: bytes) -> bool:
        """Whether a place is its own, as far as it knows; with nobody before it, any may be."""
        return self.before is None or between(key, key_of(self.before), self.key)

    def closer(self, key: bytes) -> tuple[bool, tuple[str, ...]]:
        """Who is responsible for a place, if it knows; otherwise who is closer to it."""
        if self.alone or (self.before is not None and self.responsible(key)):
            return True, (self.name, *self.after)
        if between(key, self.key, self._next):
            return True, tuple(self.after)
        return False, self._preceding(key)

    def _preceding(self, key: bytes) -> tuple[str, ...]:
        """The peers before a place that it knows, the closest first."""
        start = bisect_left(self._places, key)
        found = []
        for i in range(start - 1, start - 1 - min(CANDIDATES, len(self._places)), -1):
            if not between(self._places[i], self.key, key):
                break
            found.append(self._names[i])
        return tuple(found)

    def missing_fingers(self) -> Sequence[int]:
        """Exponents of the fingers that lead further than the peer behind it, far ones first."""
        if self.alone:
            return ()
        distance = int.from_bytes(key_of(self.after[0])) - int.from_bytes(self.key)
        return range(BITS - 1, (distance % (1 << BITS)).bit_length() - 1, -1)

    def finger_place(self, exponent: int) -> bytes:
        """The place whose peer a finger leads to."""
        return ahead(self.key, exponent)

    # --- what it learns ------------------------------------------------------------------

    def point(self, exponent: int, peer: str) -> None:
        """A finger leads to this peer now."""
        if peer == self.name:
            self._fingers.pop(exponent, None)
        else:
            self._fingers[exponent] = peer
        self._index()

    def point_all(self, fingers: dict[int, str]) -> None:
        """Many fingers at once."""
        self._fingers = {e: peer for e, peer in fingers.items() if peer != self.name}
        self._index()

    def follow(self, peers: Iterable[str]) -> bool:
        """These are behind it, as one of them says; whether the list is another one now."""
        found = list(dict.fromkeys(p for p in peers if p != self.name))[: self._most]
        if found == self.after:
            return False
        self.after = found
        self._index()
        return True

    def meet(self, peer: str) -> bool:
        """Somebody is there: is it next behind us?"""
        if peer == self.name or (self.after and self.after[0] == peer):
            return False
        if self.after and not between(key_of(peer), self.key, key_of(self.after[0])):
            return False
        return self.follow([peer, *self.after])

    def preceded(self, peer: str) -> bool:
        """Somebody says that we are next behind it; whether it is next before us."""
        if peer == self.name or peer == self.before:
            return False
        if self.before is not None and not between(key_of(peer), key_of(self.before), self.key):
            return False
        self.before = peer
        return True

    def heard(self, peer: str) -> None:
        """Somebody said something."""
        self._suspects.discard(peer)

    def silent(self, peer: str) -> None:
        """Somebody did not answer: a message may have been lost, but not twice in a row."""
        if peer in self._suspects:
            self.failed(peer)
        self._suspects.add(peer)

    def failed(self, peer: str) -> None:
        """Somebody is not there: forget it, until it is heard of again."""
        if self.before == peer:
            self.before = None
        self.after = [p for p in self.after if p != peer]
        self._fingers = {e: p for e, p in self._fingers.items() if p != peer}
        self._index()

    def _index(self) -> None:
        self._names = sorted({*self.after, *self._fingers.values()}, key=key_of)
        self._places = [key_of(name) for name in self._names]
        self._next = self._places[self._names.index(self.after[0])] if self.after else self.key
