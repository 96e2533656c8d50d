"""The current tuples of a stream: the sum of the changes of a subscription.

Stable tuples, in order, and after them the tentative ones that have not been revoked;
`_type` tells them apart. Only the last ones are kept, by number or by time, with at most
`LOOSE` buckets more. This module knows neither threads nor clusters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa

from australis.kernel.durations import parse_duration
from australis.kernel.errors import UserError
from australis.kernel.ids import MAX_RANK, pack_id
from australis.runtime.client import Change, ChangeKind
from australis.streams.buckets import Buckets
from australis.streams.schema import TupleType

MISSING = pa.field("_missing", pa.list_(pa.string()))
"""The column with the names of the sources of which something is missing in a tentative tuple."""
LOOSE = 64
"""The number of batches that are merged into one at a time, since small batches waste memory."""


@dataclass(frozen=True)
class Keep:
    """The tuples to keep: the last `tuples` ones, or those of the last `buckets` buckets."""

    tuples: int | None = None
    buckets: int | None = None

    @classmethod
    def of(cls, last: int | str, buckets: Buckets) -> Keep:
        """Parse `last`: a number of tuples, or a duration."""
        if isinstance(last, str):
            span = parse_duration(last)
            keep = cls(buckets=-(-span // buckets.size_us))
        else:
            keep = cls(tuples=last)
        if (keep.tuples or keep.buckets or 0) < 1:
            raise UserError(f"should keep at least one tuple, not {last!r}", name="last")
        return keep

    def cut(self, newest: int) -> int:
        """The last bucket that is not kept when this is the newest one."""
        return -1 if self.buckets is None else newest - self.buckets


class Contents:
    """Applies one change after the other to the current `table`."""

    def __init__(self, schema: pa.Schema, keep: Keep, *, missing: bool = False) -> None:
        """An empty table; with `missing` it has the column `_missing`."""
        self._missing = missing
        self.skipped = 0
        """The number of buckets that are missing because no log had them any more."""
        self._schema = schema.append(MISSING) if missing else schema
        self._keep = keep
        self._stable = _Run(keep)
        self._tentative = _Run(keep)

    def apply(self, change: Change) -> bool:
        """Apply a change; returns whether the table may have changed."""
        batch = _with_missing(change) if self._missing else change.batch
        before = self._stable.rows, self._tentative.rows, self._keep.cut(self._tentative.upto)
        match change.kind:
            case ChangeKind.INSERTION:
                self._tentative.drop(change.bucket)
                self._stable.add(change.bucket, batch)
            case ChangeKind.TENTATIVE:
                self._tentative.add(change.bucket, _marked(batch))
            case ChangeKind.UNDO | ChangeKind.REC_DONE:
                self._tentative = _Run(self._keep)
            case ChangeKind.SKIPPED:
                self._skip(change.bucket)
        now = self._stable.rows, self._tentative.rows, self._keep.cut(self._tentative.upto)
        return bool(change.rows) or before != now

    def _skip(self, upto: int) -> None:
        if self._stable.upto >= 0:
            self.skipped += max(0, upto - self._stable.upto)
        self._tentative.drop(upto)
        self._stable.add(upto, None)

    @property
    def upto(self) -> int:
        """The last stable bucket; -1 before the first one."""
        return self._stable.upto

    @property
    def tentative(self) -> int:
        """The number of tentative tuples."""
        most = self._keep.tuples
        return self._tentative.rows if most is None else min(self._tentative.rows, most)

    def table(self) -> pa.Table:
        """The current tuples."""
        cut = self._keep.cut(max(self._stable.upto, self._tentative.upto))
        runs = (self._stable, self._tentative)
        table = pa.Table.from_batches([b for r in runs for b in r.behind(cut)], self._schema)
        surplus = 0 if self._keep.tuples is None else table.num_rows - self._keep.tuples
        return table.slice(max(0, surplus))


class _Run:
    """A run of tuples in order, from which the oldest ones are dropped."""

    def __init__(self, keep: Keep) -> None:
        self.upto = -1
        self.rows = 0
        self._keep = keep
        self._batches: deque[pa.RecordBatch] = deque()
        self._loose = 0
        """The number of the last batches that have not been merged."""

    def add(self, bucket: int, batch: pa.RecordBatch | None) -> None:
        """Append the next bucket."""
        self.upto = bucket
        if batch is not None and batch.num_rows:
            self._batches.append(batch)
            self.rows += batch.num_rows
            self._loose += 1
            if self._loose == LOOSE:
                self._put_together()
        self._trim()

    def _put_together(self) -> None:
        loose = [self._batches.pop() for _ in range(min(LOOSE, len(self._batches)))]
        self._batches.append(pa.concat_batches(loose[::-1]))
        self._loose = 0

    def _trim(self) -> None:
        self.drop(self._keep.cut(self.upto))
        most = self._keep.tuples
        while most is not None and self._batches and self.rows - len(self._batches[0]) >= most:
            self.rows -= len(self._batches.popleft())

    def drop(self, upto: int) -> None:
        """Drop the buckets up to this one."""
        while self._batches and _first_behind(self._batches[0], upto) == len(self._batches[0]):
            self.rows -= len(self._batches.popleft())
        if self._batches and (first := _first_behind(self._batches[0], upto)):
            self._batches[0] = self._batches[0].slice(first)
            self.rows -= first

    def behind(self, bucket: int) -> Iterator[pa.RecordBatch]:
        """The tuples after this bucket."""
        for i, batch in enumerate(self._batches):
            first = _first_behind(batch, bucket)
            if first < len(batch):
                yield batch.slice(first)
                yield from islice(self._batches, i + 1, None)
                return


def _first_behind(batch: pa.RecordBatch, bucket: int) -> int:
    """The index of the first tuple after a bucket; ids grow along a stream."""
    if bucket < 0:
        return 0
    ids = batch.column("_id").to_numpy()
    return int(np.searchsorted(ids, pack_id(bucket, MAX_RANK), side="right"))


def _with_missing(change: Change) -> pa.RecordBatch | None:
    """The tuples of a change, each with the sources that are missing in it."""
    batch, missing = change.batch, change.missing
    if batch is None:
        return None
    ends = np.arange(len(batch) + 1, dtype=np.int32) * len(missing)
    names = pa.array(missing * len(batch), pa.string())
    return batch.append_column(MISSING, pa.ListArray.from_arrays(ends, names))


def _marked(batch: pa.RecordBatch | None) -> pa.RecordBatch | None:
    """The same tuples, marked as tentative."""
    if batch is None:
        return None
    at = batch.schema.get_field_index("_type")
    kinds = pa.array(np.full(len(batch), TupleType.TENTATIVE, dtype=np.int8))
    return batch.set_column(at, batch.schema.field(at), kinds)
