"""The inputs and outputs of a node's queries: the answers to Spark's processes.

A query asks how far it may read, reads merged buckets, stages the rows of its tasks and
commits whole micro-batches (`spark.port`). It may read as far as `allowed`; `spark_lanes`
sets that limit, and processes committed batches.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from australis.diagram.fragments import Plan
from australis.runtime.node.held import FindLog, HeldInputs
from australis.runtime.node.lanes import ROWS_PER_BATCH
from australis.runtime.node.manifest import Manifest
from australis.runtime.node.quarantine import Quarantine
from australis.spark.checkpoint import batch_offsets
from australis.spark.lane import Lane
from australis.streams.buckets import END_OF_STREAM_US, Buckets
from australis.streams.release import BEFORE_ALL, Batch, Release, bucket_at, share
from australis.streams.schema import Schema
from australis.streams.soutput import OutputState, SOutput
from australis.streams.sunion import MergedSchema, SUnion

CHUNK_ROWS = 1 << 14
"""The number of tuples, or at least one whole bucket, that are merged and sent at a time."""
IDLE_S = 0.1
"""The longest time that an idle query waits for a change before it is answered."""

Finished = list[tuple[int, pa.RecordBatch]]
"""The complete buckets of an output."""


class Dropped(Exception):
    """The query that asks is about to end, which is no error."""


@dataclass
class Query:
    """One query: its inputs and its progress."""

    name: str
    buckets: Buckets
    union: SUnion
    release: Release
    output: SOutput
    checkpoint: Path
    at: int
    """The last bucket that the query has read."""
    allowed: int
    """The last bucket that the query may read."""
    work: HeldInputs
    """The buckets after `at` that have arrived."""
    files: Manifest
    """The checksums of the files of its checkpoint."""
    quarantine: Quarantine
    """The rows that it leaves out."""
    staged: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    batch_id: int = -1
    """The last micro-batch that the query has committed."""
    lane: Lane | None = None
    has_read: bool = False
    has_written: bool = False
    """Whether the query has read rows, and committed some, since it was started."""
    held: bool = False
    """Whether the query is held back from reading more for the moment."""
    closed: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        plan: Plan,
        merged: MergedSchema,
        schema: Schema,
        buckets: Buckets,
        state: OutputState | None,
        checkpoint: Path,
        at: int,
        find_log: FindLog,
        quarantine: Quarantine,
        rows_per_batch: int = ROWS_PER_BATCH,
    ) -> Query:
        """A query of a plan that continues after a bucket."""
        emits = plan.may_emit_on_watermark
        release = Release(name, buckets, rows_per_batch=rows_per_batch, emits_on_watermark=emits)
        output = SOutput(schema, buckets, state)
        union = SUnion(merged, buckets)
        return cls(
            name,
            buckets,
            union,
            release,
            output,
            checkpoint,
            at,
            at,
            HeldInputs(plan.inputs, find_log),
            Manifest(checkpoint),
            quarantine,
            batch_id=output.state.batch_id,
        )

    def rows_between(self, after: int, upto: int) -> int:
        """How many tuples the buckets (after, upto] hold."""
        return self.work.rows_between(after, upto)

    @property
    def complete(self) -> bool:
        """Whether its output reaches as far as its input: no empty batch is to follow."""
        return self.output.state.frontier_us >= self.buckets.end(self.at)

    @property
    def ended(self) -> bool:
        """Whether its output is complete for good."""
        return self.output.state.frontier_us >= END_OF_STREAM_US

    @property
    def closed_upto(self) -> int:
        """The last bucket of its output that is complete."""
        return self.buckets.closed_by(self.output.state.frontier_us)

    def took(self, upto: int) -> None:
        """Note that the query has read the buckets up to this one."""
        self.at = max(self.at, upto)
        self.allowed = max(self.allowed, self.at)
        self.work.forget(self.at)

    def batch(self, batch_id: int) -> Batch:
        """The description of a micro-batch in Spark's checkpoint."""
        now = batch_offsets(self.checkpoint, batch_id)
        after = batch_offsets(self.checkpoint, batch_id - 1).upto if batch_id > 0 else BEFORE_ALL
        return self.release.batch(batch_id, after, now.upto, now.watermark_us)


class Work:
    """All queries of a replica, as Spark's processes see them (`runtime.flight.Served`)."""

    def __init__(
        self,
        on_asked: Callable[[Query], None],
        on_commit: Callable[[Query, Finished, OutputState | None], None],
    ) -> None:
        """The work of queries whose commits are handed to `on_commit`: the buckets that a batch
        has completed and the state to store with them, which is None if the batch had been
        committed before."""
        self.lanes: dict[str, Query] = {}
        self.changed = threading.Condition(threading.RLock())
        self._on_asked = on_asked
        self._on_commit = on_commit
        self._names = itertools.count()

    def _known(self, name: str) -> Query:
        query = self.lanes.get(name)
        if query is None or query.closed:
            raise Dropped(f"the lane '{name}' has been dropped")
        return query

    # --- the reading end ------------------------------------------------------------------

    def latest(self, name: str, after: int, reader: str) -> int:
        """The last bucket a query may process next."""
        with self.changed:
            query = self._known(name)
            self._on_asked(query)
            if (query.allowed <= after or query.held) and query.complete:
                self.changed.wait(IDLE_S)
                self._known(name)
            allowed = min(after, query.allowed) if query.held else query.allowed
            return query.release.latest(after, reader, allowed, query.rows_between, query.ended)

    def rows(self, name: str, after: int, upto: int) -> int:
        """How many tuples the buckets (after, upto] hold."""
        with self.changed:
            self._await(name, upto)
            return self._known(name).rows_between(after, upto)

    def _await(self, name: str, upto: int) -> None:
        """Wait for the inputs of a batch that was begun before a crash and is repeated."""
        while (query := self._known(name)).allowed < min(upto, query.buckets.last):
            self.changed.wait(IDLE_S)

    def read(
        self, name: str, after: int, upto: int, part: int, parts: int
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """One part of the merged buckets; a boundary row ends the last part."""
        with self.changed:
            self._await(name, upto)
            query = self._known(name)
            low, high = share(after, upto, part, parts, query.rows_between)
            query.has_read = True
            work = query.work.between(low, high)
        boundary = upto if part == parts - 1 else None
        return query.union.schema.arrow, _merged(query, work, low, high, boundary)

    # --- the writing end ------------------------------------------------------------------

    def stage(self, name: str, batches: Sequence[pa.RecordBatch]) -> str:
        """Keep one task's rows until its micro-batch is committed."""
        staged = f"{name}/{next(self._names)}"
        with self.changed:
            self._known(name).staged[staged] = list(batches)
        return staged

    def abort(self, name: str, staged: Sequence[str]) -> None:
        """Drop the staged rows of a micro-batch that failed."""
        with self.changed:
            query = self.lanes.get(name)
            for one in staged:
                if query is not None:
                    query.staged.pop(one, None)

    def commit(self, name: str, batch_id: int, staged: Sequence[str]) -> None:
        """Commit a micro-batch that is complete."""
        with self.changed:
            query = self._known(name)
            rows = [batch for one in staged for batch in query.staged[one]]
            query.staged.clear()
            batch = query.batch(batch_id)
            covers = (batch.after, batch.upto)
            step = query.output.commit(batch_id, rows, batch.frontier_us, covers)
            query.batch_id = batch_id
            query.has_written = True
            query.took(batch.upto)
            finished, state = ([], None) if step is None else (step.buckets, step.state)
            self._on_commit(query, finished, state)
            self.changed.notify_all()


def _merged(
    query: Query, work: HeldInputs, after: int, upto: int, boundary: int | None
) -> Iterator[pa.RecordBatch]:
    while after < upto:
        end = bucket_at(after, upto, CHUNK_ROWS, work.rows_between)
        merged = query.quarantine.without(query.union.merge(work.read(after, end)))
        yield from merged.combine_chunks().to_batches()
        work.forget(end)
        after = end
    if boundary is not None:
        yield query.union.boundary(query.buckets.end(boundary))
