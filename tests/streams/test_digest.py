"""The rolling digest of a log survives what happens to the log."""

from __future__ import annotations

import pyarrow as pa
import pytest
from streams.sim_disk import SimDisk

from australis.kernel.ids import pack_id
from australis.streams.buckets import Buckets
from australis.streams.digest import hash_of
from australis.streams.log import StableLog, check_of
from australis.streams.schema import TIMESTAMP, parse_schema

SCHEMA, BUCKETS = parse_schema("v int, k string"), Buckets(10_000)


def batch(number: int, v: int = 1) -> pa.RecordBatch:
    columns = [
        pa.array([0], pa.int8()),
        pa.array([pack_id(number, 0)]),
        pa.array([number * 10_000 + 1], TIMESTAMP),
        pa.array([v], pa.int32()),
        pa.array([f"k{v}"]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA.arrow)


def log_of(disk: SimDisk, *numbers: int, cut: int = 99, segment_bytes: int = 1 << 20) -> StableLog:
    """A log of these buckets, appended in two parts."""
    log = StableLog(disk, SCHEMA, BUCKETS, segment_bytes=segment_bytes)
    for part in ([n for n in numbers if n < cut], [n for n in numbers if n >= cut]):
        if part:
            log.append([(n, batch(n)) for n in part], BUCKETS.end(part[-1]))
    return log


def test_it_does_not_depend_on_how_the_log_was_written() -> None:
    one, other = log_of(SimDisk(), 1, 3, 4), log_of(SimDisk(), 1, 3, 4, cut=4, segment_bytes=1)
    assert [one.digest_at(n) for n in range(6)] == [other.digest_at(n) for n in range(6)]
    assert one.digest_at(0) == 0
    assert one.digest_at(2) == one.digest_at(1) != one.digest_at(3)


def test_it_depends_on_every_tuple_and_its_bucket() -> None:
    log, other = log_of(SimDisk(), 1, 3), log_of(SimDisk(), 1)
    other.append([(3, batch(3, v=2))], BUCKETS.end(3))
    assert log.digest_at(1) == other.digest_at(1)
    assert log.digest_at(3) != other.digest_at(3)
    assert log_of(SimDisk(), 2).digest_at(9) != log_of(SimDisk(), 1).digest_at(9)


@pytest.mark.parametrize("upto", [0, 3, 4, 9])
def test_a_log_that_is_opened_again_has_the_same(upto: int) -> None:
    disk = SimDisk()
    before = log_of(disk, 1, 3, 4, 7, cut=4, segment_bytes=1)
    known = {n: before.digest_at(n) for n in range(10)}
    before.truncate(upto)
    again = StableLog(disk, SCHEMA, BUCKETS, segment_bytes=1)
    assert again.digest_base == -1
    for number in range(again.truncated_to, 10):
        if number >= 0:
            assert again.digest_at(number) == known[number]
    again.append([(12, batch(12))], BUCKETS.end(12))
    whole = log_of(SimDisk(), 1, 3, 4, 7, 12)
    assert again.digest_at(12) == whole.digest_at(12)


def test_a_log_that_begins_anew_has_a_new_one_or_goes_on_with_another() -> None:
    whole = log_of(SimDisk(), 1, 3, 4)
    disk = SimDisk()
    log = log_of(disk, 1)
    log.restart_at(3, digest=(whole.digest_base, whole.digest_at(3)))
    log.append([(4, batch(4))], BUCKETS.end(4))
    assert (log.digest_base, log.digest_at(4)) == (-1, whole.digest_at(4))
    assert StableLog(disk, SCHEMA, BUCKETS).digest_at(4) == whole.digest_at(4)
    log.restart_at(8)
    assert (log.digest_base, log.digest_at(8), StableLog(disk, SCHEMA, BUCKETS).digest_base) == (
        8,
        0,
        8,
    )


def test_a_reader_can_compute_what_a_bucket_adds_from_the_bytes_that_travel() -> None:
    log = log_of(SimDisk(), 1)
    ((_, held),) = log.read(0, 1)
    body = held.serialize().to_pybytes()
    assert log.digest_at(1) == hash_of(1, check_of(1, 1, body))
