"""The ledger of debts: both sides of a movement book it, and each keeps both accounts.

A movement is paid for in advance, one time d after the other, at the agreed price. Booking is
idempotent, so duplicates of the message that leads to it are harmless. Of a movement that has ended
only the sum is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec


class Booking(msgspec.Struct, frozen=True, gc=False):
    """One time d of a movement: the amount that the buyer owes the seller for it."""

    buyer: str
    seller: str
    movement: int
    period: int
    amount: float


class Ledger:
    """The bookings of one participant, or of all.

    >>> ledger = Ledger([Booking("a", "b", 1, 0, 2.5)])
    >>> ledger.book(Booking("a", "b", 1, 0, 2.5)), ledger.book(Booking("b", "a", 1, 0, 1.0))
    (False, True)
    >>> ledger.owed("a", "b"), ledger.owed("b", "a")
    (1.5, -1.5)
    """

    def __init__(self, bookings: Iterable[Booking] = ()) -> None:
        self._owed: dict[tuple[str, str], float] = {}
        self._paid: dict[tuple[str, int], int] = {}
        """The last booked time d of each movement."""
        self._fined: dict[tuple[str, str], int] = {}
        for booking in bookings:
            self.book(booking)

    def book(self, booking: Booking) -> bool:
        """Book a time d unless it is booked already; return whether it was new."""
        movement = booking.buyer, booking.movement
        paid = self._paid.get(movement, -1)
        if booking.period <= paid:
            return False
        assert booking.period == paid + 1, f"{booking} comes after {paid}"
        self._paid[movement] = booking.period
        parties = booking.buyer, booking.seller
        self._owed[parties] = self._owed.get(parties, 0.0) + booking.amount
        return True

    def fine(self, seller: str, buyer: str, number: int, amount: float) -> bool:
        """Book the nth penalty that a seller owes a buyer, unless it is booked already."""
        if number <= self._fined.get((seller, buyer), 0):
            return False
        self._fined[seller, buyer] = number
        self._owed[seller, buyer] = self._owed.get((seller, buyer), 0.0) + amount
        return True

    def state(self) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
        """The state for `restore`: sums, paid times, and penalties."""
        books: tuple[dict[Any, Any], ...] = (self._owed, self._paid, self._fined)
        owed, paid, fined = (tuple((*key, value) for key, value in b.items()) for b in books)
        return owed, paid, fined

    def restore(
        self,
        owed: Iterable[tuple[str, str, float]],
        paid: Iterable[tuple[str, int, int]],
        fined: Iterable[tuple[str, str, int]],
    ) -> None:
        """Restore the state."""
        self._owed = {(debtor, creditor): amount for debtor, creditor, amount in owed}
        self._paid = {(buyer, movement): period for buyer, movement, period in paid}
        self._fined = {(seller, buyer): number for seller, buyer, number in fined}

    def paid(self, buyer: str, movement: int) -> int:
        """The last time d of a movement that is booked; -1 if none is."""
        return self._paid.get((buyer, movement), -1)

    def forget(self, buyer: str, movement: int) -> None:
        """Drop the paid times of a movement that has ended."""
        self._paid.pop((buyer, movement), None)

    def owed(self, debtor: str, creditor: str) -> float:
        """The net amount that one participant owes another."""
        there = self._owed.get((debtor, creditor), 0.0)
        return there - self._owed.get((creditor, debtor), 0.0)
