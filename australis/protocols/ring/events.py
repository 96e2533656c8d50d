"""Events of a ring peer, the effects it returns to its user, and its options."""

from __future__ import annotations

from dataclasses import dataclass

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.errors import UserError
from australis.kernel.machine import Effect, Event
from australis.protocols.ring.messages import Entry


@dataclass(frozen=True)
class RingOptions:
    """The options of one peer."""

    successors: int = 8
    """The number of successors a peer knows; the ring survives unless all of them fail at once."""
    copies: int = 2
    """The number of successors that hold a copy of each entry."""
    answer_us: int = 500 * MILLISECOND
    """The time after which a question to a peer counts as unanswered."""
    stabilise_us: int = SECOND
    """The interval at which a peer checks its neighbours."""
    fingers_us: int = 5 * SECOND
    """The interval at which a peer looks up one of its fingers."""
    meet_us: int = 30 * SECOND
    """The interval at which a peer looks itself up through a contact, to rejoin split rings."""
    keep_alive_us: int = 60 * SECOND
    """The interval at which a peer registers its entries again."""
    tries: int = 5
    """The number of attempts after which a lookup is given up."""

    def __post_init__(self) -> None:
        if self.copies >= self.successors:
            raise UserError("should be fewer than successors", name="copies")
        times = (self.answer_us, self.stabilise_us, self.fingers_us, self.keep_alive_us)
        if min(times) <= 0 or self.meet_us <= 0:
            raise UserError("should take longer than nothing", name="a time of the ring")

    @property
    def lasts_us(self) -> int:
        """The time after which an entry expires if it is not registered again."""
        return self.keep_alive_us * 5 // 2


class Started(Event, frozen=True, gc=False):
    """An incarnation of the peer starts: it joins through its contacts, or is the first peer."""

    incarnation: int
    contacts: tuple[str, ...] = ()


class LookedUp(Event, frozen=True, gc=False):
    """The user asks which peer is responsible for a name."""

    tag: str
    name: str


class Registered(Event, frozen=True, gc=False):
    """The user registers a value under a name until it is withdrawn."""

    under: str
    value: bytes


class Withdrawn(Event, frozen=True, gc=False):
    """The user withdraws what this peer has registered under a name."""

    under: str


class Fetched(Event, frozen=True, gc=False):
    """The user asks for the entries under a name."""

    tag: str
    under: str


class Departed(Event, frozen=True, gc=False):
    """The user asks this peer to leave the ring."""


class TellFound(Effect, frozen=True, gc=False):
    """The responsible peer, then the peers with its copies; empty if the lookup failed."""

    tag: str
    peers: tuple[str, ...]
    hops: int


class TellKept(Effect, frozen=True, gc=False):
    """The entries under a name; None if no responsible peer could be reached."""

    tag: str
    entries: tuple[Entry, ...] | None
