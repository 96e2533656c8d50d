"""A movement as each of its two sides sees it."""

from __future__ import annotations

from dataclasses import dataclass

from australis.protocols.contracts.events import Bought, Sold
from australis.protocols.contracts.terms import Task


@dataclass
class MovedOut:
    """A movement as its buyer sees it."""

    entry: Bought
    confirmed: bool = False
    recalled: bool = False
    """The tasks run here again; the seller is still to be told."""
    since_us: int = 0
    said_us: int = 0
    """When the seller was told last what it has to know."""

    @property
    def settled(self) -> bool:
        """Whether the seller knows it all."""
        return self.confirmed and not self.recalled

    def moves(self, names: set[str]) -> bool:
        """Whether it is about any of these tasks."""
        return any(task.name in names for task in self.entry.tasks)


@dataclass
class MovedIn:
    """A movement as its seller sees it."""

    entry: Sold
    since_us: int = 0
    period: int = 0
    """The last time d that was paid for."""
    due: bool = False
    """Whether the buyer was asked for the next one and has not answered."""
    given_up: bool = False
    """It does not pay any more: the buyer is to take it back."""
    dropped: bool = False
    """Tasks that its buyer had only forwarded do not run here any longer: it had failed."""
    said_us: int = 0
    """When the buyer was told last what it has to know."""

    @property
    def runs(self) -> list[Task]:
        """What of it runs here."""
        return [t for t in self.entry.tasks if not self.dropped or t.origin == self.entry.buyer]

    @property
    def forwarded(self) -> list[Task]:
        """What of it the buyer itself had from somebody else."""
        return [t for t in self.entry.tasks if t.origin != self.entry.buyer]

    def begun_by(self, now: int) -> int:
        """The time d, counted from 0, that is running now.

        >>> one = MovedIn(Sold("a", 1, 2.0, 500, 1.0, ()), since_us=1_000)
        >>> [one.begun_by(at) for at in (1_000, 1_499, 1_500, 2_700)]
        [0, 0, 1, 3]
        """
        return (now - self.since_us) // self.entry.duration_us
