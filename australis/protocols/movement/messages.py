"""What is said while a component moves. Whatever has to be heard is said again until it is.

The paper's six phases: decision, request, ready, update, confirmations, release. There the
upstream is told to send elsewhere; here whoever reads the component's log goes on reading at the
target after the last id it has, for both logs are equal.
"""

from __future__ import annotations

from australis.kernel.machine import Message


class Decision(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Phase 1: move a component there. Whoever has another move under way ignores it."""

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
    """Phase 3: how far the replica's log goes; or None: it does not run here and will not."""

    move: str
    position: int | None


class Switch(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Phase 4: read a component's log there from now on, after the last id you have."""

    move: str
    component: str
    host: str
    epoch: int
    """Grows with every such word about a component: the newest one counts."""


class Switched(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Phase 5: done, and this is the last id I have."""

    move: str
    epoch: int
    last: int


class Handover(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Phase 6: the component is yours."""

    move: str
    component: str
    epoch: int
    readers: tuple[str, ...]


class Answered(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The target has taken it over; or it has not and never will by this move."""

    move: str
    taken: bool


class Cancel(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The move is off: stop the replica. The component is read there, as `epoch` says."""

    move: str
    component: str
    epoch: int


class Cancelled(Message, frozen=True, array_like=True, tag=True, gc=False):
    """It does not run here any more."""

    move: str
