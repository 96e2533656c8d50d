"""The source proxy: any cutting, any restart, the same log and the same late tuples."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams.sim_disk import SimDisk
from streams.stream_data import BUCKETS, SIZE, cuts, log_rows, simple_rows

from australis.kernel.ids import pack_id
from australis.streams.buckets import END_OF_STREAM_US, Buckets
from australis.streams.log import StableLog
from australis.streams.schema import TIMESTAMP, parse_schema
from australis.streams.source import Cursor, SourceStep, SourceStream, valid_stimes

SCHEMA = parse_schema("n int")

Stamps = list[int]
STAMPS = st.lists(st.integers(1, 10 * SIZE // 1000).map(lambda ms: ms * 1000), max_size=14)
SLACKS = st.sampled_from([0, 1, SIZE // 2, SIZE, 3 * SIZE])


def arrivals(stamps: Stamps, start: int = 0, end: int | None = None) -> pa.RecordBatch:
    """The rows [start, end) of a source; the attribute is the row's number."""
    rows = [(stime, at) for at, stime in enumerate(stamps)][start:end]
    return simple_rows(SCHEMA, rows)


@dataclass
class Run:
    """A source, its log, and what was late."""

    disk: SimDisk = field(default_factory=SimDisk)
    late: list[int] = field(default_factory=list)
    boundaries: list[int] = field(default_factory=list)
    """For each late row, the boundary that it did not come before."""
    steps: list[tuple[SourceStep, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = StableLog(self.disk, SCHEMA, BUCKETS)

    def offer(self, source: SourceStream, batch: pa.RecordBatch) -> None:
        late = source.offer(batch)
        self.late += late.rows.column("n").to_pylist()
        self.boundaries += late.boundaries_us.tolist()

    def keep(self, step: SourceStep | None) -> None:
        if step is not None:
            self.log.append(step.buckets, step.boundary_us)
            self.steps.append((step, len(self.late)))

    def segments(self) -> dict[str, bytes]:
        return {name: data for name, data in self.disk.content().items() if name.endswith(".seg")}


def whole(stamps: Stamps, slack_us: int) -> Run:
    """Every row in one batch."""
    run, source = Run(), SourceStream(SCHEMA, BUCKETS, slack_us=slack_us)
    run.offer(source, arrivals(stamps))
    run.keep(source.end())
    return run


def naive_late(stamps: Stamps, slack_us: int) -> list[int]:
    """A row is late if a row before it had closed its bucket."""
    late, newest = [], 0
    for at, stime in enumerate(stamps):
        if stime <= (newest - 1 - slack_us) // SIZE * SIZE:
            late.append(at)
        newest = max(newest, stime)
    return late


@given(STAMPS, SLACKS)
def test_the_log_is_a_sort_by_stime_and_arrival(stamps: Stamps, slack_us: int) -> None:
    run = whole(stamps, slack_us)
    late = naive_late(stamps, slack_us)
    assert run.late == late
    expected = sorted((t, at) for at, t in enumerate(stamps) if at not in late)
    rows = log_rows(run.log)
    assert [(row["_stime"], row["n"]) for row in rows] == expected
    assert [row["_id"] for row in rows] == _ids([t for t, _ in expected])


def _ids(stimes: Stamps) -> list[int]:
    ranks: dict[int, int] = {}
    ids = []
    for stime in stimes:
        bucket = -(-stime // SIZE) - 1
        rank = ranks[bucket] = ranks.get(bucket, -1) + 1
        ids.append(pack_id(bucket, rank))
    return ids


def _run_cut(stamps: Stamps, slack_us: int, data: st.DataObject) -> Run:
    run, source = Run(), SourceStream(SCHEMA, BUCKETS, slack_us=slack_us)
    for lo, hi in data.draw(cuts(len(stamps))):
        run.offer(source, arrivals(stamps, lo, hi))
        if data.draw(st.booleans()):
            # A driver may close fewer buckets than it could.
            behind = data.draw(st.integers(0, 2)) * SIZE
            run.keep(source.close(source.due_boundary() - behind))
    run.keep(source.end())
    assert source.ended
    return run


@given(STAMPS, SLACKS, st.data())
def test_any_cutting_gives_the_same_log(stamps: Stamps, slack_us: int, data: st.DataObject) -> None:
    cut, once = _run_cut(stamps, slack_us, data), whole(stamps, slack_us)
    assert cut.segments() == once.segments()
    assert (cut.late, cut.boundaries) == (once.late, once.boundaries)


@given(STAMPS, SLACKS, st.data())
@settings(max_examples=150)
def test_restart_from_any_cursor(stamps: Stamps, slack_us: int, data: st.DataObject) -> None:
    """The crash comes after a commit: its cursor, boundary and late tuples are what is known."""
    once, first = whole(stamps, slack_us), _run_cut(stamps, slack_us, data)
    for kept, (step, late_before) in enumerate(first.steps):
        again = Run()
        for earlier, _ in first.steps[: kept + 1]:
            again.keep(earlier)
        again.late = first.late[:late_before]
        cursor = step.cursor
        source = SourceStream(
            SCHEMA, BUCKETS, slack_us=slack_us, boundary_us=step.boundary_us, cursor=cursor
        )
        rest = len(stamps) - cursor.resume
        for lo, hi in data.draw(cuts(rest)):
            run_lo, run_hi = cursor.resume + lo, cursor.resume + hi
            again.offer(source, arrivals(stamps, run_lo, run_hi))
            again.keep(source.close(source.due_boundary()))
        again.keep(source.end())
        assert again.segments() == once.segments()
        assert again.late == once.late, "each late tuple once"


def test_slack_waits_for_tuples_out_of_order() -> None:
    stamps = [5 * SIZE, 3 * SIZE, 5 * SIZE + 1]
    assert whole(stamps, 0).late == [1]
    assert whole(stamps, 2 * SIZE).late == []
    source = SourceStream(SCHEMA, BUCKETS, slack_us=2 * SIZE)
    source.offer(arrivals(stamps))
    assert source.due_boundary() == 3 * SIZE


def test_the_newest_time_itself_stays_open() -> None:
    """A further tuple may carry the newest `_stime` again."""
    source = SourceStream(SCHEMA, BUCKETS)
    source.offer(arrivals([SIZE]))
    assert source.due_boundary() == 0
    assert source.offer(arrivals([SIZE, SIZE], 1)).rows.num_rows == 0
    source.offer(arrivals([SIZE, SIZE, SIZE + 1], 2))
    assert source.due_boundary() == SIZE


def test_the_clock_closes_buckets_without_tuples() -> None:
    source = SourceStream(SCHEMA, BUCKETS, slack_us=SIZE)
    source.offer(arrivals([1]))
    assert source.due_boundary() == 0
    assert source.due_boundary(clock_us=4 * SIZE + 1) == 3 * SIZE
    step = source.close(3 * SIZE)
    assert step is not None
    assert [b for b, _ in step.buckets] == [0]
    assert source.close(3 * SIZE) is None
    assert source.close(SIZE) is None
    late = source.offer(arrivals([1, 2 * SIZE], 1))
    assert late.rows.column("n").to_pylist() == [1], "the published boundary makes it late"


def test_a_source_without_rows_follows_the_clock_after_a_while() -> None:
    source = SourceStream(SCHEMA, BUCKETS, idle_us=3 * SIZE)
    assert source.idle_clock(10 * SIZE) is None, "the time counts from the start"
    assert source.idle_clock(13 * SIZE - 1) is None
    assert source.idle_clock(13 * SIZE) == 13 * SIZE
    source.close(source.due_boundary(13 * SIZE))
    assert source.offer(arrivals([5 * SIZE])).rows.num_rows == 1
    assert source.idle_clock(14 * SIZE) == 14 * SIZE, "a late row moves no boundary"
    source.offer(arrivals([5 * SIZE, 14 * SIZE], 1))
    assert source.idle_clock(15 * SIZE) is None
    assert source.idle_clock(18 * SIZE) == 18 * SIZE


def test_a_source_is_never_idle_unless_asked() -> None:
    source = SourceStream(SCHEMA, BUCKETS)
    assert [source.idle_clock(at * SIZE) for at in (0, 1, 1_000_000)] == [None, None, None]


def test_a_row_read_again_but_overtaken_by_the_clock_is_late_not_lost() -> None:
    first = SourceStream(SCHEMA, BUCKETS)
    first.offer(arrivals([SIZE + 1, 2 * SIZE + 5]))
    step = first.close(2 * SIZE)
    assert step is not None
    assert step.cursor.resume == 1
    again = SourceStream(SCHEMA, BUCKETS, boundary_us=2 * SIZE, cursor=step.cursor)
    again.close(again.due_boundary(clock_us=9 * SIZE))
    late = again.offer(arrivals([SIZE + 1, 2 * SIZE + 5], 1))
    assert late.rows.column("n").to_pylist() == [1]


def test_the_cursor_waits_for_the_oldest_open_row() -> None:
    source = SourceStream(SCHEMA, BUCKETS)
    source.offer(arrivals([1, 9 * SIZE]))
    step = source.close(source.due_boundary())
    assert step is not None
    assert (step.cursor.resume, step.cursor.read) == (1, 2)
    last = source.end()
    assert last is not None
    assert last.boundary_us == END_OF_STREAM_US
    assert (last.cursor.resume, last.cursor.read) == (2, 2)


def test_rows_need_the_row_schema() -> None:
    source = SourceStream(SCHEMA, BUCKETS)
    assert source.row_schema.names == ["_stime", "n"]
    empty = arrivals([])
    assert source.offer(empty).rows.num_rows == 0
    assert Cursor() == Cursor(0, 0, 0)


@pytest.mark.parametrize("size_us", [10_000, 500_000, 3_600_000_000])
def test_times_a_stream_can_carry(size_us: int) -> None:
    buckets = Buckets(size_us)
    last = buckets.max_stime_us
    cases: list[tuple[Any, bool]] = [(None, False), (-1, False), (0, False), (1, True)]
    cases += [(last, True), (last + 1, False)]
    times = pa.array([time for time, _ in cases], TIMESTAMP)
    assert valid_stimes(times, buckets).to_pylist() == [ok for _, ok in cases]
