"""The tuples of a stream that count now: what the changes of a subscription come to.

Stable tuples, in order, and behind them those tentative ones that have not been taken
back; `_type` tells them apart. Only the last ones are kept, by number or by time, with
at most `LOOSE` buckets more. Nothing here knows threads or clusters.
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
from australis.live.client import Change, Kind
from australis.streams.buckets import Buckets
from australis.streams.schema import TupleType

LOOSE = 64
"""So many batches wait before they are put together: small ones cost more than their tuples."""


@dataclass(frozen=True)
class Keep:
    """How much is kept: the last so many tuples, or those of the last so many buckets."""

    tuples: int | None = None
    buckets: int | None = None

    @classmethod
    def of(cls, last: int | str, buckets: Buckets) -> Keep:
        """What `last` says: a number of tuples, or a duration."""
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
    """Takes in one change after the other; `table` is what they come to."""

    def __init__(self, schema: pa.Schema, keep: Keep) -> None:
        self.skipped = 0
        """How many buckets are missing because no log had them any more."""
        self._schema = schema
        self._keep = keep
        self._stable = _Run(keep)
        self._tentative = _Run(keep)

    def apply(self, change: Change) -> bool:
        """Take in a change; whether the table is another one now, or may be."""
        before = self._stable.rows, self._tentative.rows, self._keep.cut(self._tentative.upto)
        match change.kind:
            case Kind.STABLE:
                self._tentative.drop(change.bucket)
                self._stable.add(change.bucket, change.batch)
            case Kind.TENTATIVE:
                self._tentative.add(change.bucket, _marked(change.batch))
            case Kind.UNDO | Kind.DONE:
                self._tentative = _Run(self._keep)
            case Kind.SKIPPED:
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
        """The last bucket that is stable; -1 before the first one."""
        return self._stable.upto

    @property
    def tentative(self) -> int:
        """How many of the tuples are tentative."""
        most = self._keep.tuples
        return self._tentative.rows if most is None else min(self._tentative.rows, most)

    def table(self) -> pa.Table:
        """The tuples that count now."""
        cut = self._keep.cut(max(self._stable.upto, self._tentative.upto))
        runs = (self._stable, self._tentative)
        table = pa.Table.from_batches([b for r in runs for b in r.behind(cut)], self._schema)
        surplus = 0 if self._keep.tuples is None else table.num_rows - self._keep.tuples
        return table.slice(max(0, surplus))


class _Run:
    """Tuples in order; the oldest ones go."""

    def __init__(self, keep: Keep) -> None:
        self.upto = -1
        self.rows = 0
        self._keep = keep
        self._batches: deque[pa.RecordBatch] = deque()
        self._loose = 0
        """How many of the last batches have not been put together."""

    def add(self, bucket: int, batch: pa.RecordBatch | None) -> None:
        """The next bucket."""
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
        """Let go of the buckets up to this one."""
        while self._batches and _first_behind(self._batches[0], upto) == len(self._batches[0]):
            self.rows -= len(self._batches.popleft())
        if self._batches and (first := _first_behind(self._batches[0], upto)):
            self._batches[0] = self._batches[0].slice(first)
            self.rows -= first

    def behind(self, bucket: int) -> Iterator[pa.RecordBatch]:
        """The tuples behind this bucket."""
        for i, batch in enumerate(self._batches):
            first = _first_behind(batch, bucket)
            if first < len(batch):
                yield batch.slice(first)
                yield from islice(self._batches, i + 1, None)
                return


def _first_behind(batch: pa.RecordBatch, bucket: int) -> int:
    """The place of the first tuple behind a bucket; ids grow along a stream."""
    if bucket < 0:
        return 0
    ids = batch.column("_id").to_numpy()
    return int(np.searchsorted(ids, pack_id(bucket, MAX_RANK), side="right"))


def _marked(batch: pa.RecordBatch | None) -> pa.RecordBatch | None:
    """The same tuples as tentative ones."""
    if batch is None:
        return None
    at = batch.schema.get_field_index("_type")
    kinds = pa.array(np.full(len(batch), TupleType.TENTATIVE, dtype=np.int8))
    return batch.set_column(at, batch.schema.field(at), kinds)
