"""SOutput over the log: one input, any batching, the same bytes."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams.sim_disk import SimDisk
from streams.stream_data import (
    BUCKETS,
    EVERYTHING,
    SIZE,
    everything_rows,
    log_rows,
    plain,
    row_schema,
    simple_rows,
)

from australis.kernel.errors import Stopped
from australis.streams.buckets import END_OF_STREAM_US
from australis.streams.log import StableLog
from australis.streams.schema import parse_schema
from australis.streams.soutput import OutputState, SOutput

INTS = parse_schema("n int")
LAST_US = 4 * SIZE


def segments(disk: SimDisk) -> dict[str, bytes]:
    return {name: data for name, data in disk.content().items() if name.endswith(".seg")}


class Lane:
    """One replica's output: SOutput and its log, with small segments."""

    def __init__(self, segment_bytes: int = 2_000) -> None:
        self.disk = SimDisk()
        self.log = StableLog(self.disk, EVERYTHING, BUCKETS, segment_bytes=segment_bytes)
        self.out = SOutput(EVERYTHING, BUCKETS)
        self.batch_id = -1

    def commit(self, rows: list[pa.RecordBatch], frontier_us: int) -> None:
        self.batch_id += 1
        step = self.out.commit(self.batch_id, rows, frontier_us)
        assert step is not None
        self.log.append(step.buckets, step.state.frontier_us)

    def restart(self) -> None:
        """Go on from what is remembered, as after a crash."""
        state = self.out.state
        held = pa.ipc.open_stream(_ipc(state.held)).read_all()
        self.out = SOutput(
            EVERYTHING, BUCKETS, OutputState(state.batch_id, state.frontier_us, held)
        )


def _ipc(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def all_at_once(rows: pa.Table) -> Lane:
    lane = Lane()
    lane.commit(rows.to_batches(), END_OF_STREAM_US)
    return lane


@given(everything_rows(last_us=LAST_US), st.data())
@settings(max_examples=80)
def test_any_batching_writes_the_same_segments(rows: pa.Table, data: st.DataObject) -> None:
    """A batch covers some buckets; its rows come in any order, its frontier is its start or end."""
    lane = Lane()
    rng = data.draw(st.randoms(use_true_random=False))
    stimes = rows.column("_stime").cast(pa.int64()).to_pylist()
    ends = sorted(data.draw(st.sets(st.integers(1, 4), max_size=3)) | {4})
    start = 0
    for end in ends:
        here = [i for i, t in enumerate(stimes) if start * SIZE < t <= end * SIZE]
        rng.shuffle(here)
        parts = min(len(here), data.draw(st.integers(1, 3)))
        batches = [
            rows.take(pa.array(here[p::parts], pa.int64())).combine_chunks() for p in range(parts)
        ]
        frontier = data.draw(st.sampled_from([start, end])) * SIZE
        lane.commit([b for table in batches for b in table.to_batches()], frontier)
        if data.draw(st.booleans()):
            lane.restart()
        if data.draw(st.booleans()):
            lane.commit([], lane.out.state.frontier_us)
        start = end
    lane.commit([], END_OF_STREAM_US)
    assert segments(lane.disk) == segments(all_at_once(rows).disk)
    assert lane.out.state.held.num_rows == 0


@given(everything_rows(last_us=LAST_US), st.data())
@settings(max_examples=40)
def test_rows_ahead_of_their_frontier_wait(rows: pa.Table, data: st.DataObject) -> None:
    """Rows may come any time before their bucket closes, as from a union of raw and windowed."""
    lane = Lane()
    stimes = rows.column("_stime").cast(pa.int64()).to_pylist()
    arrival = [data.draw(st.integers(0, (t - 1) // SIZE)) for t in stimes]
    for batch in range(4):
        here = [i for i, at in enumerate(arrival) if at == batch]
        lane.commit(rows.take(pa.array(here, pa.int64())).to_batches(), (batch + 1) * SIZE)
        assert lane.log.boundary_us == (batch + 1) * SIZE
        assert len(log_rows(lane.log)) == sum(t <= (batch + 1) * SIZE for t in stimes)
        assert lane.out.state.held.num_rows == sum(
            at <= batch and t > (batch + 1) * SIZE for t, at in zip(stimes, arrival, strict=True)
        )
    lane.commit([], END_OF_STREAM_US)
    assert segments(lane.disk) == segments(all_at_once(rows).disk)


def test_a_repeated_batch_id_adds_nothing() -> None:
    out = SOutput(INTS, BUCKETS)
    rows = [simple_rows(INTS, [(5, 1), (SIZE + 1, 2)])]
    assert out.commit(3, rows, SIZE) is not None
    state = out.state
    assert out.commit(3, rows, 2 * SIZE) is None
    assert out.commit(1, rows, 2 * SIZE) is None
    assert out.state is state
    again = SOutput(INTS, BUCKETS, state)
    assert again.commit(3, rows, 2 * SIZE) is None


def test_batch_ids_may_have_gaps_and_the_held_row_comes_out() -> None:
    out = SOutput(INTS, BUCKETS)
    out.commit(0, [simple_rows(INTS, [(SIZE, 1), (SIZE + 1, 2)])], SIZE)
    assert plain(out.state.held) == [{"_stime": SIZE + 1, "n": 2}]
    step = out.commit(7, [], 2 * SIZE)
    assert step is not None
    assert step.state.batch_id == 7
    ((bucket, batch),) = step.buckets
    assert bucket == 1
    assert batch.column("n").to_pylist() == [2]


@pytest.mark.parametrize("stime", [1, SIZE - 1, SIZE])
def test_a_row_at_or_below_the_published_boundary_stops_the_lane(stime: int) -> None:
    out = SOutput(INTS, BUCKETS)
    out.commit(0, [], SIZE)
    with pytest.raises(Stopped, match="at or before the published boundary"):
        out.commit(1, [simple_rows(INTS, [(SIZE + 5, 1), (stime, 2)])], 2 * SIZE)
    assert out.state.batch_id == 0, "a refused batch leaves no trace"
    assert out.commit(1, [simple_rows(INTS, [(SIZE + 1, 2)])], 2 * SIZE) is not None


def test_a_row_without_stime_stops_the_lane() -> None:
    out = SOutput(INTS, BUCKETS)
    with pytest.raises(Stopped, match="no _stime"):
        out.commit(0, [simple_rows(INTS, [(None, 1)])], SIZE)


def test_the_frontier_never_goes_back() -> None:
    out = SOutput(INTS, BUCKETS)
    out.commit(0, [], 3 * SIZE)
    step = out.commit(1, [simple_rows(INTS, [(3 * SIZE + 1, 1)])], SIZE)
    assert step is not None
    assert step.state.frontier_us == 3 * SIZE
    assert step.buckets == []


def test_spark_types_are_cast_to_the_schema() -> None:
    """Spark may hand over time zones and widths of its own."""
    out = SOutput(INTS, BUCKETS)
    odd = pa.schema([("_stime", pa.timestamp("us", tz="Europe/Berlin")), ("n", pa.int64())])
    rows = pa.RecordBatch.from_arrays(
        [pa.array([5], odd.field(0).type), pa.array([7], pa.int64())], schema=odd
    )
    step = out.commit(0, [rows], SIZE)
    assert step is not None
    assert step.buckets[0][1].schema == INTS.arrow
    assert out.row_schema == row_schema(INTS)


def test_shuffled_ties_do_not_matter() -> None:
    """Equal rows that differ only in the sign of zero are one row."""
    schema = parse_schema("d double, n int")
    values = [(1, -0.0, 2), (1, 0.0, 1), (1, 0.0, 2), (1, -0.0, 1)]
    seen = set()
    for seed in range(6):
        random.Random(seed).shuffle(values)
        step = SOutput(schema, BUCKETS).commit(0, [simple_rows(schema, values)], SIZE)
        assert step is not None
        seen.add(step.buckets[0][1].serialize().to_pybytes())
    assert len(seen) == 1
