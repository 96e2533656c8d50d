"""Real files: what the log asks of a disk, the lock on a state directory, side files."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from streams.sim_disk import SimDisk

from australis.kernel.errors import Stopped, UserError
from australis.runtime.files import OPEN_FILES, TEMPORARY, DirectoryLock, FileDisk
from australis.runtime.side_files import SideFile
from australis.streams.buckets import Buckets
from australis.streams.canonical import by_bucket
from australis.streams.disk import Disk
from australis.streams.log import StableLog
from australis.streams.schema import TIMESTAMP, parse_schema

pytestmark = pytest.mark.unit


def exercise(disk: Disk) -> dict[str, bytes]:
    disk.append("a", b"hello ")
    disk.append("a", b"world")
    disk.sync("a")
    disk.cut("a", 8)
    disk.append("a", b"!")
    disk.replace("b", b"one")
    disk.replace("b", b"two")
    disk.append("b", b"three")
    disk.append("c", b"gone")
    disk.remove("c")
    assert disk.size("c") == 0
    assert disk.read("a", 6, 100) == b"wo!"
    assert disk.read("a", 100, 5) == b""
    return {name: disk.read(name, 0, disk.size(name)) for name in disk.names()}


def test_files_behave_like_the_simulated_disk(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path / "deep" / "disk")
    assert exercise(disk) == exercise(SimDisk()) == {"a": b"hello wo!", "b": b"twothree"}
    disk.close()
    assert disk.read("a", 0, 5) == b"hello"


def test_a_replace_that_a_crash_interrupted_does_not_count(tmp_path: Path) -> None:
    (tmp_path / f"commits{TEMPORARY}").write_bytes(b"half of a longer text")
    (tmp_path / "the user's own.tmp").write_bytes(b"mine")
    disk = FileDisk(tmp_path)
    assert disk.names() == ["the user's own.tmp"]
    disk.replace("commits", b"new")
    assert disk.names() == ["commits", "the user's own.tmp"]
    assert disk.read("commits", 0, 99) == b"new"
    assert len(list(tmp_path.iterdir())) == 2


def test_more_files_than_descriptors(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(3 * OPEN_FILES):
        disk.append(f"{number:03}", b"x" * number)
    assert len(os.listdir("/proc/self/fd")) - before <= OPEN_FILES
    for number in range(3 * OPEN_FILES):
        disk.sync(f"{number:03}")
        assert disk.size(f"{number:03}") == number == len(disk.read(f"{number:03}", 0, 1 << 40))


def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FileDisk(tmp_path)

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(Stopped, match=f"cannot write {tmp_path}/log: No space left on device"):
        disk.append("log", b"data")


def test_a_directory_that_vanished_is_a_sentence(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path / "d")
    disk.append("log", b"data")
    shutil.rmtree(tmp_path / "d")
    disk.append("log", b"more")
    with pytest.raises(Stopped, match=r"cannot write .*/log: the file was removed meanwhile"):
        disk.sync("log")
    with pytest.raises(Stopped, match=r"cannot write .*/other: No such file or directory"):
        disk.append("other", b"data")
    with pytest.raises(Stopped, match="cannot list"):
        disk.names()


def test_a_log_on_files_survives_a_torn_commit(tmp_path: Path) -> None:
    schema, buckets = parse_schema("n int"), Buckets(500_000)
    log = StableLog(FileDisk(tmp_path), schema, buckets)
    for bucket in range(3):
        stimes = np.arange(1, 4) + bucket * 500_000
        rows = pa.table(
            {"_stime": pa.array(stimes, TIMESTAMP), "n": pa.array([1, 2, 3], pa.int32())}
        )
        step = by_bucket(rows, pa.array([0, 1, 2]), schema, buckets)
        log.append(step, (bucket + 1) * 500_000, memo=b"%d" % bucket)
    with (tmp_path / "commits").open("ab") as commits:
        commits.write(b"\x40\x00\x00\x00torn")
    again = StableLog(FileDisk(tmp_path), schema, buckets)
    assert (again.boundary_us, again.memo, again.rows) == (1_500_000, b"2", 9)


def test_a_second_run_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with DirectoryLock(state / "run.lock"):
        with pytest.raises(UserError) as refused:
            DirectoryLock(state / "run.lock").acquire()
        assert str(refused.value) == f"'{state}' is in use by another run (pid {os.getpid()})"
    with DirectoryLock(state / "run.lock"):
        pass


def numbered(count: int) -> Callable[[int], list[dict[str, Any]]]:
    return lambda first: [{"n": n} for n in range(first, count)]


def test_side_files_write_each_entry_once(tmp_path: Path) -> None:
    path = tmp_path / "late" / "s.jsonl"
    first = SideFile(path, 1_000)
    assert first.add(0, 2, numbered(2)) == 2
    first.sync()
    with path.open("ab") as file:
        file.write(b'{"n": 2')
    again = SideFile(path, 1_000)
    assert again.count == 2
    assert again.add(0, 3, numbered(3)) == 3
    assert path.read_text() == '{"n":0}\n{"n":1}\n{"n":2}\n'


def test_a_full_side_file_only_counts(tmp_path: Path) -> None:
    path = tmp_path / "late" / "s.jsonl"
    first = SideFile(path, 20)
    assert first.add(0, 1_000, numbered(1_000)) == 1_000
    assert first.add(1_000, 1, lambda first: pytest.fail("a full file needs no entries")) == 1_001
    assert first.count == 1_001
    kept = '{"n":0}\n{"n":1}\n'
    assert path.read_text() == kept
    again = SideFile(path, 20, counted=1_001)
    assert again.count == 1_001
    assert again.add(0, 1_002, numbered(1_002)) == 1_002
    assert (again.count, path.read_text()) == (1_002, kept)
