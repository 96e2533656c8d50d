"""What happens to a node's moves, what is written down and done about them, and settings."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.kernel.machine import Effect, Event


@dataclass(frozen=True)
class MovementOptions:
    """The settings of one node."""

    resend_us: int = SECOND
    """What is not answered is said again after so long."""
    ready_us: int = 30 * SECOND
    """A replica that has not caught up after so long is given up."""
    switch_us: int = 10 * SECOND
    """Readers that have not switched after so long will find their way when they come back."""
    behind: int = 0
    """A replica is ready when its log is no more than so many ids behind."""
    most_in: int = 4
    """So many components may be on their way to a node at once."""

    def __post_init__(self) -> None:
        if min(self.resend_us, self.ready_us, self.switch_us) <= 0:
            raise UserError("should take longer than nothing", name="a time of a move")
        if self.behind < 0 or self.most_in < 1:
            raise UserError("should not be negative", name="behind and most_in")


# --- what must not be forgotten ----------------------------------------------------------------


class Owned(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The component is this node's, as of an epoch."""

    component: str
    epoch: int


class Began(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As a source: a move is under way; nothing is committed."""

    move: str
    component: str
    target: str


class Told(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As a source: readers were told where to read, under this epoch."""

    move: str
    epoch: int


class Handing(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As a source: the target may have taken it over from now on."""

    move: str
    epoch: int


class Cancelling(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As a source: the move is off, the component stays; the target is still to be told."""

    move: str
    epoch: int


class Over(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As a source: both sides know how the move has ended."""

    move: str


class Gone(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The component went there."""

    component: str
    host: str
    epoch: int


class Guest(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As a target: a replica runs here that is not this node's yet."""

    move: str
    component: str
    source: str


class Refused(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As a target: the replica is stopped; the component is read elsewhere."""

    move: str
    component: str
    host: str
    epoch: int


Entry = Owned | Began | Told | Handing | Cancelling | Over | Gone | Guest | Refused


# --- events ------------------------------------------------------------------------------------


class Started(Event, frozen=True, gc=False):
    """A life begins, with what was written down before."""

    life: int
    owned: tuple[str, ...] = ()
    """Components that begin at this node, if nothing else is written."""
    running: tuple[str, ...] = ()
    """Components of which there is a replica on disk that all logs before it know."""
    reading: tuple[tuple[str, str, int], ...] = ()
    """Components that are read by this node, where, and as of which epoch."""
    journal: tuple[Entry, ...] = ()


class Created(Event, frozen=True, gc=False):
    """A new component began at this node."""

    component: str


class MoveDecided(Event, frozen=True, gc=False):
    """Somebody on this node wants one of its components elsewhere."""

    component: str
    target: str


class SnapshotTaken(Event, frozen=True, gc=False):
    """What `TakeSnapshot` asked for."""

    move: str
    snapshot: bytes
    position: int


class ReplicaInstalled(Event, frozen=True, gc=False):
    """A replica that was asked for runs, and is a reader of all logs before it: each has said so.
    Only then may the source acknowledge further."""

    move: str


class InstallFailed(Event, frozen=True, gc=False):
    """A replica cannot run here."""

    move: str


class Advanced(Event, frozen=True, gc=False):
    """The log of a component that runs here goes up to there now."""

    component: str
    position: int


class ReadersChanged(Event, frozen=True, gc=False):
    """These read a component's log here."""

    component: str
    readers: tuple[str, ...]


class Resubscribed(Event, frozen=True, gc=False):
    """This node reads a component there now, durably, and had read up to `last`."""

    move: str
    component: str
    epoch: int
    last: int


class Redirected(Event, frozen=True, gc=False):
    """Somebody who does not have a component any more says who does."""

    component: str
    host: str
    epoch: int


class NodeLost(Event, frozen=True, gc=False):
    """A node will not come back, as whoever is in charge of that says, and of what ran there."""

    node: str


# --- effects -----------------------------------------------------------------------------------


class Write(Effect, frozen=True, gc=False):
    """Make an entry of the journal durable before anything else is done."""

    entry: Entry


class TakeSnapshot(Effect, frozen=True, gc=False):
    """Take a snapshot of a component, and do not acknowledge to the logs before it what comes
    behind the snapshot until `LetGo`: the replica will read that."""

    move: str
    component: str


class LetGo(Effect, frozen=True, gc=False):
    """Acknowledge again what was held back."""

    component: str


class InstallReplica(Effect, frozen=True, gc=False):
    """Run a replica from a snapshot; it begins with the log's part that readers lack."""

    move: str
    component: str
    snapshot: bytes


class DropReplica(Effect, frozen=True, gc=False):
    """Stop a component here and forget its log and state."""

    component: str


class Resubscribe(Effect, frozen=True, gc=False):
    """Read a component's log there from now on, after the last id that is durable here."""

    move: str
    component: str
    host: str
    epoch: int


class TellMoved(Effect, frozen=True, gc=False):
    """A move is over; `done`: the component runs at the target."""

    move: str
    component: str
    target: str
    done: bool
