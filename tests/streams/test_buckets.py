"""Buckets: (start, end], and what a boundary closes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from australis.kernel.errors import UserError
from australis.kernel.ids import MAX_BUCKET, pack_id
from australis.streams.buckets import END_OF_STREAM_US, Buckets, stime_values
from australis.streams.schema import TIMESTAMP

SIZES = st.integers(10, 3_600_000).map(lambda ms: Buckets(ms * 1000))
TIMES = st.integers(1, END_OF_STREAM_US - 1)


@given(SIZES, TIMES)
def test_a_tuple_lies_in_its_bucket(buckets: Buckets, stime: int) -> None:
    bucket = buckets.of(stime)
    assert buckets.end(bucket - 1) < stime <= buckets.end(bucket)
    assert buckets.of_all(np.array([stime])).tolist() == [bucket]


@given(SIZES, st.integers(0, 1000))
def test_an_edge_belongs_to_the_bucket_before_it(buckets: Buckets, bucket: int) -> None:
    end = buckets.end(bucket)
    assert buckets.of(end) == bucket
    assert buckets.of(end + 1) == bucket + 1
    assert buckets.closed_by(end) == bucket
    assert buckets.closed_by(end - 1) == bucket - 1


@given(SIZES, TIMES, TIMES)
def test_a_boundary_closes_what_lies_before_it(buckets: Buckets, boundary: int, stime: int) -> None:
    closed = buckets.of(stime) <= buckets.closed_by(boundary)
    assert closed == (stime <= buckets.floor(boundary))
    assert buckets.floor(boundary) <= boundary
    assert buckets.floor(boundary) == buckets.end(buckets.closed_by(boundary))


@given(SIZES)
def test_the_end_of_the_stream_closes_everything(buckets: Buckets) -> None:
    assert buckets.closed_by(END_OF_STREAM_US) == buckets.last
    assert buckets.end(buckets.last) == buckets.floor(END_OF_STREAM_US) == END_OF_STREAM_US
    assert buckets.of(buckets.max_stime_us) < buckets.last


@given(SIZES)
def test_the_last_stime_has_an_id_that_fits(buckets: Buckets) -> None:
    bucket = buckets.of(buckets.max_stime_us)
    assert bucket <= MAX_BUCKET
    assert pack_id(bucket, 0) < 2**63


@pytest.mark.parametrize("size_us", [0, -1, 9_000, 10_001, 500_500])
def test_odd_sizes_are_refused(size_us: int) -> None:
    with pytest.raises(UserError, match="is not a bucket size"):
        Buckets(size_us)


def test_stimes_are_microseconds_from_chunks_too() -> None:
    chunked = pa.chunked_array([pa.array([1, 2], TIMESTAMP), pa.array([3], TIMESTAMP)])
    assert stime_values(chunked).tolist() == [1, 2, 3]
    assert stime_values(chunked.slice(1)).tolist() == [2, 3]
    assert stime_values(pa.chunked_array([], TIMESTAMP)).tolist() == []
