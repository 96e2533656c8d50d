"""What a node of DPC asks of its world, and what it hears back.

The world owns the bytes: logs, checkpoints, engines. The machine says which buckets
a lane may process and which piece of a log goes to whom.
"""

from __future__ import annotations

from typing import Any

from australis.kernel.machine import Effect, Event


class RunStable(Effect, frozen=True, gc=False):
    """Let the stable lane process the buckets (after, upto] of its inputs.

    Append what comes out to the log, durably, but only the buckets after `keep_after`:
    those before are there already (SOutput drops duplicates, thesis 4.7.2).
    """

    output: str
    after: int
    upto: int
    keep_after: int


class Checkpoint(Effect, frozen=True, gc=False):
    """Make the state of the stable lane durable as it stands."""

    output: str


class ForkLane(Effect, frozen=True, gc=False):
    """Make a tentative lane from the stable lane as it stands."""

    output: str
    epoch: int


class RunTentative(Effect, frozen=True, gc=False):
    """Let the tentative lane process one bucket with what is there of its inputs."""

    output: str
    epoch: int
    bucket: int
    entered_us: int


class DropLane(Effect, frozen=True, gc=False):
    """The tentative lane is no longer needed."""

    output: str
    epoch: int


class SendLog(Effect, frozen=True, gc=False):
    """Send a piece of a log as `StableData`."""

    to: str
    stream: str
    after: int
    upto: int
    undo: bool
    rec_done: bool
    reader: str = ""


class SendHead(Effect, frozen=True, gc=False):
    """Send one bucket of a log as `TentativeData` to a consumer that is still behind."""

    to: str
    stream: str
    bucket: int
    reader: str = ""


class Truncate(Effect, frozen=True, gc=False):
    """Forget the buckets of a log up to this one."""

    stream: str
    upto: int


class ShipSnapshot(Effect, frozen=True, gc=False):
    """Send the latest checkpoint of a lane as `Snapshot`, and its log up to there."""

    to: str
    stream: str


class InstallSnapshot(Effect, frozen=True, gc=False):
    """Make this the lane's durable checkpoint, and take over the log that comes with it."""

    stream: str
    upto: int
    entered_us: int
    state: Any


class SkipAhead(Effect, frozen=True, gc=False):
    """Begin the stable lane anew with an empty state after bucket `after`.

    Its inputs before that are gone. A convergent-capable lane has the right state again by
    `begins`, and its log begins there.
    """

    output: str
    after: int
    begins: int


class CloseBucket(Effect, frozen=True, gc=False):
    """Log the tuples of a source up to the end of this bucket, durably.

    Those of buckets up to `dropped` came while the log was full: they are not taken.
    """

    stream: str
    after: int
    upto: int
    entered_us: int
    dropped: int = -1


class Deliver(Effect, frozen=True, gc=False):
    """Hand something to the application behind a client proxy."""

    stream: str
    what: Any


class LaneRestored(Event, frozen=True, gc=False):
    """What a node found on its disk of one output when it started."""

    stream: str
    upto: int
    """Its checkpoint covers the buckets up to this one."""
    begins: int
    end: int
    """Its log holds the buckets (begins, end]."""
    begun: int | None = None
    """A micro-batch up to this bucket was begun, and must be done again as it was planned."""


class Started(Event, frozen=True, gc=False):
    """The node begins a life."""

    life: int
    lanes: tuple[LaneRestored, ...] = ()
    lost: tuple[str, ...] = ()
    """Outputs whose state is gone: a replica must help."""
    fresh: bool = False
    """The very first start: there is nothing to recover."""


class StableDone(Event, frozen=True, gc=False):
    """The stable lane has processed its inputs up to a bucket; the log ends at `end`."""

    output: str
    upto: int
    end: int


class Checkpointed(Event, frozen=True, gc=False):
    """The lane's state after this bucket is durable."""

    output: str
    upto: int


class TentativeDone(Event, frozen=True, gc=False):
    """The tentative lane has processed a bucket."""

    output: str
    epoch: int
    bucket: int
    entered_us: int
    batch: Any


class BucketClosed(Event, frozen=True, gc=False):
    """A source's log has grown up to this bucket."""

    stream: str
    upto: int


class Consumed(Event, frozen=True, gc=False):
    """An application is done with the stable tuples up to this bucket."""

    upto: int


class SnapshotFailed(Event, frozen=True, gc=False):
    """A replica's snapshot could not be had, or was of no use."""

    stream: str


class SnapshotInstalled(Event, frozen=True, gc=False):
    """The lane goes on from a replica's snapshot."""

    stream: str
    upto: int
    begins: int
    """The log that came with it holds the buckets after this one."""
