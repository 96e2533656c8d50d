"""What the queries of a node work on, and what they hand over: the answers to Spark.

A query asks how far it may go, reads merged buckets, stages what its tasks put out and
commits whole micro-batches (`spark.port`). It may go as far as `allowed`; who may go how
far, and what becomes of a committed batch, is said in `spark_lanes`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from australis.diagram.fragments import Plan
from australis.live.node.lanes import Inputs
from australis.spark.checkpoint import batch_offsets
from australis.spark.lane import Lane
from australis.streams.buckets import Buckets
from australis.streams.release import BEFORE_ALL, Batch, Release, bucket_at, share
from australis.streams.schema import Schema
from australis.streams.soutput import OutputState, SOutput
from australis.streams.sunion import MergedSchema, SUnion

ROWS_PER_BATCH = 1 << 20
"""A micro-batch takes at most so many tuples, but always a whole bucket."""
CHUNK_ROWS = 1 << 14
"""So many tuples, or a whole bucket, are merged and sent at a time."""
IDLE_S = 0.1
"""A query that has nothing to do is not answered before something has changed, or so long."""

Finished = list[tuple[int, pa.RecordBatch]]
"""Buckets of an output that are complete."""


class Dropped(Exception):
    """A query asks that is about to end: nothing is wrong."""


@dataclass
class Query:
    """One query: what it may work on, and how far it is."""

    name: str
    buckets: Buckets
    union: SUnion
    release: Release
    output: SOutput
    checkpoint: Path
    at: int
    """The last bucket it has taken in."""
    allowed: int
    """The last bucket it may take in."""
    work: dict[int, Inputs] = field(default_factory=dict)
    """The buckets after `at` that are here."""
    staged: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    batch_id: int = -1
    """The last micro-batch it has committed."""
    lane: Lane | None = None
    held: bool = False
    """It takes in nothing more for the moment."""
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
    ) -> Query:
        """A query of a plan that goes on behind a bucket."""
        emits = plan.emits_on_watermark
        release = Release(name, buckets, rows_per_batch=ROWS_PER_BATCH, emits_on_watermark=emits)
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
            batch_id=output.state.batch_id,
        )

    def rows_between(self, after: int, upto: int) -> int:
        """How many tuples the buckets (after, upto] hold."""
        return _rows(self.work, after, upto)

    @property
    def complete(self) -> bool:
        """Whether its output reaches as far as its input: no empty batch is to follow."""
        return self.output.state.frontier_us >= self.buckets.end(self.at)

    @property
    def closed_upto(self) -> int:
        """The last bucket of its output that is complete."""
        return self.buckets.closed_by(self.output.state.frontier_us)

    def took(self, upto: int) -> None:
        """It has taken in the buckets up to this one."""
        self.at = max(self.at, upto)
        self.allowed = max(self.allowed, self.at)
        for number in [n for n in self.work if n <= self.at]:
            del self.work[number]

    def batch(self, batch_id: int) -> Batch:
        """What Spark's checkpoint says of a micro-batch."""
        now = batch_offsets(self.checkpoint, batch_id)
        after = batch_offsets(self.checkpoint, batch_id - 1).upto if batch_id > 0 else BEFORE_ALL
        return self.release.batch(batch_id, after, now.upto, now.watermark_us)


class Work:
    """All queries of a replica, as Spark's processes see them (`live.flight.Served`)."""

    def __init__(
        self,
        on_asked: Callable[[Query], None],
        on_commit: Callable[[Query, Finished, OutputState | None], None],
    ) -> None:
        """`on_commit` is told what a batch has completed and the state to remember with it, which
        is None if the batch had been committed before."""
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
            return query.release.latest(after, reader, allowed, query.rows_between, False)

    def rows(self, name: str, after: int, upto: int) -> int:
        """How many tuples the buckets (after, upto] hold."""
        with self.changed:
            self._await(name, upto)
            return self._known(name).rows_between(after, upto)

    def _await(self, name: str, upto: int) -> None:
        """A batch that was begun before a crash is repeated as soon as its inputs are here."""
        while self._known(name).allowed < upto:
            self.changed.wait(IDLE_S)

    def read(
        self, name: str, after: int, upto: int, part: int, parts: int
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """One part of the merged buckets; a boundary row ends the last."""
        with self.changed:
            self._await(name, upto)
            query = self._known(name)
            low, high = share(after, upto, part, parts, query.rows_between)
            work = {n: w for n, w in query.work.items() if low < n <= high}
        boundary = upto if part == parts - 1 else None
        return query.union.schema.arrow, _merged(query, work, low, high, boundary)

    def processed(self, name: str, upto: int) -> None:
        """Spark's own checkpoint says what is durable."""

    # --- the writing end ------------------------------------------------------------------

    def stage(self, name: str, batches: Sequence[pa.RecordBatch]) -> str:
        """Keep one task's rows until its micro-batch is committed."""
        staged = f"{name}/{next(self._names)}"
        with self.changed:
            self._known(name).staged[staged] = list(batches)
        return staged

    def abort(self, name: str, staged: Sequence[str]) -> None:
        """Forget the rows of a micro-batch that failed."""
        with self.changed:
            query = self.lanes.get(name)
            for one in staged:
                if query is not None:
                    query.staged.pop(one, None)

    def commit(self, name: str, batch_id: int, staged: Sequence[str]) -> None:
        """A micro-batch is complete."""
        with self.changed:
            query = self._known(name)
            rows = [batch for one in staged for batch in query.staged[one]]
            query.staged.clear()
            batch = query.batch(batch_id)
            covers = (batch.after, batch.upto)
            step = query.output.commit(batch_id, rows, batch.frontier_us, covers)
            query.batch_id = batch_id
            query.took(batch.upto)
            finished, state = ([], None) if step is None else (step.buckets, step.state)
            self._on_commit(query, finished, state)
            self.changed.notify_all()


def _merged(
    query: Query, work: dict[int, Inputs], after: int, upto: int, boundary: int | None
) -> Iterator[pa.RecordBatch]:
    while work and after < upto:
        end = bucket_at(after, upto, CHUNK_ROWS, lambda low, high: _rows(work, low, high))
        mine = [work.pop(n) for n in sorted(work) if n <= end]
        if mine:
            columns = zip(*mine, strict=True)
            inputs = [[batch for batch in column if batch is not None] for column in columns]
            yield from query.union.merge(inputs).combine_chunks().to_batches()
        after = end
    if boundary is not None:
        yield query.union.boundary(query.buckets.end(boundary))


def _rows(work: dict[int, Inputs], after: int, upto: int) -> int:
    return sum(
        batch.num_rows
        for number, inputs in work.items()
        if after < number <= upto
        for batch in inputs
        if batch is not None
    )
