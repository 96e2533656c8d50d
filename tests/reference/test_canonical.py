"""The fast way from rows to batches writes what `streams.canonical` writes, byte for byte."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.runs import ipc
from streams.stream_data import BUCKETS, EVERYTHING, everything_rows

from australis.reference.canonical import Canonical
from australis.reference.rows import BatchReader
from australis.streams.canonical import by_bucket, canonical_order


def as_logged(rows: pa.Table) -> pa.RecordBatch:
    """The rows with a header, but not in canonical form."""
    n = rows.num_rows
    header = [pa.array(np.zeros(n, np.int8)), pa.array(np.arange(n))]
    columns = [c.combine_chunks() for c in rows.columns]
    return pa.RecordBatch.from_arrays([*header, *columns], schema=EVERYTHING.arrow)


@settings(max_examples=400, deadline=None)
@given(rows=everything_rows(max_size=12), ids=st.booleans())
def test_batches_are_byte_for_byte_canonical(rows: pa.Table, ids: bool) -> None:
    theirs = by_bucket(rows, canonical_order(rows), EVERYTHING, BUCKETS)
    read = BatchReader(EVERYTHING, ids=ids).rows([as_logged(rows)])
    ours = Canonical(EVERYTHING, BUCKETS).by_bucket(read) if read else []
    assert [bucket for bucket, _ in ours] == [bucket for bucket, _ in theirs]
    for (_, a), (_, b) in zip(ours, theirs, strict=True):
        assert a.schema == b.schema
        assert ipc(a) == ipc(b)
        a.validate(full=True)


@settings(max_examples=100, deadline=None)
@given(rows=everything_rows(max_size=12), offset=st.integers(0, 5))
def test_slices_are_read_at_their_offset(rows: pa.Table, offset: int) -> None:
    whole = as_logged(rows)
    reader = BatchReader(EVERYTHING, ids=True)
    assert repr(reader.rows([whole.slice(offset)])) == repr(reader.rows([whole])[offset:])
