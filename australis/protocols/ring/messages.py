"""What peers of a ring say to each other.

Every question has a number of the asker's, and every answer repeats it. Nothing here has to
arrive: whoever is not answered asks somebody else, or once more.
"""

from __future__ import annotations

from australis.kernel.machine import Message


class Entry(Message, frozen=True, array_like=True, gc=False):
    """One thing that is kept under a name, by whoever registered it."""

    under: str
    owner: str
    value: bytes
    version: int
    """The owner's own count: the higher one replaces the lower."""
    until_us: int
    """It is forgotten then, unless its owner says it again."""


class Ask(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Who is responsible for a place, or is closer to whoever is?"""

    number: int
    key: bytes


class Closer(Message, frozen=True, array_like=True, tag=True, gc=False):
    """These are closer, the closest first; or, `found`, they are responsible one after the other."""

    number: int
    peers: tuple[str, ...]
    found: bool


class Neighbours(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Who is next to you? I may be."""

    number: int


class Beside(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The one before me, and those that follow me."""

    number: int
    before: str | None
    after: tuple[str, ...]


class Leave(Message, frozen=True, array_like=True, tag=True, gc=False):
    """I am going: these are next to me, before and after."""

    before: str | None
    after: tuple[str, ...]


class Put(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Keep these, as whoever is responsible for them; make copies."""

    number: int
    entries: tuple[Entry, ...]


class Kept(Message, frozen=True, array_like=True, tag=True, gc=False):
    """They are kept; or, if `responsible` is not set, not by me: look again."""

    number: int
    responsible: bool


class Copies(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Keep copies of these in case I fail."""

    entries: tuple[Entry, ...]


class Get(Message, frozen=True, array_like=True, tag=True, gc=False):
    """What is kept under a name?"""

    number: int
    under: str


class Got(Message, frozen=True, array_like=True, tag=True, gc=False):
    """This; or, if `responsible` is not set, ask somebody else."""

    number: int
    entries: tuple[Entry, ...]
    responsible: bool
