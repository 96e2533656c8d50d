"""The end of a log, packed and put in another one's place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from australis.kernel.errors import Damaged
from australis.runtime.files import FileDisk
from australis.runtime.logs import SharedLog
from australis.runtime.node.excerpt import Excerpt, pack
from australis.runtime.node.wire import WireError
from australis.streams.buckets import Buckets
from australis.streams.schema import parse_schema

pytestmark = pytest.mark.unit

SCHEMA = parse_schema("n int")
BUCKETS = Buckets(1_000_000)


def rows(bucket: int, *values: int) -> pa.RecordBatch:
    columns = {
        f.name: [None] * len(values) if f.name != "n" else list(values) for f in SCHEMA.arrow
    }
    columns["_stime"] = [BUCKETS.end(bucket)] * len(values)
    columns["_id"] = list(range(len(values)))
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA.arrow)


def log_at(path: Path, *buckets: int, upto: int = 20) -> SharedLog:
    log = SharedLog(FileDisk(path), SCHEMA, BUCKETS, segment_bytes=1)
    log.restart_at(2)
    for bucket in buckets:
        log.append([(bucket, rows(bucket, bucket, bucket + 100))], BUCKETS.end(bucket))
    log.append([], BUCKETS.end(upto))
    return log


def packed(log: SharedLog, upto: int, to: Path, *most: int) -> Path:
    path = to / "packed"
    pack(log, upto, path, *most)
    return path


def content(log: SharedLog) -> list[tuple[int, list[int]]]:
    found = log.read(log.truncated_to, BUCKETS.last)
    return [(number, batch.column("n").to_pylist()) for number, batch in found]


def test_a_log_takes_anothers_place(tmp_path: Path) -> None:
    log = log_at(tmp_path / "a", 3, 5, 9, 12)
    log.truncate(3)
    log.note_entries(2, [(8, 70_000), (12, 80_000)])
    other = log_at(tmp_path / "b", 4)
    taken = Excerpt(packed(log, 10, tmp_path), other, 10)
    assert taken.trimmed_upto == 3
    taken.replace(other, b"memo", ahead_us=1_000)
    assert [b.entered_us for b in other.entry_times(3, 10)] == [71_000, 81_000]
    assert content(other) == [(5, [5, 105]), (9, [9, 109])]
    assert other.boundary_us == BUCKETS.end(10)
    assert other.memo == b"memo"
    again = SharedLog(FileDisk(tmp_path / "b"), SCHEMA, BUCKETS)
    assert content(again) == content(other)
    assert again.truncated_to == 3
    assert list(again.entry_times(3, 10)) == list(other.entry_times(3, 10))


def test_a_damaged_bucket_is_not_packed_and_left_out_once_the_log_has_let_go_of_it(
    tmp_path: Path,
) -> None:
    log = SharedLog(FileDisk(tmp_path / "a"), SCHEMA, BUCKETS)
    for bucket in (3, 5, 9):
        log.append([(bucket, rows(bucket, bucket))], BUCKETS.end(bucket))
    (segment,) = (tmp_path / "a").glob("*.seg")
    data = bytearray(segment.read_bytes())
    data[log._records[1].offset + 90] ^= 1
    segment.write_bytes(data)
    with pytest.raises(Damaged) as error:
        packed(log, 9, tmp_path)
    assert error.value.bucket == 5
    log.truncate(5)
    other = log_at(tmp_path / "b", 4)
    taken = Excerpt(packed(log, 9, tmp_path), other, 9)
    assert taken.trimmed_upto == 5
    taken.replace(other)
    assert content(other) == [(9, [9])]


def test_a_log_without_rows(tmp_path: Path) -> None:
    other = log_at(tmp_path / "b", 4)
    Excerpt(packed(log_at(tmp_path / "a"), 10, tmp_path), other, 10).replace(other)
    assert content(other) == []
    assert other.boundary_us == BUCKETS.end(10)


def test_of_a_long_log_only_the_newest_buckets_go(tmp_path: Path) -> None:
    log = log_at(tmp_path / "a", *range(3, 20))
    one = log.reaching_back(19, 0)
    assert one == 19, "no room for any"
    size = packed(log, 19, tmp_path).stat().st_size // 17
    taken = Excerpt(packed(log, 19, tmp_path, 3 * size), log, 19)
    assert 12 < taken.trimmed_upto < 19
    assert log.reaching_back(19, 1 << 30) == 2


def test_another_streams_log_is_refused(tmp_path: Path) -> None:
    log = log_at(tmp_path / "a", 3)
    schema = parse_schema("n bigint")
    other = SharedLog(FileDisk(tmp_path / "b"), schema, BUCKETS)
    with pytest.raises(WireError, match="another stream"):
        Excerpt(packed(log, 5, tmp_path), other, 5)


def test_buckets_beyond_the_checkpoint_are_refused(tmp_path: Path) -> None:
    log = log_at(tmp_path / "a", 3, 9)
    with pytest.raises(WireError, match="not in order"):
        Excerpt(packed(log, 9, tmp_path), log, 8)


@settings(max_examples=200)
@given(data=st.data())
def test_damaged_ones_are_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("log")
    log = log_at(directory / "a", 3, 5)
    path = packed(log, 9, directory)
    damaged = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    try:
        taken = Excerpt(path, log, 9)
    except WireError:
        return
    taken.replace(log)
    assert all(number <= 9 for number, _ in content(log))
