"""The simplest data plane in which a move can go wrong: components with state, and their logs.

A component reads one tuple from each of its inputs and writes one, which depends on everything it
has read. Logs are truncated up to what all their readers have acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from australis.kernel.machine import Message

MODULUS = (1 << 31) - 1
Reader = tuple[str, str]
"""A node, and the replica on it that reads."""


def step(state: int, taken: tuple[int, ...]) -> int:
    """The next state, which is also the tuple written."""
    for place, value in enumerate(taken, 1):
        state = (state * 31 + value * place + 7) % MODULUS
    return state


class Kind(msgspec.Struct, frozen=True):
    """A component's name and its inputs; a source has no inputs, a client has no readers."""

    name: str
    inputs: tuple[str, ...] = ()
    client: bool = False


class Snapshot(msgspec.Struct):
    """A component at one position, with the part of its log that some reader still lacks."""

    kind: Kind
    position: int
    state: int
    base: int
    log: list[int]
    acks: list[tuple[str, str, int]]
    reading: list[tuple[str, str, int]]


@dataclass
class Replica:
    """A replica of a component, as it is on disk."""

    kind: Kind
    position: int = 0
    """The number of tuples it has written."""
    state: int = 1
    base: int = 0
    """The position up to which its log is trimmed."""
    log: list[int] = field(default_factory=list)
    acks: dict[Reader, int] = field(default_factory=dict)
    incarnation: str = ""
    """The move that brought it, which tells it from an earlier replica on the same node."""
    known_to: set[str] = field(default_factory=set)
    """The upstream logs at which it is registered as a reader."""
    held: int | None = None
    """The position up to which it acknowledges upstream while a snapshot is under way."""

    @property
    def reader(self) -> str:
        """The name under which upstream logs know it."""
        return f"{self.kind.name}#{self.incarnation}"

    @property
    def acknowledged(self) -> int:
        """The position that it acknowledges to upstream logs."""
        return self.position if self.held is None else min(self.held, self.position)

    def advance(self, taken: tuple[int, ...]) -> None:
        """Read one tuple of each input and write one."""
        self.state = step(self.state, taken)
        self.position += 1
        self.log.append(self.state)

    @property
    def registered(self) -> bool:
        """Whether it is registered at all upstream logs."""
        return self.known_to >= set(self.kind.inputs)

    def acknowledge(self, reader: Reader, upto: int) -> None:
        """Record a reader's acknowledgement, and truncate what all readers have acknowledged."""
        self.acks[reader] = max(upto, self.acks.get(reader, 0))
        # A reader may be further than a replica that still catches up.
        keep = min(self.position, *self.acks.values())
        if keep > self.base and not self.kind.client:
            del self.log[: keep - self.base]
            self.base = keep

    def read(self, after: int, most: int) -> list[int] | None:
        """The tuples after an id; None if some of them are truncated."""
        if after < self.base:
            return None
        begin = after - self.base
        return self.log[begin : begin + most]


# --- messages about tuples --------------------------------------------------------------------


class Fetch(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Requests the tuples after an id, and acknowledges those up to `ack`."""

    component: str
    reader: str
    after: int
    ack: int


class Data(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The tuples after that id."""

    component: str
    reader: str
    after: int
    values: tuple[int, ...]


class Moved(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The component has moved to another node."""

    component: str
    host: str
    epoch: int


class Stop(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Ends a reader's subscription."""

    component: str
    reader: str


class Stopped(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Confirms a `Stop`."""

    component: str
    reader: str


FLOW = (Fetch, Data, Moved, Stop, Stopped)
