"""A node's disk as DPC sees it: the log of a stream and the checkpoint of its lane.

What was appended but not synced is lost in a crash, except for a prefix that
happened to reach the platter; a record that was torn is not there (the log's own
tests show that it is recognised, `tests/streams`).
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from australis.protocols.dpc.effects import LaneRestored
from australis.protocols.dpc.messages import Bucket


class SimLog:
    """The stable log of one stream."""

    def __init__(self) -> None:
        self.begins = -1
        self.end = -1
        self._buckets: dict[int, Bucket] = {}
        self._synced = -1

    def append(self, buckets: Iterable[Bucket]) -> None:
        """Add buckets, in order; they are durable after `sync`."""
        for bucket in buckets:
            assert bucket.number == self.end + 1, f"{bucket.number} after {self.end}"
            self._buckets[bucket.number] = bucket
            self.end = bucket.number

    def sync(self) -> None:
        """Make everything durable."""
        self._synced = self.end

    def read(self, after: int, upto: int) -> tuple[Bucket, ...]:
        """The buckets (after, upto]."""
        return tuple(self._buckets[n] for n in range(after + 1, upto + 1))

    def truncate(self, upto: int) -> None:
        """Forget the buckets up to this one."""
        for number in range(self.begins + 1, upto + 1):
            del self._buckets[number]
        self.begins = max(self.begins, upto)

    def begin_at(self, bucket: int) -> None:
        """Start anew behind this bucket."""
        self._buckets.clear()
        self.begins = self.end = self._synced = bucket

    def crash(self, rng: Random) -> None:
        """Lose what was not synced, up to a record that happened to survive."""
        kept = rng.randint(self._synced, self.end)
        for number in range(kept + 1, self.end + 1):
            del self._buckets[number]
        self.end = self._synced = kept

    def __len__(self) -> int:
        return len(self._buckets)


class LaneStore:
    """A stream's log and the checkpoint of the lane that computes it."""

    def __init__(self, state: Any) -> None:
        self.log = SimLog()
        self.upto = -1
        self.state = state
        self.lost = False

    def checkpoint(self, state: Any, upto: int) -> None:
        """Replace the checkpoint, durably."""
        self.state, self.upto = state, upto

    def snapshot(self) -> tuple[Any, tuple[Bucket, ...]]:
        """The checkpoint, and the log up to there."""
        return self.state, self.log.read(self.log.begins, max(self.log.begins, self.upto))

    def install(self, snapshot: tuple[Any, tuple[Bucket, ...]], upto: int) -> None:
        """Begin with a replica's state and its log."""
        state, buckets = snapshot
        self.checkpoint(state, upto)
        self.log.begin_at(upto - len(buckets))
        self.log.append(buckets)
        self.log.sync()
        self.lost = False

    def wipe(self, state: Any) -> None:
        """Lose everything."""
        self.log = SimLog()
        self.state, self.upto = state, -1
        self.lost = True

    def restored(self, stream: str) -> LaneRestored:
        """What a node that starts finds here."""
        return LaneRestored(stream, self.upto, self.log.begins, self.log.end)
