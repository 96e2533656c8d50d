"""The messages between the nodes of a replicated diagram.

A heartbeat is the subscription: it carries, for each stream the sender reads from the
receiver, what it wants, how far it got and what it has made durable. So a lost
message needs no repair of its own: the next heartbeat carries the same again.
"""

from __future__ import annotations

from typing import Any

from australis.kernel.machine import Message
from australis.protocols.dpc.missing import Missing
from australis.protocols.dpc.states import State


class Bucket(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The tuples of one bucket, and when the bucket entered the system."""

    number: int
    entered_us: int
    """By the clock of the node that has it: each one converts what it receives (`clocks`)."""
    batch: Any = None
    """The tuples as an Arrow record batch; None if the bucket is empty."""
    digest: int = 0
    """In a piece of a log: the rolling digest of the log up to this bucket."""
    missing: Missing = ()
    """Of a tentative bucket: what is missing in it."""


class LogDigest(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The rolling digest of a log up to a bucket (`streams.digest`)."""

    base: int
    """The bucket after which the digest begins; digests of one base can be compared."""
    bucket: int
    value: int


class SubscriptionState(Message, frozen=True, array_like=True, tag=True, gc=False):
    """A consumer's subscription to one stream (thesis 4.6.1)."""

    stream: str
    log: bool
    overlay: bool
    """Whether it wants tentative tuples, while the producer has a tentative lane."""
    head: bool
    """Whether it wants new tuples of the log as tentative ones while older ones are replayed."""
    have: int
    """The last stable bucket that the consumer received."""
    tentative: int
    """The last bucket that the consumer knows tentatively, `have` if nothing tentative followed."""
    acknowledged: int
    """The last bucket that a durable checkpoint of the consumer covers."""
    room: int
    """The last bucket for which the consumer has room now (flow control)."""
    reader: str = ""
    """The output of the consumer that reads the stream, where a node has several."""
    digest: LogDigest | None = None
    """Of the log of a source: its digest up to a bucket that the consumer has read."""


class ConsumerHeard(Message, frozen=True, array_like=True, tag=True, gc=False):
    """What one proxy of a source tells the other of a consumer that it has heard."""

    name: str
    """The consumer, as the subscriptions of the stream are keyed (`reader_key`)."""
    incarnation: int
    acknowledged: int
    silent_us: int
    """For how long it has been silent."""


def reader_key(name: str, reader: str) -> str:
    """The name of a node, or of a stream, for one reader.

    Where a node has several outputs each reads for itself, so that one that is held up does not
    hold up the others.

    >>> reader_key("join/1", ""), reader_key("join/1", "past")
    ('join/1', 'join/1 for past')
    """
    return f"{name} for {reader}" if reader else name


class Heartbeat(Message, frozen=True, array_like=True, tag=True, gc=False):
    """A consumer asks a producer for its state and renews its subscriptions (figure 4-10)."""

    incarnation: int
    number: int
    wants: tuple[SubscriptionState, ...]


class WentBack(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The log of a source is not the one, or not all of it, that a consumer has read."""

    consumer: str
    upto: int
    """The last bucket that the consumer has read, as far as that was compared."""
    end: int
    """The last bucket of the source's log."""
    differs: bool
    """Whether the log holds something else up to there; otherwise it ends before."""

    def told(self, stream: str) -> str:
        """What happened and what to do, in one sentence."""
        other = f"holds something else up to bucket {self.upto}, which"
        found = other if self.differs else f"ends with bucket {self.end}, but bucket {self.upto}"
        return (
            f"the log of source '{stream}' {found} '{self.consumer}' has read: an old copy was put"
            " back, or its disk lost what it had written; put the log back as it was, or remove the"
            " state of every node to begin anew, or name another 'state'"
        )


class StreamStatus(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The status of one stream of a producer."""

    stream: str
    state: State
    trimmed_upto: int
    """The last bucket that the log no longer holds."""
    end: int
    """The last bucket of the log."""
    overlay: bool
    """Whether the producer can send tentative tuples."""
    digest: LogDigest | None = None
    """The log's digest up to the last bucket that the consumer has, or to its end; None if it is
    not known any more."""
    restored_upto: int = -1
    """The last bucket that its log has from an earlier incarnation, whose clock may have been
    another."""
    went_back: WentBack | None = None
    """That the source's log has gone back, so that nobody may read it."""
    holds: bool = True
    """Whether the log is kept for this consumer: not yet where the producer knows an older
    deployment."""


class HeartbeatReply(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The answer to a heartbeat, with the status of every stream the consumer reads."""

    incarnation: int
    number: int
    streams: tuple[StreamStatus, ...]
    at_us: int
    """The time of the answer by the producer's clock."""


class StableData(Message, frozen=True, array_like=True, tag=True, gc=False):
    """A piece of a stable log: the buckets (after, upto], listed as in a `Span`."""

    stream: str
    after: int
    upto: int
    buckets: tuple[Bucket, ...]
    undo: bool = False
    """Whether this piece corrects tentative tuples that the consumer has beyond `after`."""
    rec_done: bool = False
    """Whether the corrections are complete with this piece (REC_DONE)."""
    reader: str = ""
    in_log: bool = False
    """Whether the tuples stay in the sender's log, which the receiver on the same node reads."""
    digest: LogDigest | None = None
    """The digest of the sender's log up to `after`."""
    incarnation: int = 0
    """The sender's incarnation, by whose clock the buckets entered."""


class TentativeData(Message, frozen=True, array_like=True, tag=True, gc=False):
    """One bucket of an overlay, with its tentative boundary."""

    stream: str
    epoch: int
    """The tentative lane that produced the bucket; a later lane of the producer starts over."""
    bucket: Bucket
    reader: str = ""
    incarnation: int = 0
    """The sender's incarnation, by whose clock the bucket entered."""


class ReconcileRequest(Message, frozen=True, array_like=True, tag=True, gc=False):
    """A replica asks another one to stay available while it stabilises (figure 4-12)."""

    number: int


class ReconcileAnswer(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The replica promises not to stabilise before the other one is done, or refuses."""

    number: int
    granted: bool


class ReconcileDone(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The sender has stabilised, which ends the receiver's promise."""

    number: int


class PeerDigest(Message, frozen=True, array_like=True, tag=True, gc=False):
    """What a replica says of one log to another replica that writes the same."""

    stream: str
    end: int
    """The last bucket of the sender's log."""
    digest: LogDigest
    """Its digest up to the end of the shorter one of both logs, as far as the sender knows."""


class PeerDigests(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The digests of all logs of a replica, for its peers to compare with theirs."""

    logs: tuple[PeerDigest, ...]


class SnapshotRequest(Message, frozen=True, array_like=True, tag=True, gc=False):
    """A replica that lost its state asks another one for its own."""

    stream: str


class NoSnapshot(Message, frozen=True, array_like=True, tag=True, gc=False):
    """A replica cannot give its state to one that lost its own."""

    stream: str
    lost: bool
    """Whether its own state is lost too."""
    right_from: int = -1
    """The bucket by which its state is right again, and where its log begins, if it has begun anew
    with an empty state."""


class Snapshot(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The state of a lane after a bucket, for a replica that lost its own.

    The log up to there comes with it: consumers may still need it, and no other replica may have
    it.
    """

    stream: str
    upto: int
    at_us: int
    """The time at which it is sent, by the sender's clock, which is that of the entry times."""
    state: Any
