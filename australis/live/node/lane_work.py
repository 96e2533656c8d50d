"""What was asked of a replica's lanes, by which entry, and how much they have done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from australis.kernel.machine import Effect, Event
from australis.live.node.entries import NO_ENTRY, no_entries
from australis.protocols.dpc.effects import (
    Checkpoint,
    Checkpointed,
    DropLane,
    ForkLane,
    RunStable,
    RunTentative,
    StableDone,
    TentativeDone,
)


@dataclass
class LaneCounts:
    """What the lanes of one output have done since the node started."""

    micro_batches: int = 0
    stable_s: float = 0.0
    """How long they took, from when they were asked for."""
    forks: int = 0
    tentative_buckets: int = 0
    tentative_tuples: int = 0


@dataclass
class _Asked:
    """The entries that asked for what is not done yet."""

    stable: tuple[str, float] | None = None
    checkpoint: str = NO_ENTRY
    tentative: dict[int, str] = field(default_factory=dict)


class LaneWork:
    """The work of all lanes of one replica; once for each piece of it, never for a tuple."""

    def __init__(
        self,
        outputs: Iterable[str] = (),
        entry: Callable[[], str] = no_entries,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`entry` is what is being handled now."""
        self._entry = entry
        self._clock = clock
        self.counts = {output: LaneCounts() for output in outputs}
        self._asked = {output: _Asked() for output in self.counts}

    def asked(self, effect: Effect) -> None:
        """A machine has asked for a piece of work."""
        match effect:
            case RunStable(output=output):
                self._asked[output].stable = self._entry(), self._clock()
            case Checkpoint(output=output):
                self._asked[output].checkpoint = self._entry()
            case ForkLane(output=output):
                self._asked[output].tentative = {}
                self.counts[output].forks += 1
            case RunTentative(output=output, bucket=bucket):
                self._asked[output].tentative[bucket] = self._entry()
            case DropLane(output=output):
                self._asked[output].tentative = {}

    def done(self, event: Event) -> str:
        """A lane reports a piece of work; the entry that asked for it."""
        match event:
            case StableDone(output=output):
                return self._stable_done(output)
            case Checkpointed(output=output):
                return self._asked[output].checkpoint
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
