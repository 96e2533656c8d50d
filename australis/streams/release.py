"""The buckets that a lane's micro-batches cover, and the frontier of their output.

A lane works in micro-batches of whole stable buckets. Spark asks how far the next one
may reach, processes it, and reports when it is done:

1. `latest` answers the question: the last bucket that every input's boundary has passed,
   or fewer buckets if they hold too many tuples.
2. `share` divides the batch's buckets among the tasks that read it.
3. `batch` checks what Spark has recorded of the batch, and gives the time up to which its
   output is complete: the frontier, up to which `SOutput` appends.

Nothing here is durable: after a restart Spark's own checkpoint says what was covered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from australis.kernel.errors import Stopped
from australis.streams.buckets import Buckets

BEFORE_ALL = -1
"""The bucket before the first one."""

RowsBetween = Callable[[int, int], int]
"""Gives the number of tuples in the buckets (after, upto] of all inputs."""


@dataclass(frozen=True)
class Batch:
    """One micro-batch: the buckets (after, upto] it covers, and the frontier of its output."""

    after: int
    upto: int
    frontier_us: int


class Release:
    """Decides which buckets the micro-batches of one lane cover."""

    def __init__(
        self, lane: str, buckets: Buckets, *, rows_per_batch: int, emits_on_watermark: bool
    ) -> None:
        self._lane = lane
        self._buckets = buckets
        self._rows_per_batch = rows_per_batch
        self.emits_on_watermark = emits_on_watermark
        """Whether Spark emits rows one micro-batch after the watermark has passed their inputs."""
        self._planned: tuple[int, int] | None = None
        """The buckets (after, upto] of the next micro-batch; `_told` are the readers told so."""
        self._told: set[str] = set()
        self._at_end = False

    def latest(
        self, after: int, reader: str, stable: int, rows_between: RowsBetween, ended: bool
    ) -> int:
        """The last bucket the lane may process next, the same for all readers of a batch.

        `stable` is the last stable bucket now, and `ended` says whether the output is complete.
        Spark reads a stream that is used twice in a query twice, and asks each reader in turn.
        Boundaries may move in between; the readers must not.
        """
        if self._planned is None or after != self._planned[0] or reader in self._told:
            self._planned = (after, self._reach(after, stable, rows_between, ended))
            self._told.clear()
        self._told.add(reader)
        return self._planned[1]

    def _reach(self, after: int, stable: int, rows_between: RowsBetween, ended: bool) -> int:
        last = self._buckets.last
        if after < last:
            return max(after, bucket_at(after, stable, self._rows_per_batch, rows_between))
        # What was held for the last boundary needs one more, empty micro-batch. Spark runs
        # one by itself where windows can close; elsewhere it asks again.
        waits = self.emits_on_watermark and self._at_end and not ended
        self._at_end = True
        return last + 1 if waits else after

    def batch(self, batch_id: int, after: int, upto: int, watermark_us: int) -> Batch:
        """A finished micro-batch over the buckets (after, upto]; `Stopped` if its watermark is wrong.

        Spark closes windows one batch after the watermark has moved. Where an operator does so,
        the output is complete up to the watermark at the batch's start, not up to its last bucket.
        """
        due_us = self._buckets.end(after)
        if watermark_us != due_us:
            raise Stopped(
                f"the lane of '{self._lane}' has a watermark of {watermark_us} in batch"
                f" {batch_id}, though the batch before ended at {due_us}"
            )
        frontier_us = due_us if self.emits_on_watermark else self._buckets.end(upto)
        return Batch(after, upto, frontier_us)


def share(
    after: int, upto: int, part: int, parts: int, rows_between: RowsBetween
) -> tuple[int, int]:
    """The buckets (after, upto] of one task out of several, about as many tuples for each."""
    total = rows_between(after, upto)

    def edge(i: int) -> int:
        return bucket_at(after, upto, total * i // parts, rows_between)

    return edge(part) if part else after, edge(part + 1) if part + 1 < parts else upto


def bucket_at(after: int, upto: int, rows: int, rows_between: RowsBetween) -> int:
    """The last bucket up to which there are at most `rows` tuples, but at least one bucket."""
    if rows_between(after, upto) <= rows:
        return upto
    low, high = after + 1, upto
    while low < high:
        middle = (low + high + 1) // 2
        if rows_between(after, middle) <= rows:
            low = middle
        else:
            high = middle - 1
    return low
