"""A movement as each of its two sides sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from australis.kernel.machine import Effect
from australis.protocols.contracts.choices import Valuation
from australis.protocols.contracts.events import Bought, ContractOptions, Owed, Sold, Write
from australis.protocols.contracts.ledger import Ledger
from australis.protocols.contracts.running import Running
from australis.protocols.contracts.terms import Signed, Task


@dataclass
class MovedOut:
    """A movement as its buyer sees it."""

    entry: Bought
    confirmed: bool = False
    recalled: bool = False
    """Whether the tasks run here again while the seller is still to be told."""
    since_us: int = 0
    said_us: int = 0
    """The time when the seller was last sent what it has to know."""

    @property
    def settled(self) -> bool:
        """Whether the seller knows the state of the movement."""
        return self.confirmed and not self.recalled

    def moves(self, names: set[str]) -> bool:
        """Whether the movement includes any of these tasks."""
        return any(task.name in names for task in self.entry.tasks)


@dataclass
class MovedIn:
    """A movement as its seller sees it."""

    entry: Sold
    since_us: int = 0
    period: int = 0
    """The last time d that was paid for."""
    due: bool = False
    """Whether the buyer was asked for the next time d and has not answered."""
    given_up: bool = False
    """Whether the movement does not pay any more, so that the buyer is to take it back."""
    dropped: bool = False
    """Whether tasks that the buyer had only forwarded were stopped because it had failed."""
    said_us: int = 0
    """The time when the buyer was last sent what it has to know."""

    @property
    def runs(self) -> list[Task]:
        """The tasks of the movement that run here."""
        return [t for t in self.entry.tasks if not self.dropped or t.origin == self.entry.buyer]

    @property
    def forwarded(self) -> list[Task]:
        """The tasks of the movement that the buyer itself had taken from another participant."""
        return [t for t in self.entry.tasks if t.origin != self.entry.buyer]

    def begun_by(self, now: int) -> int:
        """The time d, counted from 0, that is running now.

        >>> one = MovedIn(Sold("a", 1, 2.0, 500, 1.0, ()), since_us=1_000)
        >>> [one.begun_by(at) for at in (1_000, 1_499, 1_500, 2_700)]
        [0, 0, 1, 3]
        """
        return (now - self.since_us) // self.entry.duration_us


class MovementSide(ABC):
    """One participant's side of its movements with others."""

    def __init__(
        self,
        here: Running,
        ledger: Ledger,
        signed: Signed,
        value: Valuation,
        options: ContractOptions,
    ) -> None:
        self._name = here.name
        self._here = here
        self._ledger = ledger
        self._signed = signed
        self._value = value
        self._permanent = options.permanent

    @abstractmethod
    def book(self, owed: Owed) -> None:
        """Book one more time d of a movement."""

    def _pay(self, buyer: str, movement: int, upto: int) -> list[Effect]:
        """Book each time d up to this one that is not booked yet."""
        paid = self._ledger.paid(buyer, movement)
        owed = [Owed(buyer, movement, period) for period in range(paid + 1, upto + 1)]
        for one in owed:
            self.book(one)
        return [Write(tuple(owed))] if owed else []
