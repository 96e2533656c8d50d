"""What the nodes of a replicated diagram say to each other.

A heartbeat is the subscription: it says, for each stream the sender reads from the
receiver, what it wants, how far it got and what it has made durable. So a lost
message needs no repair of its own: the next heartbeat says it again.
"""

from __future__ import annotations

from typing import Any

from australis.kernel.machine import Message
from australis.protocols.dpc.states import State


class Bucket(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The tuples of one bucket, and when the bucket entered the system."""

    number: int
    entered_us: int
    batch: Any = None
    """An Arrow record batch; None if the bucket is empty."""


class Want(Message, frozen=True, array_like=True, tag=True, gc=False):
    """What a consumer wants of one stream (thesis 4.6.1)."""

    stream: str
    log: bool
    overlay: bool
    """Tentative tuples, while the producer has a tentative lane."""
    head: bool
    """New tuples of the log as tentative ones, while older ones are still being replayed."""
    have: int
    """The last stable bucket it received."""
    tentative: int
    """The last bucket it knows tentatively, `have` if nothing tentative followed."""
    acknowledged: int
    """The last bucket that a durable checkpoint of it covers."""
    room: int
    """The last bucket it can take now."""
    reader: str = ""
    """Which output of the consumer reads it, where a node has several."""


def reader_key(name: str, reader: str) -> str:
    """A node, or a stream, as one reader sees it: where nodes have several outputs each reads
    for itself, so that one that is held up does not hold up the others.

    >>> reader_key("join/1", ""), reader_key("join/1", "past")
    ('join/1', 'join/1 for past')
    """
    return f"{name} for {reader}" if reader else name


class Heartbeat(Message, frozen=True, array_like=True, tag=True, gc=False):
    """A consumer asks a replica how it is, and says what it wants (figure 4-10)."""

    life: int
    number: int
    wants: tuple[Want, ...]


class StreamStatus(Message, frozen=True, array_like=True, tag=True, gc=False):
    """How one stream of a producer is doing."""

    stream: str
    state: State
    begins: int
    """The log holds the buckets after this one,"""
    end: int
    """up to this one."""
    overlay: bool
    """Whether it can send tentative tuples."""


class HeartbeatReply(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The answer, with the state of every stream the consumer reads."""

    life: int
    number: int
    streams: tuple[StreamStatus, ...]


class StableData(Message, frozen=True, array_like=True, tag=True, gc=False):
    """A piece of a stable log: every bucket in (after, upto]."""

    stream: str
    after: int
    upto: int
    buckets: tuple[Bucket, ...]
    undo: bool = False
    """Tentative tuples of this consumer lie beyond `after`: these are their corrections."""
    rec_done: bool = False
    """The corrections are complete (REC_DONE)."""
    reader: str = ""


class TentativeData(Message, frozen=True, array_like=True, tag=True, gc=False):
    """One bucket of an overlay, with its tentative boundary."""

    stream: str
    epoch: int
    """Which tentative lane said so; a later lane of the same producer begins anew."""
    bucket: Bucket
    reader: str = ""


class ReconcileRequest(Message, frozen=True, array_like=True, tag=True, gc=False):
    """May I stabilise while you stay available? (figure 4-12)"""

    number: int


class ReconcileAnswer(Message, frozen=True, array_like=True, tag=True, gc=False):
    """Yes, and I will not until you are done; or no."""

    number: int
    granted: bool


class ReconcileDone(Message, frozen=True, array_like=True, tag=True, gc=False):
    """I have stabilised: you are free."""

    number: int


class SnapshotRequest(Message, frozen=True, array_like=True, tag=True, gc=False):
    """My state is gone: send me yours."""

    stream: str


class Snapshot(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The state of a lane after a bucket, for a replica that lost its own.

    With the log up to there: other consumers may still need it, and perhaps nobody else has it.
    """

    stream: str
    upto: int
    entered_us: int
    state: Any
