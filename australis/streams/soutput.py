"""SOutput's pure half: what a finished micro-batch adds to the stable log.

Spark delivers the rows of a micro-batch in any order and grouping. SOutput
appends those at or below the output's *frontier*, in canonical order, and holds
the others back until the frontier has passed them; so the log does not depend
on how the input was cut into batches. Held rows, frontier and batch id are one
`OutputState`, which the log writes together with the rows (thesis 4.7.2; here
it also removes duplicates after a restart, by batch id).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from australis.kernel.errors import Stopped
from australis.streams.buckets import Buckets
from australis.streams.canonical import by_bucket, canonical_order
from australis.streams.schema import TIMESTAMP, Schema


@dataclass(frozen=True)
class OutputState:
    """The state of SOutput that must survive a crash."""

    batch_id: int
    frontier_us: int
    held: pa.Table
    after: int = -1
    upto: int = -1
    """The last input bucket of the batch, which covered (after, upto]."""
    began: int = -1
    """The bucket after which the lane began, if it began behind inputs that are gone."""


@dataclass(frozen=True)
class OutputStep:
    """One append: the finished buckets, and the state after them."""

    buckets: list[tuple[int, pa.RecordBatch]]
    state: OutputState


class SOutput:
    """Turns micro-batches into appends; two batchings of one input give one log."""

    def __init__(self, schema: Schema, buckets: Buckets, state: OutputState | None = None) -> None:
        self._schema = schema
        self._buckets = buckets
        self._columns = pa.schema([pa.field("_stime", TIMESTAMP), *schema.attributes])
        self.state = state or OutputState(-1, 0, self._columns.empty_table())

    @property
    def row_schema(self) -> pa.Schema:
        """The Arrow schema of the rows that `commit` takes."""
        return self._columns

    def commit(
        self,
        batch_id: int,
        rows: Sequence[pa.RecordBatch],
        frontier_us: int,
        covers: tuple[int, int] | None = None,
    ) -> OutputStep | None:
        """The append for this micro-batch, or None if it was appended before.

        `covers` are the input's buckets (after, upto] that it processed. They must follow those
        of the batch before: this detects a checkpoint that was lost or restored.
        """
        after, upto = covers or (self.state.upto, self.state.upto)
        repeated = batch_id <= self.state.batch_id
        known = (self.state.batch_id, self.state.after, self.state.upto)
        if covers and (known != (batch_id, after, upto) if repeated else after != self.state.upto):
            raise Stopped(
                f"the checkpoint does not fit the log: micro-batch {batch_id} covers buckets"
                f" {after} to {upto}, but the log has batch {known[0]} up to bucket {known[2]}"
            )
        if repeated:
            return None
        frontier_us = max(frontier_us, self.state.frontier_us)
        new = pa.Table.from_batches([b.cast(self._columns) for b in rows], self._columns)
        self._refuse_published(new)
        table = pa.concat_tables([self.state.held, new])
        ready = pc.less_equal(table.column("_stime"), pa.scalar(frontier_us, TIMESTAMP))
        done, held = table.filter(ready), table.filter(pc.invert(ready))
        cut = by_bucket(done, canonical_order(done), self._schema, self._buckets)
        step = OutputStep(
            cut,
            OutputState(
                batch_id, frontier_us, held.combine_chunks(), after, upto, self.state.began
            ),
        )
        self.state = step.state
        return step

    def _refuse_published(self, rows: pa.Table) -> None:
        stimes = rows.column("_stime")
        if stimes.null_count:
            raise Stopped("an output tuple has no _stime")
        if rows.num_rows and pc.min(stimes).value <= self.state.frontier_us:
            raise Stopped(
                "an output tuple lies at or before the published boundary"
                f" ({pc.min(stimes).value} <= {self.state.frontier_us}):"
                " an operator produced it too late, so replicas could differ"
            )
