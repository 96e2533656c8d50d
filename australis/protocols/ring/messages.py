"""Messages between the peers of a ring.

Every question carries a number chosen by the asking peer, and every answer repeats it. No message
has to arrive: a peer without an answer asks another peer, or asks again.
"""

from __future__ import annotations

from australis.kernel.machine import Message


class Entry(Message, frozen=True, array_like=True, gc=False):
    """A value that its owner has registered under a name."""

    under: str
    owner: str
    value: bytes
    version: int
    """The owner's own version number: a higher one replaces a lower one."""
    until_us: int
    """The entry expires at this time unless its owner registers it again."""


class Ask(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Asks which peer is responsible for a place, or which peers are closer to it."""

    number: int
    key: bytes


class Closer(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Peers closer to the place, the closest first; if `found`, the responsible ones in order."""

    number: int
    peers: tuple[str, ...]
    found: bool


class Neighbours(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Asks a peer for its neighbours and announces the sender as a possible predecessor."""

    number: int


class Beside(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The sender's predecessor and its successors in order."""

    number: int
    before: str | None
    after: tuple[str, ...]


class Leave(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The sender leaves the ring; these are its predecessor and successors."""

    before: str | None
    after: tuple[str, ...]


class Put(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Asks the responsible peer to keep these entries and to copy them."""

    number: int
    entries: tuple[Entry, ...]


class Kept(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The entries are kept; if not `responsible` they are not, and the owner looks up again."""

    number: int
    responsible: bool


class Copies(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Copies of entries, kept in case the sender fails."""

    entries: tuple[Entry, ...]


class Get(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Asks for the entries under a name."""

    number: int
    under: str


class Got(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The entries; if `responsible` is false the asking peer has to look up again."""

    number: int
    entries: tuple[Entry, ...]
    responsible: bool
