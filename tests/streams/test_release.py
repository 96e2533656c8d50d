"""What micro-batches cover: whole stable buckets, one answer for all readers, a fitting watermark."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from australis.kernel.errors import Stopped
from australis.streams.buckets import END_OF_STREAM_US, Buckets
from australis.streams.release import BEFORE_ALL, Batch, Release, RowsBetween, bucket_at, share

BUCKETS = Buckets(500_000)


def release(*, rows_per_batch: int = 1000, emits_on_watermark: bool = True) -> Release:
    return Release(
        "out", BUCKETS, rows_per_batch=rows_per_batch, emits_on_watermark=emits_on_watermark
    )


def holding(*rows: int) -> RowsBetween:
    """A stream with so many tuples in its buckets 0, 1, 2, ..."""
    return lambda after, upto: sum(rows[after + 1 : upto + 1])


def test_readers_of_one_lane_move_together() -> None:
    lane, rows = release(), holding(1, 1, 1)
    assert lane.latest(-1, "left", 0, rows, False) == 0
    assert lane.latest(-1, "right", 1, rows, False) == 0, "the boundary moved between the two"
    assert lane.latest(0, "left", 1, rows, False) == 1
    assert lane.latest(0, "right", 2, rows, False) == 1
    assert [lane.latest(1, r, 2, rows, False) for r in ("left", "right")] == [2, 2]
    # Nothing new, asked again and again, then something new.
    asked = ("left", "right", "left", "right")
    assert [lane.latest(2, reader, 2, rows, False) for reader in asked] == [2] * 4
    assert [lane.latest(2, reader, 3, rows, False) for reader in asked[:2]] == [3, 3]


def test_batches_are_limited_but_hold_a_bucket() -> None:
    lane, rows = release(rows_per_batch=3), holding(4, 1, 2)
    assert lane.latest(BEFORE_ALL, "r", BUCKETS.last, rows, False) == 0, (
        "a bucket of four is one batch, though three is the limit"
    )
    assert lane.latest(0, "r", BUCKETS.last, rows, False) == BUCKETS.last


def test_a_lane_never_goes_back() -> None:
    assert release().latest(7, "r", 3, holding(), False) == 7


def test_what_is_held_at_the_end_gets_one_more_batch() -> None:
    last = BUCKETS.last
    lane = release()
    assert lane.latest(last, "r", last, holding(), False) == last, "Spark may run one by itself"
    assert lane.latest(last, "r", last, holding(), False) == last + 1, "it did not: one more"
    assert lane.latest(last, "r", last, holding(), True) == last, "nothing is held any more"


def test_without_windows_nothing_is_held_at_the_end() -> None:
    lane = release(emits_on_watermark=False)
    assert [lane.latest(BUCKETS.last, "r", BUCKETS.last, holding(), False) for _ in "12"] == [
        BUCKETS.last
    ] * 2


def test_the_frontier_is_the_last_bucket_or_the_watermark_at_the_start() -> None:
    assert release(emits_on_watermark=False).batch(1, 3, 5, 2_000_000) == Batch(3, 5, 3_000_000)
    assert release(emits_on_watermark=True).batch(1, 3, 5, 2_000_000) == Batch(3, 5, 2_000_000)
    assert release().batch(0, BEFORE_ALL, 5, 0) == Batch(BEFORE_ALL, 5, 0)
    end = release().batch(9, BUCKETS.last, BUCKETS.last + 1, END_OF_STREAM_US)
    assert end.frontier_us == END_OF_STREAM_US


@pytest.mark.parametrize("watermark_us", [0, 1_500_000, 2_500_000])
def test_another_watermark_stops_the_lane(watermark_us: int) -> None:
    with pytest.raises(Stopped, match="'out' has a watermark of"):
        release().batch(1, 3, 5, watermark_us)


rows_of_buckets = st.lists(st.integers(0, 9), min_size=1, max_size=30)


@given(rows_of_buckets, st.integers(1, 20))
def test_batches_cover_every_bucket_once(counts: list[int], limit: int) -> None:
    lane, rows = release(rows_per_batch=limit), holding(*counts)
    stable = len(counts) - 1
    after = BEFORE_ALL
    while after < stable:
        upto = lane.latest(after, "r", stable, rows, False)
        assert after < upto <= stable
        assert rows(after, upto) <= limit or upto == after + 1
        assert upto == stable or rows(after, upto + 1) > limit, "a batch takes what it may"
        after = upto


@given(rows_of_buckets, st.integers(1, 7))
def test_tasks_share_every_bucket_once(counts: list[int], parts: int) -> None:
    rows, upto = holding(*counts), len(counts) - 1
    shares = [share(BEFORE_ALL, upto, part, parts, rows) for part in range(parts)]
    assert shares[0][0] == BEFORE_ALL
    assert shares[-1][1] == upto
    assert all(mine[1] == next_one[0] for mine, next_one in pairwise(shares))
    assert all(low <= high for low, high in shares)


def test_a_bucket_is_never_cut() -> None:
    assert bucket_at(BEFORE_ALL, 2, 3, holding(5, 5, 5)) == 0
    assert bucket_at(BEFORE_ALL, 2, 10, holding(5, 5, 5)) == 1
    assert bucket_at(BEFORE_ALL, 2, 15, holding(5, 5, 5)) == 2
