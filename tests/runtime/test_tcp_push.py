"""Rows that cannot be asked for again: what was acknowledged is never lost, whatever happens."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from streams.sim_disk import SimDisk

from australis.diagram.model import ARRIVAL, Source
from australis.kernel.errors import Damaged, Stopped, UserError
from australis.runtime.files import FileDisk
from australis.runtime.journal import SYNCED, Journal
from australis.runtime.proxy import SourceProxy
from australis.runtime.sources.inbox import Inbox
from australis.runtime.sources.push import PushHandle
from australis.runtime.sources.tcp import LINE_BYTES
from australis.streams.buckets import Buckets
from australis.streams.log import StableLog
from australis.streams.schema import TIMESTAMP, Schema, parse_schema

PLAIN = parse_schema("n int, s string")
TIMED = parse_schema("t bigint, n int")
BUCKETS = Buckets(100_000)
START = 1_800_000_000_000_000


class Clock:
    """A clock that the test sets."""

    def __init__(self, now_us: int = START) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us


class Bench:
    """Proxies over one directory after another, all stopped at the end."""

    def __init__(self) -> None:
        self.proxies: list[SourceProxy] = []

    def start(
        self,
        state: Path,
        kind: str = "push",
        schema: Schema = PLAIN,
        clock: Any = None,
        time_column: str = ARRIVAL,
        slack_us: int = 0,
        idle_us: int | None = None,
        max_ahead_us: int | None = None,
        rejected_bytes: int = 1_000_000,
        **options: Any,
    ) -> SourceProxy:
        source = Source(
            name="s",
            kind=kind,
            schema=schema,
            time=time_column,
            slack_us=slack_us,
            idle_us=idle_us,
            max_ahead_us=max_ahead_us,
            rejected_bytes=rejected_bytes,
            options=options,
        )
        log = StableLog(FileDisk(state / "logs"), schema, BUCKETS)
        more = {} if clock is None else {"clock": clock}
        proxy = SourceProxy(source, log, state, base=state, on_append=lambda name: None, **more)
        self.proxies.append(proxy)
        proxy.start()
        return proxy


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    for proxy in made.proxies:
        proxy.stop()
    for proxy in made.proxies:
        assert proxy.join(10)


def logged(state: Path, schema: Schema = PLAIN) -> list[dict[str, Any]]:
    log = StableLog(FileDisk(state / "logs"), schema, BUCKETS)
    return [row for _, batch in log.read(-1, BUCKETS.last) for row in batch.to_pylist()]


def handle(proxy: SourceProxy) -> PushHandle:
    assert proxy.push_handle is not None
    return proxy.push_handle


def finish(proxy: SourceProxy) -> None:
    handle(proxy).end()
    assert proxy.join(10)
    assert proxy.error is None


def until(condition: Any, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


# --- pushing ---------------------------------------------------------------------


def test_dicts_frames_tables_and_batches(tmp_path: Path, bench: Bench) -> None:
    proxy = bench.start(tmp_path)
    push = handle(proxy).push
    push([{"n": 1, "s": "a"}, {"n": 2}])
    push(pd.DataFrame({"s": ["c", None], "n": [3, 4]}))
    push(pa.table({"n": pa.array([5], pa.int64()), "s": pa.array(["e"], pa.large_string())}))
    push(
        pa.RecordBatch.from_arrays(
            [pa.array([6], pa.int32()), pa.array(["f"])], schema=PLAIN.attributes
        )
    )
    push([])
    finish(proxy)
    rows = logged(tmp_path)
    assert [(row["n"], row["s"]) for row in rows] == [
        (1, "a"), (2, None), (3, "c"), (4, None), (5, "e"), (6, "f"),
    ]  # fmt: skip
    assert proxy.stats.rows == 6
    assert not list((tmp_path / "journal" / "s").glob("*.rows"))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"n": 1}, {"n": "x"}], "row 1, column 'n': 'x' does not fit int"),
        ([{"n": 1}, {"n": 2**40}], "row 1, column 'n': 1099511627776 does not fit int"),
        ([{"n": 1}, {"m": 1}], "row 1 has the unknown column 'm'"),
        ([{"n": 1}, 5], "row 1 is a int, not a dict"),
        ("rows", "a str is neither a list of dicts"),
        (pd.DataFrame({"n": [1, 2, None], "s": ["", "", ""], "z": [1, 1, 1]}), "'z' is unknown"),
        (pd.DataFrame({"n": [1, 2.5], "s": ["", ""]}), "row 1, column 'n': .*2.5.* does not fit"),
        (pa.table({"n": [1]}), "the column 's' is missing"),
        (pa.table({"n": [1, 2**40], "s": ["", ""]}), "row 1, column 'n'"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_whole(
    tmp_path: Path, bench: Bench, rows: Any, said: str
) -> None:
    proxy = bench.start(tmp_path)
    with pytest.raises(UserError, match=said):
        handle(proxy).push(rows)
    handle(proxy).push([{"n": 7}])
    finish(proxy)
    assert [row["n"] for row in logged(tmp_path)] == [7]


def test_times_and_decimals_may_be_texts(tmp_path: Path, bench: Bench) -> None:
    schema = parse_schema("t timestamp, c decimal(6,2)")
    proxy = bench.start(tmp_path, schema=schema, time_column="t")
    handle(proxy).push([{"t": "2026-01-01T00:00:01Z", "c": "1.5"}])
    handle(proxy).push([{"t": datetime(2026, 1, 1, 0, 0, 2), "c": Decimal("2")}])
    with pytest.raises(UserError, match="row 0 has no value in the time column 't'"):
        handle(proxy).push([{"c": 1}])
    with pytest.raises(UserError, match=r"row 1 column 't': 1960.* is not a time after 1970"):
        handle(proxy).push([{"t": "2026-01-01"}, {"t": "1960-01-01"}])
    finish(proxy)
    rows = logged(tmp_path, schema)
    assert [(row["_stime"].second, row["c"]) for row in rows] == [
        (1, Decimal("1.50")), (2, Decimal("2.00")),
    ]  # fmt: skip


def test_many_threads_push_and_nothing_is_lost(tmp_path: Path, bench: Bench) -> None:
    proxy = bench.start(tmp_path)

    def work(base: int) -> None:
        for number in range(20):
            handle(proxy).push([{"n": base + number}])

    threads = [threading.Thread(target=work, args=(100 * t,)) for t in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    finish(proxy)
    rows = logged(tmp_path)
    assert sorted(row["n"] for row in rows) == [100 * t + n for t in range(6) for n in range(20)]
    stimes = [row["_stime"] for row in rows]
    assert stimes == sorted(stimes)
    for t in range(6):  # each thread's own order is kept
        mine = [row["n"] for row in rows if row["n"] // 100 == t]
        assert mine == sorted(mine)


def test_after_the_end_and_after_a_stop(tmp_path: Path, bench: Bench) -> None:
    proxy = bench.start(tmp_path)
    finish(proxy)
    with pytest.raises(UserError, match="has ended and takes no more rows"):
        handle(proxy).push([{"n": 1}])
    again = bench.start(tmp_path)
    with pytest.raises(UserError, match="has ended"):
        handle(again).push([{"n": 1}])
    stopped = bench.start(tmp_path / "other")
    stopped.stop()
    assert stopped.join(5)
    with pytest.raises(Stopped):
        handle(stopped).push([{"n": 1}])


def test_waiting_for_a_moment_ends() -> None:
    for _ in range(20_000):
        assert Inbox().take(1e-6) == []


# --- arrival stamps ----------------------------------------------------------------


def test_boundaries_follow_the_clock_without_data_and_keep_slack(
    tmp_path: Path, bench: Bench
) -> None:
    clock = Clock(START)
    proxy = bench.start(tmp_path, clock=clock, slack_us=300_000)
    until(lambda: proxy.stats.boundary_us == START - 400_000)
    clock.now_us = START + 1_000_001
    until(lambda: proxy.stats.boundary_us == START + 700_000)
    assert proxy.stats.rows == 0


def test_the_boundary_of_an_idle_source_survives_a_restart(tmp_path: Path, bench: Bench) -> None:
    live, crashed = tmp_path / "live", tmp_path / "crashed"
    clock = Clock(START)
    timed: dict[str, Any] = {"schema": TIMED, "time_column": "t", "idle_us": 1_000_000}
    proxy = bench.start(live, clock=clock, **timed)
    handle(proxy).push([{"t": START, "n": 1}])
    clock.now_us = START + 5_000_001
    until(lambda: proxy.stats.idle)
    until(lambda: proxy.stats.boundary_us == START + 5_000_000)
    shutil.copytree(live, crashed)
    again = bench.start(crashed, clock=Clock(START), **timed)
    assert again.stats.boundary_us == START + 5_000_000
    handle(again).push([{"t": START + 4_000_000, "n": 2}, {"t": START + 5_000_001, "n": 3}])
    assert not again.stats.idle
    finish(again)
    assert [row["n"] for row in logged(crashed, TIMED)] == [1, 3]
    (late,) = (crashed / "late/s.jsonl").read_text().splitlines()
    assert json.loads(late)["n"] == 2


def test_stamps_never_fall_below_the_boundary_whatever_the_clock_does(
    tmp_path: Path, bench: Bench
) -> None:
    clock = Clock(START)
    proxy = bench.start(tmp_path, clock=clock)
    handle(proxy).push([{"n": 1}])
    clock.now_us = START + 5_000_001
    until(lambda: proxy.stats.boundary_us == START + 5_000_000)
    clock.now_us = START - 60_000_000
    handle(proxy).push([{"n": 2}])
    proxy.stop()
    assert proxy.join(5)
    clock.now_us = START - 3_600_000_000
    again = bench.start(tmp_path, clock=clock)
    handle(again).push([{"n": 3}])
    assert again.stats.boundary_us == START + 5_000_000
    caught_up = START + 3_620_000_000
    clock.now_us = caught_up
    handle(again).push([{"n": 4}])
    finish(again)
    rows = logged(tmp_path)
    assert [row["n"] for row in rows] == [1, 2, 3, 4]
    micros = [int(row["_stime"].timestamp() * 1_000_000) for row in rows]
    assert micros[0] == START
    assert START + 5_000_000 < micros[1] <= micros[2] < micros[3] == caught_up


def test_a_stream_goes_on_after_a_restart_with_the_clock_an_hour_back(
    tmp_path: Path, bench: Bench
) -> None:
    proxy = bench.start(tmp_path, clock=Clock(START))
    handle(proxy).push([{"n": 1}])
    proxy.stop()
    assert proxy.join(5)
    before = proxy.stats.boundary_us
    clock = Clock(START - 3_600_000_000)
    again = bench.start(tmp_path, clock=clock)
    handle(again).push([{"n": 2}])
    clock.now_us += 2_000_000
    until(lambda: again.stats.boundary_us >= before + 900_000)
    assert again.stats.rows == 2, "what came after the restart is in the log already"
    assert 3_590_000_000 < again.stats.ahead_us < 3_600_000_000
    finish(again)
    first, second = (row["_stime"] for row in logged(tmp_path))
    assert first <= second


def test_a_boundary_without_rows_binds_the_next_run_too(tmp_path: Path, bench: Bench) -> None:
    proxy = bench.start(tmp_path, clock=Clock(START))
    until(lambda: proxy.stats.boundary_us == START - 100_000)
    proxy.stop()
    assert proxy.join(5)
    again = bench.start(tmp_path, clock=Clock(START - 3_600_000_000))
    handle(again).push([{"n": 1}])
    finish(again)
    (row,) = logged(tmp_path)
    assert int(row["_stime"].timestamp() * 1_000_000) == START - 100_000 + 1
    assert again.stats.late == 0


# --- the journal ---------------------------------------------------------------------


def test_acknowledged_rows_survive_a_crash_before_the_log_has_them(
    tmp_path: Path, bench: Bench
) -> None:
    live, crashed = tmp_path / "live", tmp_path / "crashed"
    proxy = bench.start(live, clock=Clock())
    for number in range(5):
        handle(proxy).push([{"n": number}, {"n": number + 100}])
    assert logged(live) == []
    shutil.copytree(live, crashed)  # the process is killed here
    again = bench.start(crashed, clock=Clock(START + 50))
    handle(again).push([{"n": 999}])
    finish(again)
    expected = [n for number in range(5) for n in (number, number + 100)] + [999]
    assert [row["n"] for row in logged(crashed)] == expected


def test_a_crash_after_any_append_repeats_and_loses_nothing(tmp_path: Path) -> None:
    """The copy is taken on the proxy's own thread: nothing else writes at that moment."""
    state, copies, clock = tmp_path / "live", [], Clock()
    source = Source(name="s", kind="push", schema=PLAIN)

    def copy(name: str) -> None:
        copies.append((tmp_path / f"copy{len(copies)}", acknowledged[-1] if acknowledged else -1))
        shutil.copytree(state, copies[-1][0])

    acknowledged: list[int] = []
    log = StableLog(FileDisk(state / "logs"), PLAIN, BUCKETS)
    proxy = SourceProxy(source, log, state, base=state, on_append=copy, clock=clock)
    proxy.start()
    for number in range(12):
        handle(proxy).push([{"n": number}])
        acknowledged.append(number)
        clock.now_us += 60_000
    finish(proxy)
    assert len(copies) > 4
    for taken, last in copies:
        again_log = StableLog(FileDisk(taken / "logs"), PLAIN, BUCKETS)
        again = SourceProxy(
            source, again_log, taken, base=taken, on_append=lambda name: None, clock=clock
        )
        again.start()
        if not again.stats.ended:
            handle(again).end()
        assert again.join(5)
        numbers = [row["n"] for row in logged(taken)]
        assert numbers == list(range(len(numbers)))
        assert len(numbers) > last


@pytest.mark.parametrize("damage", ["garbage", "half a record", "zeros"])
def test_a_torn_journal_record_is_cut(tmp_path: Path, bench: Bench, damage: str) -> None:
    live, crashed = tmp_path / "live", tmp_path / "crashed"
    proxy = bench.start(live, clock=Clock())
    handle(proxy).push([{"n": 1}])
    segment = next((live / "journal" / "s").glob("*.rows"))
    whole, mark = segment.stat().st_size, segment.with_name(SYNCED).read_bytes()
    handle(proxy).push([{"n": 2}])
    shutil.copytree(live, crashed)
    torn = crashed / "journal" / "s" / segment.name
    data = torn.read_bytes()
    tails = {"garbage": b"\xff" * 50, "half a record": data[whole : whole + 40], "zeros": bytes(64)}
    torn.write_bytes(data[:whole] + tails[damage])
    torn.with_name(SYNCED).write_bytes(mark)
    again = bench.start(crashed, clock=Clock(START + 10))
    handle(again).push([{"n": 3}])
    until(lambda: again.stats.boundary_us > 0)
    crashed_again = tmp_path / "again"
    again.stop()
    assert again.join(5)
    shutil.copytree(crashed, crashed_again)
    last = bench.start(crashed_again)
    finish(last)
    assert [row["n"] for row in logged(crashed_again)] == [1, 3]


def test_late_rows_of_a_time_column_are_counted_once(tmp_path: Path, bench: Bench) -> None:
    live, crashed = tmp_path / "live", tmp_path / "crashed"
    proxy = bench.start(live, schema=TIMED, time_column="t", slack_us=100_000)
    for second, number in ((1.0, 1), (2.0, 2), (1.95, 3), (0.5, 4), (2.05, 5), (0.6, 6)):
        handle(proxy).push([{"t": int(second * 1_000_000), "n": number}])
    until(lambda: proxy.stats.boundary_us == 1_900_000)
    shutil.copytree(live, crashed)
    again = bench.start(crashed, schema=TIMED, time_column="t", slack_us=100_000)
    handle(again).push([{"t": 700_000, "n": 7}])
    finish(again)
    assert [row["n"] for row in logged(crashed, TIMED)] == [1, 3, 2, 5]
    late = [json.loads(line) for line in (crashed / "late/s.jsonl").read_text().splitlines()]
    assert [row["n"] for row in late] == [4, 6, 7]
    assert late[0]["_stime"] == "1970-01-01T00:00:00.500000Z"
    assert again.stats.late == 3
    assert again.stats.rows == 4


def rows_of(*numbers: int) -> pa.RecordBatch:
    schema = pa.schema([pa.field("_stime", TIMESTAMP), pa.field("n", pa.int32())])
    return pa.RecordBatch.from_arrays(
        [pa.array(numbers, TIMESTAMP), pa.array(numbers, pa.int32())], schema=schema
    )


def numbers_in(journal: Journal, first: int) -> list[int]:
    return [n for batch in journal.rows_from(first) for n in batch.column("n").to_pylist()]


def test_journal_segments_go_when_the_log_has_their_rows(tmp_path: Path) -> None:
    schema = rows_of(0).schema
    journal = Journal(FileDisk(tmp_path), schema, segment_bytes=1)
    for number in range(5):
        journal.append(2 * number, rows_of(2 * number, 2 * number + 1))
    assert numbers_in(journal, 3) == [3, 4, 5, 6, 7, 8, 9]
    journal.forget(5)
    assert len(list(tmp_path.glob("*.rows"))) == 3
    again = Journal(FileDisk(tmp_path), schema, segment_bytes=1)
    assert again.next_row == 10
    assert numbers_in(again, 5) == [5, 6, 7, 8, 9]
    with pytest.raises(Stopped, match="the journal lacks the rows 1 to 3"):
        numbers_in(again, 1)
    again.forget(10)
    assert not list(tmp_path.glob("*.rows"))
    assert Journal(FileDisk(tmp_path), schema, segment_bytes=1).next_row is None


def test_damage_in_the_middle_of_the_journal_is_not_passed_over(tmp_path: Path) -> None:
    journal = Journal(FileDisk(tmp_path), rows_of(0).schema)
    for number in range(3):
        journal.append(number, rows_of(number))
    (segment,) = tmp_path.glob("*.rows")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)
    with pytest.raises(Stopped, match="is damaged at byte"):
        Journal(FileDisk(tmp_path), rows_of(0).schema)


def disk_with(files: dict[str, bytes]) -> SimDisk:
    disk = SimDisk()
    for name, data in files.items():
        disk.replace(name, data)
    return disk


@pytest.mark.parametrize("segment_bytes", [1 << 20, 1], ids=["one segment", "a segment each"])
def test_damage_of_a_journal_never_loses_a_row_silently(segment_bytes: int) -> None:
    """Any byte of any file is flipped, and any file is cut anywhere, or lost."""
    disk, schema = SimDisk(), rows_of(0).schema
    journal = Journal(disk, schema, segment_bytes=segment_bytes)
    for number in range(3):
        journal.append(number, rows_of(number))
    whole, found = disk.content(), {"same": 0, "damaged": 0}

    def tried(files: dict[str, bytes]) -> None:
        try:
            assert numbers_in(Journal(disk_with(files), schema), 0) == [0, 1, 2], files
            found["same"] += 1
        except Damaged:
            found["damaged"] += 1

    for name, data in whole.items():
        tried({other: before for other, before in whole.items() if other != name})
        for at in range(len(data)):
            flipped = bytearray(data)
            flipped[at] ^= 1 << at % 8
            tried(whole | {name: bytes(flipped)})
            tried(whole | {name: data[:at]})
    assert found["damaged"] > found["same"] > 0


def test_a_mark_outlives_a_power_cut_once_it_is_settled() -> None:
    disk = SimDisk()
    journal = Journal(disk, rows_of(0).schema)
    journal.append(0, rows_of(0))
    journal.append(1, rows_of(1))
    journal.settle()
    disk.crash()
    (name,) = (name for name in disk.names() if name.endswith(".rows"))
    disk.cut(name, disk.size(name) - 1)
    with pytest.raises(Damaged, match="rows 1 to 1 were written there and may have been ackn"):
        Journal(disk, rows_of(0).schema)


def test_a_journal_that_ends_before_the_log_is_noticed(tmp_path: Path, bench: Bench) -> None:
    proxy = bench.start(tmp_path, schema=TIMED, time_column="t")
    handle(proxy).push([{"t": 1_000_000, "n": 1}])
    handle(proxy).push([{"t": 2_000_000, "n": 2}])
    until(lambda: proxy.stats.boundary_us >= 1_900_000)
    proxy.stop()
    assert proxy.join(5)
    shutil.rmtree(tmp_path / "journal")
    again = bench.start(tmp_path, schema=TIMED, time_column="t")
    assert again.join(5)
    assert "ends at row 1, but its log knows of 2" in str(again.error)


# --- TCP -------------------------------------------------------------------------------


def connect(proxy: SourceProxy) -> socket.socket:
    assert proxy.listener is not None
    connection = socket.create_connection(proxy.listener.address, timeout=5)
    connection.settimeout(5)
    return connection


def test_lines_are_acknowledged_once_durable(tmp_path: Path, bench: Bench) -> None:
    live, crashed = tmp_path / "live", tmp_path / "crashed"
    proxy = bench.start(live, kind="tcp", clock=Clock(), address="127.0.0.1:0", ack=True)
    with connect(proxy) as connection, connection.makefile("rb") as replies:
        connection.sendall(b'{"n": 1, "s": "a"}\n{"n": 2}\nnonsense\n{"n": "x"}\n{"n": 3}\n')
        while int(replies.readline()) < 5:
            pass
        shutil.copytree(live, crashed)
        connection.sendall(b'{"n": 4}')
    until(lambda: proxy.stats.rejected == 2)
    later = Clock(START + 1_000_000)
    again = bench.start(crashed, kind="tcp", clock=later, address="127.0.0.1:0")
    until(lambda: again.stats.rows == 3)
    assert [row["n"] for row in logged(crashed)] == [1, 2, 3]
    lines = (crashed / "rejected" / "s.jsonl").read_text().splitlines()
    rejected = [json.loads(line) for line in lines]
    assert [(r["line"], r["raw"]) for r in rejected] == [(3, "nonsense"), (4, '{"n": "x"}')]
    assert rejected[0]["reason"].startswith("127.0.0.1:")
    assert again.stats.rejected == 2


HOUR_US = 3_600_000_000


def test_rows_far_ahead_of_the_clock_are_rejected(tmp_path: Path, bench: Bench) -> None:
    proxy = bench.start(
        tmp_path, kind="tcp", schema=TIMED, time_column="t", clock=Clock(START), unit="us",
        max_ahead_us=HOUR_US, address="127.0.0.1:0", ack=True,
    )  # fmt: skip
    times = [START, START + HOUR_US + 1, 4_102_444_800_000_000, START + 10]
    with connect(proxy) as connection, connection.makefile("rb") as replies:
        connection.sendall(b"".join(b'{"t": %d, "n": %d}\n' % (t, n) for n, t in enumerate(times)))
        while int(replies.readline()) < 4:
            pass
    assert (proxy.stats.rejected, proxy.stats.late) == (2, 0)
    lines = (tmp_path / "rejected" / "s.jsonl").read_text().splitlines()
    reason = json.loads(lines[1])["reason"]
    assert reason.endswith("column 't': 4102444800000000 is more than 60 min ahead of the clock")


def test_pushed_rows_far_ahead_of_the_clock_are_refused(tmp_path: Path, bench: Bench) -> None:
    proxy = bench.start(
        tmp_path, schema=TIMED, time_column="t", clock=Clock(START), unit="us", max_ahead_us=HOUR_US
    )
    handle(proxy).push([{"t": START + HOUR_US, "n": 1}])
    with pytest.raises(UserError, match=r"row 1 column 't': .* is more than .* ahead of the clock"):
        handle(proxy).push([{"t": START, "n": 1}, {"t": START + HOUR_US + 1, "n": 2}])


def test_many_malformed_lines_are_counted_and_few_are_kept(tmp_path: Path, bench: Bench) -> None:
    options = {"kind": "tcp", "address": "127.0.0.1:0", "ack": True, "rejected_bytes": 10_000}
    lines = 20_000
    clock = Clock()
    proxy = bench.start(tmp_path, clock=clock, **options)
    with connect(proxy) as connection, connection.makefile("rb") as replies:
        sender = threading.Thread(
            target=connection.sendall, args=(b"garbage\n" * lines + b'{"n": 1}\n',)
        )
        sender.start()
        while int(replies.readline()) < lines + 1:
            pass
        sender.join()
    assert proxy.stats.rejected == lines
    assert (tmp_path / "rejected" / "s.jsonl").stat().st_size <= 10_000
    clock.now_us += 1_000_000
    until(lambda: proxy.stats.rows == 1)
    proxy.stop()
    assert proxy.join(10)
    again = bench.start(tmp_path, clock=Clock(START + 2_000_000), **options)
    assert again.stats.rejected == lines


def test_a_long_line_is_rejected_and_the_connection_goes_on(tmp_path: Path, bench: Bench) -> None:
    proxy = bench.start(tmp_path, kind="tcp", address="127.0.0.1:0", ack=True)
    with connect(proxy) as connection, connection.makefile("rb") as replies:
        connection.sendall(b'{"n": 1}\n' + b"x" * (LINE_BYTES + 200_000) + b'\n{"n": 2}\n')
        while int(replies.readline()) < 3:
            pass
    until(lambda: proxy.stats.rows == 2)
    (line,) = (tmp_path / "rejected" / "s.jsonl").read_text().splitlines()
    told = json.loads(line)
    assert told["line"] == 2
    assert "longer than 1048576 bytes" in told["reason"]
    assert len(told["raw"]) < 3_000


def test_several_senders_and_a_time_column(tmp_path: Path, bench: Bench) -> None:
    proxy = bench.start(
        tmp_path,
        kind="tcp",
        schema=TIMED,
        time_column="t",
        address="127.0.0.1:0",
        unit="ms",
        ack=True,
    )
    connections = [connect(proxy) for _ in range(3)]
    for number, connection in enumerate(connections):
        for turn in range(50):
            connection.sendall(b'{"t": 1000, "n": %d}\n' % (number * 50 + turn))
    connections[0].sendall(b'{"n": 1}\n{"t": -5, "n": 1}\n')
    for connection in connections:  # a row at 9 s makes those at 1 s late: first have them all
        with connection, connection.makefile("rb") as replies:
            while int(replies.readline()) < (52 if connection is connections[0] else 50):
                pass
    assert proxy.stats.rejected == 2
    with connect(proxy) as connection:
        connection.sendall(b'{"t": 9000, "n": -1}')
    until(lambda: proxy.stats.rows == 150)
    rows = logged(tmp_path, TIMED)
    assert sorted(row["n"] for row in rows) == list(range(150))
    assert {row["_stime"] for row in rows} == {datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}


def test_an_address_in_use_is_a_user_error(tmp_path: Path, bench: Bench) -> None:
    proxy = bench.start(tmp_path / "a", kind="tcp", address="127.0.0.1:0")
    assert proxy.listener is not None
    port = proxy.listener.address[1]
    with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1:{port}: Address already"):
        bench.start(tmp_path / "b", kind="tcp", address=f"127.0.0.1:{port}")
    proxy.stop()
    assert proxy.join(5)
