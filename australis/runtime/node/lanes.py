"""The interface between a replica's host and an engine.

An engine owns the durable half of an output: its log and the checkpoint of the lane
that fills it. It works on threads of its own and reports each completion as the event
for which the machine waits.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from australis.deployment.cluster import LOOPBACK
from australis.kernel.machine import Event
from australis.protocols.dpc.effects import (
    Checkpoint,
    DropLane,
    ForkLane,
    RestoredLog,
    RunStable,
    RunTentative,
    SkipAhead,
)
from australis.runtime.logs import SharedLog
from australis.runtime.node.damaged import OnDamaged
from australis.runtime.node.events import Tell, tell_nobody
from australis.streams.log import SEGMENT_BYTES

ROWS_PER_BATCH = 1 << 20
"""The largest number of tuples in a micro-batch, unless one bucket alone has more."""
Report = Callable[[Event], None]


def _nothing() -> None:
    """The default of callbacks: do nothing."""


@dataclass(frozen=True)
class LaneSettings:
    """The settings and callbacks that a node gives its lanes."""

    warm: bool = True
    """Whether a warm query stands behind each stable one, for tentative lanes."""
    alone: bool = False
    """Whether no other replica can give its state if the checkpoint is lost."""
    rows_per_batch: int = ROWS_PER_BATCH
    segment_bytes: Callable[[str], int] = lambda stream: SEGMENT_BYTES
    """The size of the segments of each stream's log."""
    host: str = LOOPBACK
    """The address at which Spark's processes reach this process."""
    on_step: Callable[[str], None] = lambda step: None
    """Told what is being started."""
    on_restarted: Callable[[], None] = _nothing
    """Called when a query had to be restarted."""
    settled: Callable[[], AbstractContextManager[None]] = nullcontext
    """The context in which queries are started with the Spark settings that they need."""
    tell: Tell = tell_nobody
    """The function that records events."""
    on_damaged: OnDamaged = lambda stream, error, directory, to: None
    """Told what was found damaged, and where it was set aside."""
    on_append: Callable[[], None] = _nothing
    """Called when a log has grown."""


class Lanes(Protocol):
    """The lanes of one replica: for each output a stable one, and at times a tentative one."""

    def log(self, output: str) -> SharedLog:
        """The stable log of an output."""
        ...

    def restore(self, output: str, base: int) -> RestoredLog:
        """Restore an output from disk; a new output begins after the bucket `base`.

        One whose files are damaged, or do not fit each other, is set aside and begins as new.
        """
        ...

    def start(self, report: Report) -> None:
        """Start the lanes; they report each completion by `report`."""
        ...

    def run_stable(self, effect: RunStable) -> None:
        """Process stable buckets, and append the results after `keep_after` to the log."""
        ...

    def checkpoint(self, effect: Checkpoint) -> None:
        """Make the current state of the stable lane durable."""
        ...

    def fork(self, effect: ForkLane) -> None:
        """Fork a tentative lane from the current state of the stable one."""
        ...

    def run_tentative(self, effect: RunTentative) -> None:
        """Process one bucket on the tentative lane."""
        ...

    def drop(self, effect: DropLane) -> None:
        """End the tentative lane."""
        ...

    def skip(self, effect: SkipAhead) -> None:
        """Restart the stable lane with an empty state, and its log where that is right again.

        After a crash in the middle the log begins there, or the output is as new, so that nothing
        computed from the empty state is in the log before that bucket.
        """
        ...

    @property
    def started(self) -> bool:
        """Whether all stable lanes are ready to work."""
        ...

    def unread(self, stream: str, log: SharedLog) -> int:
        """The number of tuples of an input that the slowest of its lanes has not processed."""
        ...

    def snapshot(self, output: str, to: Path) -> int:
        """Write the latest checkpoint into a directory; returns the last bucket it covers.

        One of its files is the log up to there (see `excerpt`).
        """
        ...

    def install(self, output: str, upto: int, files: Path, ahead_us: int = 0) -> int:
        """Continue from a replica's checkpoint and log; returns the log's `trimmed_upto`.

        This node's clock is ahead of the one by which that log has its entry times.
        The lanes own the files in the directory from then on.
        """
        ...

    def rejected(self, output: str) -> int:
        """The number of rows of its inputs that an output leaves out, since functions raise on them."""
        ...

    def stalled_s(self, output: str) -> float | None:
        """The time that the stable lane has made no progress; None if it is not stalled."""
        ...

    def close(self) -> None:
        """Stop the lanes; everything that was reported stays durable."""
        ...
