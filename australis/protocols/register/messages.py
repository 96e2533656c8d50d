"""Messages between proposers and keepers, and the values that they carry."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from australis.kernel.machine import Message


class Ballot(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """The number of an attempt; no two attempts have the same one."""

    counter: int = 0
    incarnation: int = 0
    proposer: str = ""


class Operation(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """The number of an edit among those of its proposer."""

    incarnation: int
    number: int


class Record(msgspec.Struct, frozen=True, array_like=True):
    """The value of a register."""

    version: int = 0
    value: bytes = b""
    newest: tuple[tuple[str, Operation], ...] = ()
    """The newest operation of each proposer that has changed it."""

    def has(self, proposer: str, operation: Operation) -> bool:
        """Whether an operation has been applied; a proposer's operations follow each other."""
        return dict(self.newest).get(proposer) == operation

    def changed(self, value: bytes, proposer: str, operation: Operation) -> Record:
        """The next version."""
        newest = {**dict(self.newest), proposer: operation}
        return Record(self.version + 1, value, tuple(sorted(newest.items())))


NOTHING = Record()
"""The record of a register that was never changed."""


class Seat(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """A keeper: its node, and the disk that remembers its promises."""

    node: str
    disk: str


class Keepers(msgspec.Struct, frozen=True, array_like=True):
    """The keepers of one epoch; in a joint epoch both sets decide."""

    epoch: int = 0
    seats: tuple[Seat, ...] = ()
    joining: tuple[Seat, ...] = ()
    """The next set of keepers, in a joint epoch."""

    @property
    def everyone(self) -> tuple[Seat, ...]:
        """The seats of both sets."""
        return tuple(dict.fromkeys(self.seats + self.joining))

    def decided_by(self, seats: Collection[Seat]) -> bool:
        """Whether these seats are a majority of each set."""
        sets = [self.seats, self.joining] if self.joining else [self.seats]
        return all(2 * sum(seat in seats for seat in one) > len(one) for one in sets)


class Prepare(Message, frozen=True, gc=False):
    """A request for the newest record, and for the promise to accept no lower ballot."""

    register: str
    ballot: Ballot
    keepers: Keepers


class Promise(Message, frozen=True, gc=False):
    """The answer to `Prepare`."""

    seat: Seat
    register: str
    ballot: Ballot
    accepted: Ballot
    record: Record


class Propose(Message, frozen=True, gc=False):
    """A request to accept a record."""

    register: str
    ballot: Ballot
    keepers: Keepers
    record: Record


class Accepted(Message, frozen=True, gc=False):
    """The answer to `Propose`."""

    seat: Seat
    register: str
    ballot: Ballot


class Conflict(Message, frozen=True, gc=False):
    """A refusal: a higher ballot was promised."""

    register: str
    ballot: Ballot
    promised: Ballot


class Outdated(Message, frozen=True, gc=False):
    """A refusal: the proposer knows an older set of keepers."""

    register: str
    ballot: Ballot
    keepers: Keepers


class Install(Message, frozen=True, gc=False):
    """The announcement of a decided set of keepers, or a question who keeps (epoch 0)."""

    keepers: Keepers


class Installed(Message, frozen=True, gc=False):
    """The answer to `Install`: the seat, the set that it knows, and the registers that it holds."""

    seat: Seat
    keepers: Keepers
    registers: tuple[str, ...]
