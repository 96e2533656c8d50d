"""The effects of a DPC machine, and the events with which its driver answers.

The driver owns the bytes: logs, checkpoints, engines. The machine decides which buckets
a lane may process and which piece of a log goes to which consumer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from australis.kernel.machine import Effect, Event
from australis.protocols.dpc.digests import Difference
from australis.protocols.dpc.messages import LogDigest, WentBack
from australis.protocols.dpc.missing import Missing
from australis.protocols.dpc.options import Lease
from australis.protocols.dpc.spans import Spans
from australis.protocols.dpc.states import Phase, Trigger


class Rewired(Event, frozen=True, gc=False):
    """The deployment has changed: from now on a machine reads and serves others.

    `wiring` is its own part: a `ReplicaConfig`, a `ClientConfig`, or the consumers of a source.
    """

    version: int
    wiring: Any
    joining: frozenset[str] = frozenset()
    """The machines that copy a state, for which full logs do not wait."""
    leaving: frozenset[str] = frozenset()
    """The machines that are read only while no other one will do."""
    leases: Mapping[str, Lease] = {}


class RunStable(Effect, frozen=True, gc=False):
    """Let the stable lane process the buckets (after, upto] of its inputs.

    Append the results to the log, durably, but only the buckets after `keep_after`:
    those before are there already (SOutput drops duplicates, thesis 4.7.2).
    """

    output: str
    after: int
    upto: int
    keep_after: int
    inputs: tuple[Spans, ...] = ()
    """The contents of these buckets, for each input."""


class Checkpoint(Effect, frozen=True, gc=False):
    """Make the current state of the stable lane durable."""

    output: str


class ForkLane(Effect, frozen=True, gc=False):
    """Fork a tentative lane from the current state of the stable lane."""

    output: str
    epoch: int


class RunTentative(Effect, frozen=True, gc=False):
    """Let the tentative lane process one bucket with what is available of its inputs."""

    output: str
    epoch: int
    bucket: int
    entered_us: int
    inputs: tuple[Spans, ...] = ()
    """The contents of this bucket, stable or tentative, for each input."""
    missing: Missing = ()
    """What is missing in the result."""


class AnnouncePhase(Effect, frozen=True, gc=False):
    """Announce the phase change of an output to observers."""

    output: str
    was: Phase
    trigger: Trigger
    now: Phase


class AnnounceDifference(Effect, frozen=True, gc=False):
    """Announce that logs that should be equal differ, or agree again, to observers."""

    stream: str
    reader: str
    """The output or client that reads the stream; empty for a replica that writes it itself."""
    differences: tuple[Difference, ...]
    """One for each replica whose log differs; none if all agree again."""
    stops: bool
    """Whether the sender stops, because no majority of replicas agrees with it."""


class AnnounceWentBack(Effect, frozen=True, gc=False):
    """Announce to observers that the log of a source has gone back, or no longer."""

    stream: str
    reader: str
    """The output or client that reads the stream; empty for the source itself."""
    went_back: WentBack | None


class RememberSources(Effect, frozen=True, gc=False):
    """Keep across restarts what an output has read of sources; the last one that is kept counts."""

    output: str
    read: tuple[tuple[str, LogDigest], ...]
    """Each source, with the digest of its log up to what the output's log will rest on next."""


class AnnounceClock(Effect, frozen=True, gc=False):
    """Announce to observers that a producer's clock is off beyond the bound, or no longer."""

    producer: str
    offset_us: int
    """How far it is ahead of this node's clock."""
    error_us: int
    beyond: bool


class AnnounceLoss(Effect, frozen=True, gc=False):
    """Announce to observers that an output cannot go on: no replica that answers has its state any
    more, and logs may have forgotten what would rebuild it."""

    output: str
    gone: tuple[tuple[str, int], ...]
    """The inputs that logs no longer hold, each with the last bucket that is gone."""
    waits_for: tuple[str, ...] = ()
    """The replicas that are silent and may have the state; without any it is lost for good."""


class AnnounceLease(Effect, frozen=True, gc=False):
    """Announce to observers that a log no longer waits for a consumer, or does so again."""

    stream: str
    consumer: str
    silent_us: int
    """How long the consumer was silent."""
    lapsed: bool
    acknowledged: int
    """The last bucket that it had acknowledged."""


class DropLane(Effect, frozen=True, gc=False):
    """End the tentative lane of an output."""

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
    """Truncate a log up to this bucket."""

    stream: str
    upto: int


class ShipSnapshot(Effect, frozen=True, gc=False):
    """Send the latest checkpoint of a lane as `Snapshot`, and its log up to there."""

    to: str
    stream: str
    upto: int
    """The last bucket that the checkpoint covers."""
    at_us: int


class InstallSnapshot(Effect, frozen=True, gc=False):
    """Make this the lane's durable checkpoint, and take over the log that comes with it."""

    stream: str
    upto: int
    ahead_us: int
    """How far this node's clock is ahead of the one by which the log has its entry times."""
    state: Any


class SkipAhead(Effect, frozen=True, gc=False):
    """Restart the stable lane with an empty state after bucket `after`.

    Its inputs before that are truncated. A convergent-capable lane has the right state again by
    `trimmed_upto`, and its log begins there.
    """

    output: str
    after: int
    trimmed_upto: int


class LimitSource(Effect, frozen=True, gc=False):
    """Accept no tuples of buckets beyond this one until consumers acknowledge (back-pressure)."""

    stream: str
    upto: int


class Deliver(Effect, frozen=True, gc=False):
    """Deliver a change of the stream to the application behind a client proxy."""

    stream: str
    what: Any


class RestoredLog(Event, frozen=True, gc=False):
    """The log and checkpoint of one output that a node found on its disk when it started."""

    stream: str
    upto: int
    """The last bucket that its checkpoint covers."""
    trimmed_upto: int
    """The last bucket that its log no longer holds."""
    end: int
    """The last bucket of its log."""
    begun: int | None = None
    """The end of a micro-batch that was begun and must be repeated as planned, if there is one."""
    digest: LogDigest | None = None
    """The log's digest up to its end."""
    fits_after: int = -1
    """The bucket after which the log fits its bytes."""
    digests: tuple[tuple[int, int], ...] = ()
    """Of the log of a source: its digests up to the newest buckets that hold tuples."""
    complete: bool = False
    """Whether a source has ended, so that only empty buckets follow, which are not in its log."""
    read: tuple[tuple[str, LogDigest], ...] = ()
    """The sources that its lane reads, each with the digest that was last remembered."""


class Started(Event, frozen=True, gc=False):
    """The node begins an incarnation."""

    incarnation: int
    lanes: tuple[RestoredLog, ...] = ()
    lost: tuple[str, ...] = ()
    """The outputs whose state is lost and has to come from a replica's snapshot."""
    fresh: bool = False
    """Whether this is the very first start, with nothing to recover."""


class StableDone(Event, frozen=True, gc=False):
    """The stable lane has processed its inputs up to a bucket; the log ends at `end`."""

    output: str
    upto: int
    end: int
    digests: tuple[tuple[int, int], ...] = ()
    """The log's digests up to the newest buckets that hold tuples."""
    fits_after: int = -1
    """The bucket after which the log fits its bytes."""


class SkippedAhead(Event, frozen=True, gc=False):
    """The stable lane has restarted with an empty state, durably."""

    output: str


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
    digests: tuple[tuple[int, int], ...] = ()
    """The log's digests up to the newest buckets that hold tuples."""
    fits_after: int = -1
    """The bucket after which the log fits its bytes."""


class LogDamaged(Event, frozen=True, gc=False):
    """A bucket of a log cannot be read any more; what the log holds after it can."""

    stream: str
    bucket: int


class Consumed(Event, frozen=True, gc=False):
    """An application has finished with the stable tuples up to this bucket."""

    upto: int
    taken: int = -1
    """The last bucket that it has taken, if it has not finished with that yet."""


class SnapshotFailed(Event, frozen=True, gc=False):
    """A replica's snapshot could not be fetched, or could not be used."""

    stream: str


class SnapshotInstalled(Event, frozen=True, gc=False):
    """The lane continues from a replica's snapshot."""

    stream: str
    upto: int
    trimmed_upto: int
    """The last bucket that the log that came with the snapshot does not hold."""
    digest: LogDigest | None = None
    """The log's digest up to its end."""
    fits_after: int = -1
    """The bucket after which the log fits its bytes."""
