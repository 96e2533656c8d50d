"""The peers that a peer knows: its predecessor, its successors, and fingers across the ring."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from australis.protocols.ring.keys import BITS, ahead, between, key_of

CANDIDATES = 3
"""The number of closer peers in an answer: if the closest has failed, the next one is asked."""


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
        """Names of all known peers, sorted by place."""
        self._places: list[bytes] = []
        """The places of `_names`, in the same order."""
        self._next = self.key
        """The place of the first successor."""
        self._suspects: set[str] = set()
        """Peers that did not answer the last question."""

    # --- what it knows -----------------------------------------------------------------

    @property
    def alone(self) -> bool:
        """Whether this peer knows no other peer."""
        return not self.after

    def responsible(self, key: bytes) -> bool:
        """Whether a place is this peer's, as far as known; any may be without predecessor."""
        return self.before is None or between(key, key_of(self.before), self.key)

    def closer(self, key: bytes) -> tuple[bool, tuple[str, ...]]:
        """The responsible peers if they are known; otherwise known peers closer to the place."""
        if self.alone or (self.before is not None and self.responsible(key)):
            return True, (self.name, *self.after)
        if between(key, self.key, self._next):
            return True, tuple(self.after)
        return False, self._preceding(key)

    def _preceding(self, key: bytes) -> tuple[str, ...]:
        """Known peers before a place, the closest first, at most `CANDIDATES`."""
        start = bisect_left(self._places, key)
        found = []
        for i in range(start - 1, start - 1 - min(CANDIDATES, len(self._places)), -1):
            if not between(self._places[i], self.key, key):
                break
            found.append(self._names[i])
        return tuple(found)

    def missing_fingers(self) -> Sequence[int]:
        """Exponents of the fingers that lead further than the first successor, far ones first."""
        if self.alone:
            return ()
        distance = int.from_bytes(key_of(self.after[0])) - int.from_bytes(self.key)
        return range(BITS - 1, (distance % (1 << BITS)).bit_length() - 1, -1)

    def finger_place(self, exponent: int) -> bytes:
        """The place of a finger; the peer responsible for it is the finger's target."""
        return ahead(self.key, exponent)

    def finger(self, exponent: int) -> str | None:
        """The target of a finger, or None if it is unknown or this peer itself."""
        return self._fingers.get(exponent)

    # --- what it learns ------------------------------------------------------------------

    def point(self, exponent: int, peer: str) -> None:
        """Set the target of a finger."""
        if peer == self.name:
            self._fingers.pop(exponent, None)
        else:
            self._fingers[exponent] = peer
        self._index()

    def point_all(self, fingers: dict[int, str]) -> None:
        """Replace all fingers at once."""
        self._fingers = {e: peer for e, peer in fingers.items() if peer != self.name}
        self._index()

    def follow(self, peers: Iterable[str]) -> bool:
        """Take over a successor list from a peer; return whether this one's list has changed.

        The part that passes once around the circle is left out: in a ring with fewer peers than the
        list has places, a peer that has left would otherwise circulate for ever.
        """
        found: list[str] = []
        for peer in peers:
            if found and peer == found[-1]:
                continue
            if peer == self.name or (
                found and not between(key_of(peer), key_of(found[-1]), self.key)
            ):
                break
            found.append(peer)
        del found[self._most :]
        if found == self.after:
            return False
        self.after = found
        self._index()
        return True

    def meet(self, peer: str) -> bool:
        """Consider a peer as first successor; return whether it has become that."""
        if peer == self.name or (self.after and self.after[0] == peer):
            return False
        if self.after and not between(key_of(peer), self.key, key_of(self.after[0])):
            return False
        return self.follow([peer, *self.after])

    def preceded(self, peer: str) -> bool:
        """Consider a peer as predecessor, as it claims to be; return whether it has become that."""
        if peer == self.name or peer == self.before:
            return False
        if self.before is not None and not between(key_of(peer), key_of(self.before), self.key):
            return False
        self.before = peer
        return True

    def heard(self, peer: str) -> None:
        """Clear the suspicion of a peer that has sent a message."""
        self._suspects.discard(peer)

    def silent(self, peer: str) -> None:
        """Suspect a peer that did not answer; it has failed when this happens twice in a row."""
        if peer in self._suspects:
            self.failed(peer)
        self._suspects.add(peer)

    def failed(self, peer: str) -> None:
        """Remove a failed peer from the table until a message from it or about it arrives."""
        if self.before == peer:
            self.before = None
        self.after = [p for p in self.after if p != peer]
        self._fingers = {e: p for e, p in self._fingers.items() if p != peer}
        self._index()

    def _index(self) -> None:
        self._names = sorted({*self.after, *self._fingers.values()}, key=key_of)
        self._places = [key_of(name) for name in self._names]
        self._next = self._places[self._names.index(self.after[0])] if self.after else self.key
