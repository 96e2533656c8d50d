"""The simplest data plane in which a move can go wrong: components with state, and their logs.

A component reads one tuple from each of its inputs and writes one; what it writes depends on
everything it has read. Logs are cut off behind what all their readers have acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from australis.kernel.machine import Message

MODULUS = (1 << 31) - 1
Reader = tuple[str, str]
"""A node, and which replica of its reads."""


def step(state: int, taken: tuple[int, ...]) -> int:
    """The next state, which is also what is written."""
    for place, value in enumerate(taken, 1):
        state = (state * 31 + value * place + 7) % MODULUS
    return state


class Kind(msgspec.Struct, frozen=True):
    """What a component is: its name and what it reads; a source reads nothing, a client is not
    read."""

    name: str
    inputs: tuple[str, ...] = ()
    client: bool = False


class Snapshot(msgspec.Struct):
    """A component at one position, with what of its log some reader still lacks."""

    kind: Kind
    position: int
    state: int
    base: int
    log: list[int]
    acks: list[tuple[str, str, int]]
    reading: list[tuple[str, str, int]]


@dataclass
class Replica:
    """A component that runs somewhere, as it is on disk."""

    kind: Kind
    position: int = 0
    """So many tuples it has written."""
    state: int = 1
    base: int = 0
    """The log begins behind this one."""
    log: list[int] = field(default_factory=list)
    acks: dict[Reader, int] = field(default_factory=dict)
    incarnation: str = ""
    """The move that brought it, so that an earlier one at the same node is not taken for it."""
    known_to: set[str] = field(default_factory=set)
    """The logs before it that know it as a reader."""
    held: int | None = None
    """So far the logs before it are acknowledged, no further, while a snapshot is under way."""

    @property
    def reader(self) -> str:
        """How the logs before it know it."""
        return f"{self.kind.name}#{self.incarnation}"

    @property
    def acknowledged(self) -> int:
        """What the logs before it need not keep for it."""
        return self.position if self.held is None else min(self.held, self.position)

    def advance(self, taken: tuple[int, ...]) -> None:
        """Take one tuple of each input and write one."""
        self.state = step(self.state, taken)
        self.position += 1
        self.log.append(self.state)

    @property
    def registered(self) -> bool:
        """Whether all logs before it know it."""
        return self.known_to >= set(self.kind.inputs)

    def acknowledge(self, reader: Reader, upto: int) -> None:
        """A reader needs nothing up to there any more; once nobody does it is cut off."""
        self.acks[reader] = max(upto, self.acks.get(reader, 0))
        # A reader may be further than a replica that still catches up.
        keep = min(self.position, *self.acks.values())
        if keep > self.base and not self.kind.client:
            del self.log[: keep - self.base]
            self.base = keep

    def read(self, after: int, most: int) -> list[int] | None:
        """What lies behind an id; None if that was cut off."""
        if after < self.base:
            return None
        begin = after - self.base
        return self.log[begin : begin + most]


# --- what hosts say to each other about tuples ------------------------------------------------


class Fetch(Message, frozen=True, array_like=True, tag=True, gc=False):
    """What comes after this id? I need nothing up to `ack` any more."""

    component: str
    reader: str
    after: int
    ack: int


class Data(Message, frozen=True, array_like=True, tag=True, gc=False):
    """These come after that id."""

    component: str
    reader: str
    after: int
    values: tuple[int, ...]


class Moved(Message, frozen=True, array_like=True, tag=True, gc=False):
    """It is not here any more, but there."""

    component: str
    host: str
    epoch: int


class Stop(Message, frozen=True, array_like=True, tag=True, gc=False):
    """This reader reads no more here."""

    component: str
    reader: str


class Stopped(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Good."""

    component: str
    reader: str


FLOW = (Fetch, Data, Moved, Stop, Stopped)
