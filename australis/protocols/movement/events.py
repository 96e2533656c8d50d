"""Events of a node's moves, the journal entries and effects they cause, and the options."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.kernel.machine import Effect, Event


@dataclass(frozen=True)
class MovementOptions:
    """The options of one node."""

    resend_us: int = SECOND
    """The interval at which an unanswered message is sent again."""
    ready_us: int = 30 * SECOND
    """The time after which a replica that has not caught up is given up."""
    switch_us: int = 10 * SECOND
    """The time for readers to switch; later ones are redirected when they come back."""
    behind: int = 0
    """A replica is ready when its log is at most this number of ids behind."""
    most_in: int = 4
    """The maximum number of components on their way to a node at once."""

    def __post_init__(self) -> None:
        if min(self.resend_us, self.ready_us, self.switch_us) <= 0:
            raise UserError("should take longer than nothing", name="a time of a move")
        if self.behind < 0 or self.most_in < 1:
            raise UserError("should not be negative", name="behind and most_in")


# --- the journal -------------------------------------------------------------------------------


class Owned(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The component is this node's, as of an epoch."""

    component: str
    epoch: int


class Began(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As the source: a move is under way; nothing is committed."""

    move: str
    component: str
    target: str


class Told(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As the source: readers were told where to read, under this epoch."""

    move: str
    epoch: int


class Handing(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As the source: the target may have taken over the component from now on."""

    move: str
    epoch: int


class Cancelling(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As the source: the move is cancelled, the component stays, the target is still to be told."""

    move: str
    epoch: int


class Over(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As the source: both nodes know how the move has ended."""

    move: str


class Gone(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The component has moved to this node."""

    component: str
    host: str
    epoch: int


class Guest(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As the target: a replica runs here that this node does not own yet."""

    move: str
    component: str
    source: str


class Refused(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As the target: the replica is stopped; the component is read at another node."""

    move: str
    component: str
    host: str
    epoch: int


Entry = Owned | Began | Told | Handing | Cancelling | Over | Gone | Guest | Refused


# --- events ------------------------------------------------------------------------------------


class Started(Event, frozen=True, gc=False):
    """An incarnation starts with the journal of the earlier ones."""

    incarnation: int
    owned: tuple[str, ...] = ()
    """Components that start at this node unless the journal says otherwise."""
    running: tuple[str, ...] = ()
    """Components with a replica on disk that is a reader of all its upstream logs."""
    reading: tuple[tuple[str, str, int], ...] = ()
    """Components that this node reads, each with its host and the epoch of that knowledge."""
    journal: tuple[Entry, ...] = ()


class Created(Event, frozen=True, gc=False):
    """A new component has started at this node."""

    component: str


class MoveDecided(Event, frozen=True, gc=False):
    """A policy on this node wants one of its components moved to a target."""

    component: str
    target: str


class SnapshotTaken(Event, frozen=True, gc=False):
    """The snapshot that `TakeSnapshot` asked for."""

    move: str
    snapshot: bytes
    position: int


class ReplicaInstalled(Event, frozen=True, gc=False):
    """The replica asked for runs and all its upstream logs have confirmed it as a reader; only then
    may the source acknowledge further."""

    move: str


class InstallFailed(Event, frozen=True, gc=False):
    """A replica cannot run here."""

    move: str


class Advanced(Event, frozen=True, gc=False):
    """The log of a component that runs here has reached this position."""

    component: str
    position: int


class ReadersChanged(Event, frozen=True, gc=False):
    """The readers of a component's log at this node have changed."""

    component: str
    readers: tuple[str, ...]


class Resubscribed(Event, frozen=True, gc=False):
    """This node durably reads a component at a host now, and had read up to `last`."""

    move: str
    component: str
    epoch: int
    last: int


class Redirected(Event, frozen=True, gc=False):
    """A node that no longer runs a component names the one that does."""

    component: str
    host: str
    epoch: int


class NodeLost(Event, frozen=True, gc=False):
    """A node is declared lost for good; its components are started elsewhere."""

    node: str


# --- effects -----------------------------------------------------------------------------------


class Write(Effect, frozen=True, gc=False):
    """Make an entry of the journal durable before the next effect."""

    entry: Entry


class TakeSnapshot(Effect, frozen=True, gc=False):
    """Take a snapshot of a component, and withhold acknowledgements of tuples after it from the
    upstream logs until `LetGo`: the replica will read those tuples."""

    move: str
    component: str


class LetGo(Effect, frozen=True, gc=False):
    """Resume the acknowledgements that were withheld."""

    component: str


class InstallReplica(Effect, frozen=True, gc=False):
    """Run a replica from a snapshot; its log begins with the part that readers lack."""

    move: str
    component: str
    snapshot: bytes


class DropReplica(Effect, frozen=True, gc=False):
    """Stop a component here and delete its log and state."""

    component: str


class Resubscribe(Effect, frozen=True, gc=False):
    """Read a component's log at a host from now on, after the last id that is durable here."""

    move: str
    component: str
    host: str
    epoch: int


class TellMoved(Effect, frozen=True, gc=False):
    """A move has ended; if `done`, the component runs at the target."""

    move: str
    component: str
    target: str
    done: bool
