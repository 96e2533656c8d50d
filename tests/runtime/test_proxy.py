"""The source proxy: whatever interrupts it, the log is the one an undisturbed run writes."""

from __future__ import annotations

import json
import random
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from australis.diagram.model import Source
from australis.kernel.errors import Stopped
from australis.runtime import proxy as proxy_module
from australis.runtime.files import FileDisk
from australis.runtime.proxy import SourceProxy
from australis.runtime.sources import lines as lines_module
from australis.streams.buckets import END_OF_STREAM_US, Buckets
from australis.streams.log import StableLog
from australis.streams.schema import parse_schema

pytestmark = pytest.mark.unit

SCHEMA = parse_schema("t bigint, n int")
BUCKETS = Buckets(100_000)
ROWS = 400


class Crash(Exception):
    """The process is gone."""


class CrashingDisk(FileDisk):
    """Fails at the n-th write or sync, as a killed process would."""

    left = 1 << 60

    def _spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash

    def append(self, name: str, data: bytes) -> None:
        self._spend()
        if self.left == 0:
            data = data[: len(data) // 2]
        super().append(name, data)

    def sync(self, name: str) -> None:
        self._spend()
        super().sync(name)


@pytest.fixture(autouse=True)
def many_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module.file_blocks, "__defaults__", (300,))
    monkeypatch.setattr(proxy_module, "CLOSE_ROWS", 20)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Rows out of order, some later than any slack, some malformed."""
    rng = random.Random(5)
    lines = ["t,n"]
    for number in range(ROWS):
        jitter = rng.choice([0, 0, 0, -60_000, -150_000, -900_000])
        when = 5_000_000 + number * 9_000 + jitter
        lines.append("oops" if number % 37 == 5 else f"{when},{number}")
    path = tmp_path / "data.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def source(path: Path, slack_us: int = 200_000, **options: Any) -> Source:
    return Source(
        name="s",
        kind="csv",
        schema=SCHEMA,
        time="t",
        slack_us=slack_us,
        options={"path": str(path), **options},
    )


def make(
    given: Source,
    state: Path,
    *,
    disk: FileDisk | None = None,
    on_append: Callable[[str], None] = lambda name: None,
    **more: Any,
) -> SourceProxy:
    log = StableLog(disk or FileDisk(state / "logs" / "s"), SCHEMA, BUCKETS, segment_bytes=2_000)
    return SourceProxy(given, log, state, base=state, on_append=on_append, **more)


def run(given: Source, state: Path, **more: Any) -> SourceProxy:
    proxy = make(given, state, **more)
    proxy.start()
    assert proxy.join(20)
    return proxy


def outcome(state: Path) -> dict[str, bytes]:
    """Everything a source leaves behind, apart from how its appends were grouped."""
    found = {p.name: p.read_bytes() for p in (state / "logs" / "s").glob("*.seg")}
    side = {name: state / name / "s.jsonl" for name in ("rejected", "late")}
    return found | {name: p.read_bytes() if p.exists() else b"" for name, p in side.items()}


def tuples(state: Path) -> list[dict[str, Any]]:
    log = StableLog(FileDisk(state / "logs" / "s"), SCHEMA, BUCKETS)
    return [row for _, batch in log.read(-1, BUCKETS.last) for row in batch.to_pylist()]


@pytest.fixture
def expected(data: Path, tmp_path: Path) -> dict[str, bytes]:
    proxy = run(source(data), tmp_path / "expected")
    assert proxy.error is None
    return outcome(tmp_path / "expected")


def test_every_row_is_somewhere_once(data: Path, tmp_path: Path) -> None:
    proxy = run(source(data), tmp_path / "a")
    stats = proxy.stats
    assert stats.rejected == ROWS // 37 + 1
    assert stats.late > 20
    assert stats.rows + stats.rejected + stats.late == ROWS
    assert (stats.ended, stats.boundary_us) == (True, END_OF_STREAM_US)
    logged = [row["n"] for row in tuples(tmp_path / "a")]
    late = [json.loads(line) for line in (tmp_path / "a/late/s.jsonl").read_text().splitlines()]
    rejected = [
        json.loads(line) for line in (tmp_path / "a/rejected/s.jsonl").read_text().splitlines()
    ]
    assert sorted(logged + [row["n"] for row in late]) == [n for n in range(ROWS) if n % 37 != 5]
    assert rejected[0] == {
        "source": "s", "line": 7, "reason": "has 1 columns, not 2", "raw": "oops",
    }  # fmt: skip
    assert all(row["_stime"] <= row["boundary"] for row in late)
    assert len(late) == stats.late


def test_what_is_told_of_late_rows_does_not_depend_on_chunks(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(source(data), tmp_path / "small")
    monkeypatch.setattr(lines_module.file_blocks, "__defaults__", (1 << 20,))
    monkeypatch.setattr(proxy_module, "CLOSE_ROWS", 100_000)
    run(source(data), tmp_path / "large")
    late = [(tmp_path / name / "late/s.jsonl").read_bytes() for name in ("small", "large")]
    assert late[0] == late[1]
    assert len({json.loads(line)["boundary"] for line in late[0].splitlines()}) > 10


def test_slack_decides_who_is_late(data: Path, tmp_path: Path) -> None:
    late = [
        run(source(data, slack_us=slack), tmp_path / str(slack)).stats.late
        for slack in (0, 100_000, 200_000, 1_000_000)
    ]
    assert late == sorted(late, reverse=True)
    assert late[0] > late[2] > late[3] == 0


def test_stopped_after_every_append_and_started_again(
    data: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    state = tmp_path / "stopped"
    for _ in range(100):
        proxy = make(source(data), state, on_append=lambda name: proxy.stop())  # noqa: B023
        proxy.start()
        assert proxy.join(20)
        assert proxy.error is None
        if proxy.stats.ended:
            break
    assert outcome(state) == expected


def test_crashed_at_every_write_of_the_log(
    data: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    for at in range(1, 60, 3):
        state = tmp_path / f"crash{at}"
        disk = CrashingDisk(state / "logs" / "s")
        disk.left = at
        proxy = run(source(data), state, disk=disk)
        assert isinstance(proxy.error, Crash)
        again = run(source(data), state)
        assert again.error is None
        assert outcome(state) == expected, at


def test_a_chain_of_crashes(data: Path, tmp_path: Path, expected: dict[str, bytes]) -> None:
    state, rng = tmp_path / "chain", random.Random(1)
    for _ in range(200):
        disk = CrashingDisk(state / "logs" / "s")
        disk.left = rng.randrange(2, 14)
        proxy = run(source(data), state, disk=disk)
        if proxy.error is None:
            break
        for side in ("late", "rejected"):  # a crash may tear the side files as well
            with (state / side / "s.jsonl").open("ab") as file:
                file.write(b'{"source": "s", "li')
    assert proxy.stats.ended
    assert outcome(state) == expected


def test_pacing_changes_nothing_but_when(
    data: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    state = tmp_path / "paced"
    for appends in (3, 5, 1000):
        count = 0

        def stop_soon(name: str) -> None:
            nonlocal count
            count += 1
            if count == appends:  # noqa: B023
                proxy.stop()  # noqa: B023

        proxy = make(source(data, speed=20), state, on_append=stop_soon)
        proxy.start()
        assert proxy.join(20)
        assert proxy.error is None
    assert proxy.stats.ended
    assert outcome(state) == expected


def test_in_a_gap_the_boundary_follows_the_paced_clock(tmp_path: Path) -> None:
    (tmp_path / "gap.csv").write_text("t,n\n5000000,1\n9000000,2\n")
    boundaries: list[int] = []
    proxy = make(
        source(tmp_path / "gap.csv", slack_us=0, speed=10),
        tmp_path / "gap",
        on_append=lambda name: boundaries.append(proxy.stats.boundary_us),
    )
    began = time.monotonic()
    proxy.start()
    assert proxy.join(20)
    assert 0.35 < time.monotonic() - began < 2.0
    in_gap = [b for b in boundaries if 5_000_000 <= b < 9_000_000]
    assert len(in_gap) >= 10
    assert boundaries == sorted(boundaries)
    assert [row["n"] for row in tuples(tmp_path / "gap")] == [1, 2]


def test_stop_is_immediate_while_pacing(tmp_path: Path) -> None:
    (tmp_path / "gap.csv").write_text("t,n\n5000000,1\n5000000000,2\n")
    proxy = make(source(tmp_path / "gap.csv", speed=1), tmp_path / "gap")
    proxy.start()
    time.sleep(0.1)
    began = time.monotonic()
    proxy.stop()
    assert proxy.join(5)
    assert time.monotonic() - began < 0.3
    assert not proxy.stats.ended


def test_an_ended_log_needs_no_source(data: Path, tmp_path: Path) -> None:
    state = tmp_path / "ended"
    first = run(source(data), state)
    data.unlink()
    again = run(source(data), state)
    assert again.error is None
    assert again.stats == first.stats


def test_it_waits_for_its_readers(data: Path, tmp_path: Path) -> None:
    is_free = False
    proxy = make(source(data), tmp_path / "full", room=lambda: is_free)
    proxy.start()
    time.sleep(0.2)
    waiting = proxy.stats.rows
    assert 0 < waiting < 60
    time.sleep(0.1)
    assert proxy.stats.rows == waiting
    is_free = True
    assert proxy.join(20)
    assert proxy.stats.ended


def test_what_stops_it_is_kept_and_reported(data: Path, tmp_path: Path) -> None:
    errors: list[BaseException] = []
    proxy = make(source(data), tmp_path / "gone", on_error=errors.append)
    data.unlink()
    proxy.start()
    assert proxy.join(20)
    assert isinstance(proxy.error, Stopped)
    assert "cannot read" in str(proxy.error)
    assert errors == [proxy.error]


def test_rows_whose_time_ids_cannot_express(tmp_path: Path) -> None:
    """They count as rows for the reader but not for the log; a restart must not be misled."""
    buckets = Buckets(10_000)
    beyond = buckets.max_stime_us + 1
    lines = ["t,n"] + [f"{beyond if n % 5 == 0 else n * 4_000},{n}" for n in range(1, 60)]
    (tmp_path / "far.csv").write_text("\n".join(lines) + "\n")
    given = source(tmp_path / "far.csv", slack_us=0)

    def attempt(state: Path, stop_at: int) -> SourceProxy:
        log = StableLog(FileDisk(state / "logs" / "s"), SCHEMA, buckets)
        seen: list[str] = []

        def count(name: str) -> None:
            seen.append(name)
            if len(seen) == stop_at:
                proxy.stop()

        proxy = SourceProxy(given, log, state, base=state, on_append=count)
        proxy.start()
        assert proxy.join(20)
        return proxy

    whole = attempt(tmp_path / "whole", 1 << 30)
    assert (whole.stats.rows, whole.stats.rejected) == (48, 11)
    for _ in range(20):
        parts = attempt(tmp_path / "parts", 1)
    assert parts.stats.ended
    assert parts.stats == whole.stats
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")


def test_a_copy_taken_at_every_append_goes_on_to_the_same_end(
    data: Path, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    state, copies = tmp_path / "live", []

    def copy(name: str) -> None:
        copies.append(tmp_path / f"copy{len(copies)}")
        shutil.copytree(state, copies[-1])

    run(source(data), state, on_append=copy)
    assert len(copies) > 10
    for taken in copies[::3]:
        assert run(source(data), taken).error is None
        assert outcome(taken) == expected


def test_generated_rows_resume_in_the_middle(tmp_path: Path) -> None:
    from australis.runtime.sources.generate import CONNECTIONS

    given = Source(
        name="s", kind="generate", schema=CONNECTIONS, time="time",
        options={"generator": "connections", "rate": 500, "duration": "120 s"},
    )  # fmt: skip

    def attempt(state: Path, once: bool) -> dict[str, bytes]:
        while True:
            log = StableLog(FileDisk(state / "logs" / "s"), CONNECTIONS, Buckets())
            stop = (lambda name: proxy.stop()) if once else (lambda name: None)  # noqa: B023
            proxy = SourceProxy(given, log, state, base=state, on_append=stop)
            proxy.start()
            assert proxy.join(20)
            assert proxy.error is None
            if proxy.stats.ended:
                return {p.name: p.read_bytes() for p in (state / "logs" / "s").glob("*.seg")}

    assert attempt(tmp_path / "parts", True) == attempt(tmp_path / "whole", False)


def test_batches_in_the_log_have_the_schema(data: Path, tmp_path: Path) -> None:
    run(source(data), tmp_path / "a")
    log = StableLog(FileDisk(tmp_path / "a" / "logs" / "s"), SCHEMA, BUCKETS)
    batches = [batch for _, batch in log.read(-1, BUCKETS.last)]
    ids = pa.concat_batches(batches).column("_id").to_pylist()
    assert ids == sorted(set(ids))
    stimes = pa.concat_batches(batches).column("_stime").cast(pa.int64()).to_pylist()
    assert stimes == sorted(stimes) == pa.concat_batches(batches).column("t").to_pylist()


# --- a full log ---------------------------------------------------------------------------------


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_file_is_not_read_on_while_the_log_is_full(data: Path, tmp_path: Path) -> None:
    full = True
    log = StableLog(FileDisk(tmp_path / "logs" / "s"), SCHEMA, BUCKETS)
    proxy = SourceProxy(
        source(data), log, tmp_path, base=tmp_path, on_append=lambda name: None,
        full=lambda: full or log.kept_bytes > 2_000,
    )  # fmt: skip
    proxy.start()
    time.sleep(0.2)
    assert log.last_bucket is None, "full from the beginning"
    full = False
    until(lambda: log.kept_bytes > 2_000)
    held, rows = log.kept_bytes, proxy.stats.rows
    time.sleep(0.2)
    assert (log.kept_bytes, proxy.stats.rows) == (held, rows)
    while not proxy.stats.ended:
        if log.last_bucket is not None:
            log.truncate(log.last_bucket)
        time.sleep(0.01)
    assert proxy.join(20)


def test_what_is_pushed_is_not_acknowledged_while_the_log_is_full(tmp_path: Path) -> None:
    full = True
    given = Source(name="s", kind="push", schema=SCHEMA, time="t", options={})
    proxy = make(given, tmp_path, full=lambda: full)
    proxy.start()
    handle = proxy.push_handle
    assert handle is not None
    pushed = threading.Thread(target=handle.push, args=([{"t": 5_000_000, "n": 1}],))
    pushed.start()
    pushed.join(0.3)
    assert pushed.is_alive()
    full = False
    pushed.join(20)
    assert not pushed.is_alive()
    proxy.stop()
    assert proxy.join(20)
