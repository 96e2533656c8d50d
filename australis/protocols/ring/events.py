"""What happens to a peer, what it tells whoever uses it, and what can be set about it."""

from __future__ import annotations

from dataclasses import dataclass

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.errors import UserError
from australis.kernel.machine import Effect, Event
from australis.protocols.ring.messages import Entry


@dataclass(frozen=True)
class RingOptions:
    """The settings of one peer."""

    successors: int = 8
    """So many peers behind it each one knows; the ring holds if not all of them fail at once."""
    copies: int = 2
    """Whatever is kept is kept by so many further peers."""
    answer_us: int = 500 * MILLISECOND
    """Who does not answer for so long is taken to have failed."""
    stabilise_us: int = SECOND
    """So often a peer looks after its neighbours."""
    fingers_us: int = 5 * SECOND
    """So often it looks one finger up."""
    meet_us: int = 30 * SECOND
    """So often it looks itself up through somebody it knew at first, should the ring be in two."""
    keep_alive_us: int = 60 * SECOND
    """So often it registers again what it has registered."""
    tries: int = 5
    """A lookup that fails so often is given up."""

    def __post_init__(self) -> None:
        if self.copies >= self.successors:
            raise UserError("should be fewer than successors", name="copies")
        times = (self.answer_us, self.stabilise_us, self.fingers_us, self.keep_alive_us)
        if min(times) <= 0 or self.meet_us <= 0:
            raise UserError("should take longer than nothing", name="a time of the ring")

    @property
    def lasts_us(self) -> int:
        """An entry that is not registered again is forgotten after so long."""
        return self.keep_alive_us * 5 // 2


class Started(Event, frozen=True, gc=False):
    """A life begins: it joins through others, or is the first."""

    life: int
    contacts: tuple[str, ...] = ()


class LookedUp(Event, frozen=True, gc=False):
    """Somebody here wants to know who is responsible for a name."""

    tag: str
    name: str


class Registered(Event, frozen=True, gc=False):
    """Something is to be found under a name from now on, until it is withdrawn."""

    under: str
    value: bytes


class Withdrawn(Event, frozen=True, gc=False):
    """It is not to be found any longer."""

    under: str


class Fetched(Event, frozen=True, gc=False):
    """Somebody here wants to know what is kept under a name."""

    tag: str
    under: str


class Departed(Event, frozen=True, gc=False):
    """It is to leave the ring."""


class TellFound(Effect, frozen=True, gc=False):
    """Who is responsible, those with copies behind it; nobody if the lookup failed."""

    tag: str
    peers: tuple[str, ...]
    hops: int


class TellKept(Effect, frozen=True, gc=False):
    """What is kept under a name; None if nobody could be asked."""

    tag: str
    entries: tuple[Entry, ...] | None
