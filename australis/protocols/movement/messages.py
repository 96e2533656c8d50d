"""Messages of a move, each sent again until it is answered.

The paper's six phases: decision, request, ready, update, confirmations, release. There the upstream
is told to send to the target; here the readers of the component's log continue at the target after
the last id they have, since both logs are equal.
"""

from __future__ import annotations

from australis.kernel.machine import Message


class Decision(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Phase 1: move a component to a target; ignored by a node where it is moving already."""

    component: str
    target: str


class Request(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Phase 2: run a replica from this snapshot."""

    move: str
    component: str
    snapshot: bytes
    position: int
    """The last id of the log that the snapshot covers."""


class Ready(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Phase 3: the position of the replica's log, or None if the target cannot run the replica."""

    move: str
    position: int | None


class Switch(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Phase 4: read a component's log at this host from now on, after the last id you have."""

    move: str
    component: str
    host: str
    epoch: int
    """Increases with every announcement of a component's host: the highest one is valid."""


class Switched(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Phase 5: the reader has switched, and this is the last id it had."""

    move: str
    epoch: int
    last: int


class Handover(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Phase 6: the target owns the component."""

    move: str
    component: str
    epoch: int
    readers: tuple[str, ...]


class Answered(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Whether the target has taken the component over; if not, it never will by this move."""

    move: str
    taken: bool


class Cancel(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The move is cancelled: stop the replica; the component's host is valid as of `epoch`."""

    move: str
    component: str
    epoch: int


class Cancelled(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The replica does not run at the target any more."""

    move: str
