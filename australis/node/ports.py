"""The ports that a world supplies to the hosts of a node.

Every method returns at once; long operations are reported on completion, as the event that the
method's docstring names, through the event queue of the world.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from australis.kernel.errors import Damaged
from australis.kernel.machine import Message, SetTimer
from australis.protocols.dpc.effects import (
    AnnounceClock,
    AnnounceDifference,
    AnnounceLease,
    AnnounceLoss,
    AnnouncePhase,
    AnnounceWentBack,
    Checkpoint,
    DropLane,
    ForkLane,
    InstallSnapshot,
    LimitSource,
    RememberSources,
    RunStable,
    RunTentative,
    ShipSnapshot,
    SkipAhead,
)
from australis.protocols.dpc.messages import Bucket, LogDigest, Snapshot
from australis.protocols.dpc.source_pair import (
    AcknowledgeRows,
    FollowSource,
    LeadSource,
    SaveStanding,
    SendCopy,
    SourceCopy,
    StoreCopy,
)


class LogPort(Protocol):
    """A stable log, with the times at which its buckets entered the system."""

    def listed(self, after: int, upto: int) -> Iterable[Bucket]:
        """The buckets (after, upto] with their tuples, listed as in a `Span`."""
        ...

    def entry_times(self, after: int, upto: int) -> Iterable[Bucket]:
        """The same buckets without their tuples: a listing of entry times alone."""
        ...

    def digest(self, bucket: int) -> LogDigest:
        """The rolling digest up to a bucket, which the log still holds or has just trimmed."""
        ...

    def note_entries(self, after: int, runs: Sequence[tuple[int, int]]) -> None:
        """Record when the buckets after `after` entered, as runs of (last bucket, time)."""
        ...

    def truncate(self, upto: int) -> Any:
        """Truncate the log up to this bucket."""
        ...


class EnginePort(Protocol):
    """The lanes of one replica: for each output a stable one, and at times a tentative one."""

    def log(self, stream: str) -> LogPort:
        """The log of an output."""
        ...

    def run_stable(self, effect: RunStable) -> None:
        """Process stable buckets and append to the log; reports `StableDone`."""
        ...

    def run_tentative(self, effect: RunTentative) -> None:
        """Process one bucket on the tentative lane; reports `TentativeDone`."""
        ...

    def checkpoint(self, effect: Checkpoint) -> None:
        """Make the current state of the stable lane durable; reports `Checkpointed`."""
        ...

    def fork(self, effect: ForkLane) -> None:
        """Fork a tentative lane from the current state of the stable one."""
        ...

    def drop(self, effect: DropLane) -> None:
        """End the tentative lane."""
        ...

    def skip_ahead(self, effect: SkipAhead) -> None:
        """Restart the stable lane with an empty state; reports `SkippedAhead`."""
        ...

    def shipment(self, effect: ShipSnapshot) -> Snapshot:
        """The message about the latest checkpoint."""
        ...

    def remember(self, effect: RememberSources) -> None:
        """Keep across restarts what an output has read of sources, for its `RestoredLog`."""
        ...

    def install(self, effect: InstallSnapshot) -> None:
        """Continue from a replica's checkpoint; reports `SnapshotInstalled` or `SnapshotFailed`."""
        ...


class SourcePort(Protocol):
    """A data source, which closes its buckets itself and reports each by `BucketClosed`.

    It takes no rows while its log holds more bytes that are not trimmed than its bounds allow.
    """

    def log(self, stream: str) -> LogPort:
        """The log of the source's tuples."""
        ...

    def limit(self, effect: LimitSource) -> None:
        """Accept no tuples of later buckets until the limit is raised (back-pressure)."""
        ...


class SourceMemberPort(SourcePort, Protocol):
    """A data source whose proxy may run here, and the copy of its log if it runs elsewhere.

    While it leads, the source also reports `RowsJournalled`.
    """

    def save(self, effect: SaveStanding) -> None:
        """Make the member's standing durable before this returns."""
        ...

    def lead(self, effect: LeadSource) -> None:
        """Start the source, after all copies that are being stored."""
        ...

    def follow(self, effect: FollowSource) -> None:
        """Stop the source; what it had not published may be replaced from now on."""
        ...

    def acknowledge(self, effect: AcknowledgeRows) -> None:
        """Acknowledge rows to their producers."""
        ...

    def copies(self, effect: SendCopy) -> Iterable[SourceCopy]:
        """The copy that is to be sent; its end may lie further, or nearer if it is `partial`."""
        ...

    def store(self, effect: StoreCopy) -> None:
        """Make a copy durable; reports `CopyStored`, in the order of the effects."""
        ...


class ApplicationPort(Protocol):
    """The application behind a client; it reports `Consumed` where the client holds the log."""

    def deliver(self, stream: str, what: Any) -> None:
        """Take stable or tentative tuples, an UNDO, a REC_DONE or skipped buckets."""
        ...


class NodePort(Protocol):
    """The port that all hosts of a node share."""

    def send(self, sender: str, to: str, message: Message) -> None:
        """Send a message of a machine; it may be lost."""
        ...

    def set_timer(self, machine: str, effect: SetTimer) -> None:
        """Set a timer by the node's clock; reports `TimerFired` once."""
        ...

    def shares_logs(self, machine: str) -> bool:
        """Whether a machine runs on this node and reads its logs without a copy."""
        ...

    def phase_changed(self, machine: str, effect: AnnouncePhase) -> None:
        """Announce a phase change to observers."""
        ...

    def logs_differ(self, machine: str, effect: AnnounceDifference) -> None:
        """Announce to observers that logs that should be equal differ, or agree again."""
        ...

    def state_lost(self, machine: str, effect: AnnounceLoss) -> None:
        """Announce to observers that an output cannot go on, since its state is lost for good."""
        ...

    def source_went_back(self, machine: str, effect: AnnounceWentBack) -> None:
        """Announce to observers that the log of a source has gone back, or no longer."""
        ...

    def log_damaged(self, machine: str, stream: str, error: Damaged) -> None:
        """Announce to observers that a bucket of a log is damaged; reports `LogDamaged`."""
        ...

    def lease_changed(self, machine: str, effect: AnnounceLease) -> None:
        """Announce to observers that a log no longer waits for a consumer, or does so again."""
        ...

    def clock_is_off(self, machine: str, effect: AnnounceClock) -> None:
        """Announce to observers that another node's clock is off beyond the bound, or no longer."""
        ...
