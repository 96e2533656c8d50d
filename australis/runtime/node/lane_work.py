"""The work requested of a replica's lanes, the entries that requested it, and its counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from australis.kernel.machine import Effect, Event
from australis.protocols.dpc.effects import (
    Checkpoint,
    Checkpointed,
    DropLane,
    ForkLane,
    RunStable,
    RunTentative,
    SkipAhead,
    SkippedAhead,
    StableDone,
    TentativeDone,
)
from australis.runtime.node.entries import NO_ENTRY, no_entries


@dataclass
class LaneCounts:
    """The work that the lanes of one output have done since the node started."""

    micro_batches: int = 0
    stable_s: float = 0.0
    """The total time that stable micro-batches took, from request to completion."""
    forks: int = 0
    tentative_buckets: int = 0
    tentative_tuples: int = 0


@dataclass
class _Asked:
    """The entries that requested work which is not done yet."""

    stable: tuple[str, float] | None = None
    checkpoint: str = NO_ENTRY
    skip: str = NO_ENTRY
    tentative: dict[int, str] = field(default_factory=dict)


class LaneWork:
    """The work of all lanes of one replica, recorded per piece of work, never per tuple."""

    def __init__(
        self,
        outputs: Iterable[str] = (),
        entry: Callable[[], str] = no_entries,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A record that takes the entry being handled now from `entry`."""
        self._entry = entry
        self._clock = clock
        self.counts = {output: LaneCounts() for output in outputs}
        self._asked = {output: _Asked() for output in self.counts}

    def asked(self, effect: Effect) -> None:
        """Record a piece of work that a machine requests."""
        match effect:
            case RunStable(output=output):
                self._asked[output].stable = self._entry(), self._clock()
            case Checkpoint(output=output):
                self._asked[output].checkpoint = self._entry()
            case SkipAhead(output=output):
                self._asked[output].skip = self._entry()
            case ForkLane(output=output):
                self._asked[output].tentative = {}
                self.counts[output].forks += 1
            case RunTentative(output=output, bucket=bucket):
                self._asked[output].tentative[bucket] = self._entry()
            case DropLane(output=output):
                self._asked[output].tentative = {}

    def done(self, event: Event) -> str:
        """Record a completed piece of work; returns the entry that requested it."""
        match event:
            case StableDone(output=output):
                return self._stable_done(output)
            case Checkpointed(output=output):
                return self._asked[output].checkpoint
            case SkippedAhead(output=output):
                return self._asked[output].skip
            case TentativeDone(output=output, bucket=bucket, batch=batch):
                counts = self.counts[output]
                counts.tentative_buckets += 1
                counts.tentative_tuples += 0 if batch is None else batch.num_rows
                return self._asked[output].tentative.pop(bucket, NO_ENTRY)
        return NO_ENTRY

    def _stable_done(self, output: str) -> str:
        asked, self._asked[output].stable = self._asked[output].stable, None
        counts = self.counts[output]
        counts.micro_batches += 1
        if asked is None:  # a batch that was begun before a crash
            return NO_ENTRY
        entry, began = asked
        counts.stable_s += self._clock() - began
        return entry
