"""What partners say to each other.

An offer and its answers carry the number of the negotiation, a movement one of its own; both
are the buyer's and never used twice. Whoever is not answered says it again or gives up, and
whoever hears something twice answers twice but does it once.
"""

from __future__ import annotations

from enum import Enum

from australis.kernel.machine import Message
from australis.protocols.contracts.terms import Task


class Verdict(Enum):
    """How a seller answers."""

    ACCEPTED = "accepted"
    COUNTERED = "countered"
    REJECTED = "rejected"


class Offer(Message, frozen=True, array_like=True, tag=True, gc=False):
    """A buyer offers tasks at a price per unit: binding while it waits for the answer."""

    number: int
    price: float
    tasks: tuple[Task, ...]
    partners: int = 1
    """So many the buyer may ask before it decides: a counter-offer should last that long."""


class Answer(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The seller takes some of them at that price or a higher one, or none; it has kept room."""

    number: int
    verdict: Verdict
    price: float = 0.0
    tasks: tuple[str, ...] = ()


class Release(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The buyer will not come back to this offer: the room kept for it is free again."""

    number: int


class Move(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The buyer moves tasks under an answer; it runs them itself until it has the receipt."""

    movement: int
    number: int
    price: float
    tasks: tuple[Task, ...]
    units: float
    duration_us: int
    """By the contract, as the buyer has it: what both will book, and how often."""
    settled: int
    """The buyer knows how all its movements up to this one ended: nobody asks for them again."""


class Receipt(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The seller runs them now and is owed the first time d, or it does not and is owed nothing."""

    movement: int
    taken: bool


class Due(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The seller has run them for so many times d, and is to be paid for this one, which has
    begun, and for all before it."""

    movement: int
    period: int


class Paid(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The buyer owes it all up to that time."""

    movement: int
    period: int


class Return(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Either side ends a movement whose time d is over; `buyer` says whose number it is."""

    buyer: str
    movement: int
    paid: int = -1
    """From the buyer: the last time d that it has booked."""


class Returned(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The other side has ended it too."""

    buyer: str
    movement: int


class Complaint(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The seller did not give the service it owes, for the nth time: it owes the penalty."""

    number: int


class Admitted(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The seller has booked the penalty."""

    number: int
    amount: float


class Room(Message, frozen=True, array_like=True, tag=True, gc=False):
    """A seller that refused has room again: its buyer need not wait any longer (6.3)."""
