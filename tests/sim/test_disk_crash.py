"""The disk of a simulated node: what a crash leaves of it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams.sim_disk import SimDisk

from australis.protocols.dpc.effects import RestoredLog
from australis.protocols.dpc.messages import Bucket, LogDigest
from australis.sim.dpc.store import LaneStore, SimLog


def buckets(first: int, last: int) -> list[Bucket]:
    return [Bucket(n, n) for n in range(first, last + 1)]


def test_synced_bytes_survive_a_crash_and_others_do_not() -> None:
    disk = SimDisk()
    disk.append("log", b"durable")
    disk.sync("log")
    disk.append("log", b" gone")
    disk.crash()
    assert disk.content() == {"log": b"durable"}


def test_a_crash_may_tear_what_was_not_synced() -> None:
    disk = SimDisk()
    disk.append("log", b"1234")
    disk.crash(lambda unsynced: unsynced // 2)
    assert disk.read("log", 0, 9) == b"12"


def test_a_replaced_file_is_durable_at_once() -> None:
    disk = SimDisk()
    disk.append("state", b"old")
    disk.replace("state", b"new")
    disk.crash()
    assert disk.content() == {"state": b"new"}


def test_a_full_disk_fails_in_the_middle_of_a_write() -> None:
    disk = SimDisk()
    disk.writes_left = 1
    disk.append("log", b"fits")
    with pytest.raises(OSError, match="No space left"):
        disk.append("log", b"does not")
    assert disk.size("log") == 4 + 4


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 99))
def test_a_log_keeps_what_was_synced_and_perhaps_a_bit_more(
    synced: int, more: int, seed: int
) -> None:
    log = SimLog()
    log.append(buckets(0, synced))
    log.sync()
    log.append(buckets(synced + 1, synced + more))
    log.crash(Random(seed))
    assert synced <= log.end <= synced + more
    assert [b.number for b in log.read(-1, log.end)] == list(range(log.end + 1))


def test_a_log_takes_buckets_in_order_only() -> None:
    log = SimLog()
    log.append(buckets(0, 3))
    with pytest.raises(AssertionError, match="5 after 3"):
        log.append(buckets(5, 5))


def test_a_truncated_log_begins_later() -> None:
    log = SimLog()
    log.append(buckets(0, 9))
    log.truncate(4)
    assert (log.trimmed_upto, log.end, len(log)) == (4, 9, 5)
    assert [b.number for b in log.read(6, 8)] == [7, 8]


def test_a_lane_restores_its_checkpoint_and_its_log() -> None:
    store = LaneStore("empty")
    store.log.append(buckets(0, 9))
    store.checkpoint("state after 7", 7)
    digest = store.log.digest(9)
    assert store.restored("x") == RestoredLog("x", 7, trimmed_upto=-1, end=9, digest=digest)
    assert (digest.base, digest.bucket) == (-1, 9)


def test_a_wiped_lane_is_lost_until_a_snapshot_is_installed() -> None:
    store = LaneStore("empty")
    store.log.append(buckets(0, 9))
    store.checkpoint("state after 7", 7)
    store.wipe("empty")
    assert (store.lost, store.upto, len(store.log)) == (True, -1, 0)
    digest = LogDigest(-1, 14, 99)
    store.install(("state after 20", tuple(buckets(15, 20)), digest), 20)
    assert not store.lost
    known = store.log.digest(20)
    assert store.restored("x") == RestoredLog("x", 20, trimmed_upto=14, end=20, digest=known)
    assert (store.log.digest(14), known.base) == (digest, -1)
    assert [b.number for b in store.log.read(14, 20)] == list(range(15, 21))
