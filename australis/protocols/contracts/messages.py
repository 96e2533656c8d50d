"""Messages between the partners of a contract.

An offer and its answers carry the number of the negotiation, a movement has its own number; the
buyer assigns both and never reuses one. A sender without an answer sends again or gives up; a
receiver of a duplicate answers again but acts once.
"""

from __future__ import annotations

from enum import Enum

from australis.kernel.machine import Message
from australis.protocols.contracts.terms import Task


class Decision(Enum):
    """The kinds of a seller's answer."""

    ACCEPTED = "accepted"
    COUNTERED = "countered"
    REJECTED = "rejected"


class Offer(Message, frozen=True, array_like=True, tag=True, gc=False):
    """A buyer's offer of tasks at a price per unit, binding while it waits for the answer."""

    number: int
    price: float
    tasks: tuple[Task, ...]
    partners: int = 1
    """The number of partners the buyer may ask first: a counter-offer should last that long."""


class Answer(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The seller takes some tasks at that price or a higher one, or none, and keeps room for them."""

    number: int
    verdict: Decision
    price: float = 0.0
    tasks: tuple[str, ...] = ()


class ReleaseTasks(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The buyer will not use this answer: the room kept for it is free again."""

    number: int


class Move(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The buyer moves tasks under an answer, and runs them itself until it has the receipt."""

    movement: int
    number: int
    price: float
    tasks: tuple[Task, ...]
    units: float
    duration_us: int
    """The duration d in the buyer's contract, by which both sides book."""
    settled: int
    """The buyer knows how its movements up to this number ended and will not ask about them."""


class Receipt(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The seller runs the tasks and is owed the first time d, or does not and is not."""

    movement: int
    taken: bool


class Due(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The seller asks to be paid for this time d, which has begun, and for all unpaid ones."""

    movement: int
    period: int


class Paid(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The buyer owes all times d up to this one."""

    movement: int
    period: int


class Return(Message, frozen=True, array_like=True, tag=True, gc=False):
    """One side ends a movement whose time d is over; `buyer` is the one that numbered it."""

    buyer: str
    movement: int
    paid: int = -1
    """From the buyer: the last time d that it has booked."""


class Returned(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The other side has ended the movement too."""

    buyer: str
    movement: int


class Complaint(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The seller missed the agreed service for the nth time and owes the penalty."""

    number: int


class Admitted(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The seller has booked the penalty."""

    number: int
    amount: float


class Room(Message, frozen=True, array_like=True, tag=True, gc=False):
    """A seller that refused has room again: its buyer need not wait any longer (6.3)."""
