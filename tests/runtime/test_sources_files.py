"""CSV, JSON lines and Parquet: what is read, what is rejected, and how it is paced."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from australis.diagram.model import Source
from australis.kernel.errors import Place, UserError
from australis.runtime.sources import Chunk, Rejected, check_options, open_reader
from australis.runtime.sources import lines as lines_module
from australis.runtime.sources.lines import LineSplitter
from australis.runtime.sources.replay import Pacer, RowRelease, stamped
from australis.streams.buckets import Buckets, stime_values
from australis.streams.schema import parse_schema

pytestmark = pytest.mark.unit

SCHEMA = "time timestamp, src string, port int"


def source(
    kind: str, path: Any, schema: str = SCHEMA, time: str = "time", **options: Any
) -> Source:
    return Source(
        name="s",
        kind=kind,
        schema=parse_schema(schema),
        time=time,
        options={"path": path, **options},
        place=Place("d.yaml", 3),
    )


def read(given: Source, base: Path, skip: int = 0) -> tuple[list[dict[str, Any]], list[Rejected]]:
    reader = open_reader(given, base)
    assert reader is not None
    chunks = list(reader.chunks(skip))
    for chunk in chunks:
        assert chunk.rows.schema == given.schema.attributes
    rows = [row for chunk in chunks for row in chunk.rows.to_pylist()]
    return rows, [one for chunk in chunks for one in chunk.rejected]


def at(second: int, micro: int = 0) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, micro, UTC)


# --- CSV -----------------------------------------------------------------------


def test_csv_columns_by_name_nulls_and_quotes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(
        b"\xef\xbb\xbfport,extra,time,src\r\n"
        b'80,x,2026-01-01T00:00:01Z,"a ""b"", c"\r\n'
        b"\r\n"
        b",y,2026-01-01 00:00:02,\r\n"
        b' 22 ,z,2026-01-01T01:00:03.5+01:00,""'
    )
    rows, rejected = read(source("csv", "a.csv"), tmp_path)
    assert rows == [
        {"time": at(1), "src": 'a "b", c', "port": 80},
        {"time": at(2), "src": None, "port": None},
        {"time": at(3, 500_000), "src": "", "port": 22},
    ]
    assert rejected == []


def test_csv_bad_rows_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(
        b"time,src,port\n"
        b"2026-01-01T00:00:01Z,a,1\n"
        b"2026-01-01T00:00:02Z,b\n"
        b"\n"
        b"2026-01-01T00:00:03Z,c,http\n"
        b",d,4\n"
        b'2026-01-01T00:00:05Z,"e,5\n'
        b"2026-01-01T00:00:06Z,\xff,6\n"
        b"1969-12-31T00:00:00Z,g,7\n"
        b"yesterday,h,8\n"
        b"2026-01-01T00:00:09.123456789Z,i,9\n"
    )
    rows, rejected = read(source("csv", "a.csv"), tmp_path)
    assert [row["port"] for row in rows] == [1, 9]
    assert rows[1]["time"] == at(9, 123_456)
    assert [(r.line, r.reason) for r in rejected] == [
        (3, "has 2 columns, not 3"),
        (5, "column 'port': 'http' does not fit int"),
        (6, "has no value in the time column 'time'"),
        (7, "has a quote without its pair"),
        (8, "is not UTF-8"),
        (
            9,
            "column 'time': 1969-12-31 00:00:00+00:00 is not a time after 1970 that a stream can carry",
        ),
        (10, "column 'time': 'yesterday' does not fit timestamp"),
    ]
    assert rejected[1].raw == "2026-01-01T00:00:03Z,c,http"


def test_every_type_in_csv(tmp_path: Path) -> None:
    schema = (
        "t bigint, b boolean, y tinyint, l bigint, f float, d double,"
        " s string, x binary, c decimal(10,2), day date"
    )
    (tmp_path / "a.csv").write_text(
        "t,b,y,l,f,d,s,x,c,day\n"
        "1700000000,true,-3,9007199254740993,1.5,-inf, keep ,aGk=,12.3,2026-02-03\n"
        "1700000001,,300,,,,,,1.234,\n"
    )
    rows, rejected = read(source("csv", "a.csv", schema, "t", unit="s"), tmp_path)
    assert rows == [
        {
            "t": 1_700_000_000, "b": True, "y": -3, "l": 9007199254740993, "f": 1.5,
            "d": float("-inf"), "s": " keep ", "x": b"hi", "c": Decimal("12.30"),
            "day": date(2026, 2, 3),
        }
    ]  # fmt: skip
    assert [(r.line, r.reason) for r in rejected] == [(3, "column 'y': '300' does not fit tinyint")]


def test_several_files_globs_and_compression(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, second in (("b.csv", 2), ("a.csv", 1)):
        (tmp_path / "in" / name).write_text(f"time,src,port\n2026-01-01T00:00:0{second}Z,x,y\n" * 1)
    with gzip.open(tmp_path / "in" / "c.csv.gz", "wt") as file:
        file.write("src,port,time\nz,3,2026-01-01T00:00:03Z\n")
    rows, rejected = read(source("csv", "in/*.csv*"), tmp_path)
    assert [row["src"] for row in rows] == ["z"]
    assert [r.reason for r in rejected] == [
        "a.csv: column 'port': 'y' does not fit int",
        "b.csv: column 'port': 'y' does not fit int",
    ]
    listed, _ = read(source("csv", ["in/c.csv.gz", "in/c.csv.gz"]), tmp_path)
    assert [row["port"] for row in listed] == [3, 3]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_mistakes_in_paths_and_headers(tmp_path: Path, kind: str) -> None:
    def said(path: Any) -> str:
        with pytest.raises(UserError) as mistake:
            check_options(source(kind, path), tmp_path)
        assert str(mistake.value).startswith("d.yaml:3: 's' ")
        return str(mistake.value)

    (tmp_path / "dir").mkdir()
    assert "names a file that does not exist" in said("none.x")
    assert "matches no file" in said("*.none")
    assert "names a directory" in said("dir")
    assert "a path or a list of paths" in said([])
    if kind == "csv":
        (tmp_path / "empty.csv").write_text("")
        (tmp_path / "other.csv").write_text("time,src\n")
        assert "has no header line" in said("empty.csv")
        assert "no column 'port' (its columns: time, src)" in said("other.csv")
    if kind == "parquet":
        (tmp_path / "no.parquet").write_text("not parquet at all")
        assert "is not a Parquet file" in said("no.parquet")
        pq.write_table(pa.table({"time": [1]}), tmp_path / "less.parquet")
        assert "no column 'src'" in said("less.parquet")


def test_mistakes_in_options() -> None:
    def said(given: Source) -> str:
        with pytest.raises(UserError) as mistake:
            check_options(given)
        return mistake.value.sentence

    assert said(source("csv", "a", pth=1)) == "has an unknown option 'pth' (did you mean 'path'?)"
    assert "is not 'max' or a number above 0" in said(source("csv", "a", speed=0))
    assert "is not one of s, ms, us" in said(source("csv", "a", unit="hours"))
    assert "is no number" in said(source("csv", "a", unit="s"))
    assert "does not declare" in said(source("csv", "a", time="when"))
    assert "neither a time nor a number" in said(source("csv", "a", time="src"))
    assert "needs 'time'" in said(source("csv", "a", time="arrival"))
    assert "struct column" in said(source("csv", "a", "time timestamp, s struct<a: int>"))
    assert "unknown kind 'kafka'" in said(source("kafka", "a"))
    tcp = Source(name="t", kind="tcp", schema=parse_schema("a int"), options={"address": "here"})
    assert "is not host:port" in said(tcp)


# --- JSON lines ----------------------------------------------------------------


def test_jsonl_values_and_bad_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(
        b'{"time": "2026-01-01T00:00:01Z", "src": "a", "port": 1, "more": [1, {"x": 2}]}\n'
        b"not json\n"
        b'{"time": "2026-01-01T00:00:03", "port": null}\n'
        b'{"time": "2026-01-01T00:00:04Z", "port": "http"}\n'
        b'{"time": "2026-01-01T00:00:05Z"} {"time": "2026-01-01T00:00:05Z"}\n'
        b"\n"
        b'{"src": "no time"}\n'
        b'{"time": "2026-01-01T00:00:08Z",\n'
        b'"port": 8}\n'
        b'{"time": "2026-01-01T00:00:10Z", "port": 10, "src": "\xff"}\n'
        b"[1]\n"
        b'{"time": "never", "port": 12}\n'
        b'{"time": "2026-01-01T00:00:13Z", "port": 13}'
    )
    rows, rejected = read(source("jsonl", "a.jsonl"), tmp_path)
    assert [row["port"] for row in rows] == [1, None, 13]
    assert [r.line for r in rejected] == [2, 4, 5, 7, 8, 9, 10, 11, 12]
    reasons = {r.line: r.reason for r in rejected}
    misfit = "is not JSON that fits the schema: Expected `int | null`, got `str` - at `$.port`"
    assert reasons[4] == misfit
    assert "trailing characters" in reasons[5]
    assert reasons[7] == "has no value in the time column 'time'"
    assert reasons[12] == "column 'time': 'never' does not fit timestamp"


def test_jsonl_structs_decimals_and_numbers_as_times(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"t": 1.5, "p": {"at": "2026-01-01T00:00:01Z", "n": 1, "q": 2}, "c": "1.25"}\n'
        '{"t": 2, "p": null, "c": 3}\n'
        '{"t": 3, "p": {"at": "x"}}\n'
    )
    schema = "t double, p struct<at: timestamp, n: int>, c decimal(5,2)"
    given = source("jsonl", "a.jsonl", schema, "t", unit="s")
    rows, rejected = read(given, tmp_path)
    assert rows == [
        {"t": 1.5, "p": {"at": at(1), "n": 1}, "c": Decimal("1.25")},
        {"t": 2.0, "p": None, "c": Decimal("3.00")},
    ]
    assert [r.line for r in rejected] == [3]
    reader = open_reader(given, tmp_path)
    assert reader is not None
    (release,) = stamped(reader, given, Buckets(), 0)
    assert stime_values(release.rows.column("_stime")).tolist() == [1_500_000, 2_000_000]


@pytest.mark.parametrize(
    "line",
    [
        b"null",
        b"[]",
        b"1",
        b'""',
        b"true",
        b"{",
        b"[" * 100_000,
        b'{"x":' + b"[" * 100_000,
        b"\x00",
    ],
)
def test_jsonl_lines_that_are_no_objects(tmp_path: Path, line: bytes) -> None:
    good = b'{"time": "2026-01-01T00:00:01Z"}'
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([good, line, good]) + b"\n")
    rows, rejected = read(source("jsonl", "a.jsonl"), tmp_path)
    assert len(rows) == 2
    (one,) = rejected
    assert one.line == 2
    assert one.reason.startswith("is not JSON that fits the schema: ")


VALUES_THAT_DO_NOT_FIT = {
    "binary": ["ü", "aGk", "a"],
    "timestamp": ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "10000-01-01", "2026-02-30"],
    "date": ["0000-12-31", "10000-01-01"],
    "decimal(10,2)": ["9" * 5_000, "0." + "9" * 60, "1.234", "1e400", "NaN"],
    "decimal(38,10)": ["9" * 48, "1" + "0" * 78 + "e-78"],
}


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("column", "value"), [(c, v) for c, values in VALUES_THAT_DO_NOT_FIT.items() for v in values]
)
def test_values_that_do_not_fit_reject_their_row(
    tmp_path: Path, kind: str, column: str, value: str
) -> None:
    text = f"t,v\n1,\n2,{value}\n3,\n" if kind == "csv" else ""
    lines = [{"t": 1}, {"t": 2, "v": value}, {"t": 3}]
    text = text or "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "a").write_text(text)
    rows, rejected = read(source(kind, "a", f"t bigint, v {column}", "t"), tmp_path)
    assert rows == [{"t": 1, "v": None}, {"t": 3, "v": None}]
    (one,) = rejected
    assert one.reason.endswith(f"does not fit {column}")
    assert one.line == (3 if kind == "csv" else 2)


def test_many_values_that_do_not_fit_are_found_at_once(tmp_path: Path) -> None:
    lines = [f'{{"t": 1, "v": "never {number}"}}' for number in range(20_000)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, '{"t": 2, "v": " 2026-01-01 "}']))
    began = time.process_time()
    rows, rejected = read(source("jsonl", "a.jsonl", "t bigint, v timestamp", "t"), tmp_path)
    assert (len(rows), len(rejected)) == (1, 20_000)
    assert time.process_time() - began < 2.5, (
        "before: 5 s, since each value was looked for by halving"
    )


def test_a_csv_line_is_one_row_whatever_it_holds(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(
        b't,s,z\n1,a\rb,\n2,c\r\r\n3,-",",x\n4,"d"e,\n5,"f""",\n6,g"h""i,\n7,,\r\n'
    )
    rows, rejected = read(source("csv", "a.csv", "t int, s string, z string", "t"), tmp_path)
    assert [(row["t"], row["s"]) for row in rows] == [(5, 'f"'), (6, 'g"h""i'), (7, None)]
    assert [(one.line, one.reason) for one in rejected] == [
        (2, "has a carriage return that does not end it"),
        (3, "has a carriage return that does not end it"),
        (4, "has a quote without its pair"),
        (5, "has a quote without its pair"),
    ]


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\r", b"\r\n", b"a\rtime,src,port\n", b'"\n', b"\xff\n"]
)
def test_csv_files_without_a_header(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(UserError, match=r"a\.csv, (which has no|whose) header line"):
        read(source("csv", "a.csv"), tmp_path)


def test_a_csv_line_is_judged_alike_beside_a_bad_one(tmp_path: Path) -> None:
    for beside in (b"", b"\xff,\n"):
        (tmp_path / "a.csv").write_bytes(b"t,s\n1,a\r\r\n\r\r\n" + beside)
        rows, rejected = read(source("csv", "a.csv", "t int, s string", "t"), tmp_path)
        assert (rows, [one.line for one in rejected][:2]) == ([], [2, 3])


@pytest.mark.parametrize("first", [b"", b"b,2\n"])
def test_only_a_file_begins_with_a_byte_order_mark(tmp_path: Path, first: bytes) -> None:
    mark = b"\xef\xbb\xbf"
    (tmp_path / "a.csv").write_bytes(mark + b"s,t\n" + first + mark + b"a,1\n" + mark)
    rows, rejected = read(source("csv", "a.csv", "t int, s string", "t"), tmp_path)
    assert rows[-1] == {"t": 1, "s": "\ufeffa"}
    assert rejected[-1].reason == "has 1 columns, not 2"


# --- Parquet -------------------------------------------------------------------


def test_parquet_casts_and_rejects(tmp_path: Path) -> None:
    table = pa.table(
        {
            "port": pa.array([1, 2, 5_000_000_000, 4], pa.int64()),
            "time": pa.array([1, None, 3, 4], pa.timestamp("ms")),
            "src": pa.array(["a", "b", "c", "d"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    rows, rejected = read(source("parquet", "a.parquet"), tmp_path)
    assert [(row["src"], row["port"]) for row in rows] == [("a", 1), ("d", 4)]
    assert [(r.line, r.reason) for r in rejected] == [
        (2, "has no value in the time column 'time'"),
        (3, "column 'port': 5000000000 does not fit int"),
    ]


def test_parquet_values_that_python_cannot_hold(tmp_path: Path) -> None:
    times = pa.array([1, 10**18, -(10**18), 4], pa.int64()).cast(pa.timestamp("us", "UTC"))
    bad_text = pa.array([b"a", b"b", b"c", b"\xff"], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 4, bad_text.buffers())
    table = pa.table({"time": times, "src": texts, "port": pa.array([1, 2, 3, 4])})
    pq.write_table(table, tmp_path / "a.parquet")
    rows, rejected = read(source("parquet", "a.parquet"), tmp_path)
    assert [row["port"] for row in rows] == [1]
    assert [(r.line, r.reason[:14]) for r in rejected] == [
        (2, "column 'time':"),
        (3, "column 'time':"),
        (4, "column 'src': "),
    ]


def test_a_parquet_column_of_another_type_rejects_its_rows(tmp_path: Path) -> None:
    table = pa.table({"time": pa.array([1, 2], pa.timestamp("us")), "x": [[1], [2]]})
    pq.write_table(table, tmp_path / "a.parquet")
    rows, rejected = read(source("parquet", "a.parquet", "time timestamp, x binary"), tmp_path)
    assert (rows, len(rejected)) == ([], 2)


# --- position, blocks and memory -----------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_skip_gives_the_tail_and_all_rejected(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_module.file_blocks, "__defaults__", (256,))
    lines = ["time,src,port"] if kind == "csv" else []
    for number in range(60):
        good = (
            f"2026-01-01T00:00:{number:02}Z,x,{number}"
            if kind == "csv"
            else f'{{"time": "2026-01-01T00:00:{number:02}Z", "port": {number}}}'
        )
        lines.append("bad,bad" if number % 7 == 3 else good)
    (tmp_path / "a").write_text("\n".join(lines) + "\n")
    given = source(kind, "a")
    rows, rejected = read(given, tmp_path)
    assert len(rows) == 51
    assert len(rejected) == 9
    for skip in (0, 1, 17, 50, 51, 60):
        assert read(given, tmp_path, skip) == (rows[skip:], rejected)


def test_a_line_without_end_is_passed_over() -> None:
    splitter = LineSplitter(10)
    blocks = [splitter.feed(data) for data in (b"a\nb", b"b" * 20, b"b" * 20, b"bb\nc\nd")]
    assert [block.data for block in blocks] == [b"a\n", b"", b"", b"c\n"]
    assert [(r.line, r.reason) for b in blocks for r in b.rejected] == [
        (2, "the line is longer than 10 bytes")
    ]
    assert blocks[3].first_line == 3
    assert splitter.finish() == lines_module.Block(4, b"d")


# --- stamping and pacing ---------------------------------------------------------


class FixedReader:
    def __init__(self, *chunks: list[int]) -> None:
        self._chunks = chunks
        self.skipped: list[int] = []

    def chunks(self, skip: int) -> Iterator[Chunk]:
        self.skipped.append(skip)
        schema = parse_schema("t bigint").attributes
        for values in self._chunks:
            kept = values[skip:]
            skip = max(0, skip - len(values))
            yield Chunk(pa.RecordBatch.from_arrays([pa.array(kept, pa.int64())], schema=schema))


NUMBERS = Source(name="s", kind="jsonl", schema=parse_schema("t bigint"), time="t")


def times(releases: list[RowRelease]) -> list[list[int]]:
    return [stime_values(r.rows.column("_stime")).tolist() for r in releases]


def test_times_that_ids_cannot_express_are_rejected_and_skipped_over() -> None:
    buckets = Buckets(10_000)
    chunks = ([10, buckets.max_stime_us + 1, 20], [30, 40])
    releases = list(stamped(FixedReader(*chunks), NUMBERS, buckets, 0))
    assert times(releases) == [[10, 20], [30, 40]]
    assert [r.unstampable for r in releases] == [1, 0]
    assert "is not a time after 1970 that a stream can carry" in releases[0].rejected[0].reason
    reader = FixedReader(*chunks)
    assert times(list(stamped(reader, NUMBERS, buckets, 3, unstampable=1))) == [[], [40]]
    assert reader.skipped == [0]
    reader = FixedReader([10, 20], [30, 40])
    assert times(list(stamped(reader, NUMBERS, buckets, 3))) == [[], [40]]
    assert reader.skipped == [3]


class FakeTime:
    def __init__(self, stop_after: int = 10_000) -> None:
        self.now = 50.0
        self.waits = 0
        self._stop_after = stop_after

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        self.waits += 1
        return self.waits >= self._stop_after

    def monotonic(self) -> float:
        return self.now


def pace(clock: FakeTime, *chunks: list[int], speed: float = 1.0) -> list[tuple[RowRelease, float]]:
    buckets = Buckets(500_000)
    pacer = Pacer(speed, buckets, wait=clock.wait, monotonic=clock.monotonic)
    released = stamped(FixedReader(*chunks), NUMBERS, buckets, 0)
    return [(release, clock.now - 50.0) for release in pacer.pace(released)]


def test_rows_are_released_when_due_and_boundaries_move_in_gaps() -> None:
    second = 1_000_000
    paced = pace(FakeTime(), [100 * second, 101 * second], [110 * second])
    with_rows = [
        (stime_values(r.rows.column(0)).tolist(), at_s) for r, at_s in paced if r.rows.num_rows
    ]
    assert [rows for rows, _ in with_rows] == [[100 * second], [101 * second], [110 * second]]
    assert [at_s for _, at_s in with_rows] == pytest.approx([0, 1, 10], abs=0.03)
    clocks = [r.clock_us for r, _ in paced if r.clock_us is not None]
    assert clocks == sorted(clocks)
    gap = [c for c in clocks if 101 * second < c < 110 * second]
    assert len(gap) >= 17  # one per bucket edge
    for release, _ in paced[:-1]:
        assert release.clock_us is not None
        assert release.clock_us <= 110 * second


def test_a_clock_that_began_before_is_caught_up_with() -> None:
    second, clock, buckets = 1_000_000, FakeTime(), Buckets(500_000)
    rows = [n * second for n in range(100, 106)]
    began = (clock.now - 3.0, 100 * second)
    pacer = Pacer(1.0, buckets, began=began, wait=clock.wait, monotonic=clock.monotonic)
    released = stamped(FixedReader(rows), NUMBERS, buckets, 0)
    paced = [(r.rows.num_rows, clock.now - 50.0) for r in pacer.pace(released) if r.rows.num_rows]
    assert [n for n, _ in paced] == [4, 1, 1], "what is overdue comes at once"
    assert [at_s for _, at_s in paced] == pytest.approx([0, 1, 2], abs=0.03)


def test_a_pace_that_lies_behind_the_boundary_goes_on_from_it_and_is_caught_up_with() -> None:
    second, clock, buckets = 1_000_000, FakeTime(), Buckets(500_000)
    rows = [n * second for n in range(105, 121)]
    began = (clock.now, 95 * second)
    boundary_us = 105 * second - 1
    pacer = Pacer(
        1.0,
        buckets,
        boundary_us=boundary_us,
        began=began,
        wait=clock.wait,
        monotonic=clock.monotonic,
    )
    released = stamped(FixedReader(rows), NUMBERS, buckets, 0)
    at_s = [clock.now - 50.0 for r in pacer.pace(released) if r.rows.num_rows]
    assert at_s[:3] == pytest.approx([0, 2, 4], abs=0.06), "at half speed"
    assert at_s[-1] == pytest.approx(25, abs=0.06), "by then it is where its pace is"
    assert pacer.ahead_us == 0


def test_many_rows_come_in_slices_and_twice_the_speed_halves_the_time() -> None:
    rows = [1_000_000 + 1_000 * n for n in range(1_000)]
    slow, fast = FakeTime(), FakeTime()
    releases = pace(slow, rows)
    assert [n for r, _ in releases for n in stime_values(r.rows.column(0)).tolist()] == rows
    assert 45 <= len(releases) <= 55
    pace(fast, rows, speed=2.0)
    assert fast.now - 50 == pytest.approx((slow.now - 50) / 2, abs=0.03)


def test_out_of_order_rows_keep_their_order_and_stop_is_heard() -> None:
    paced = pace(FakeTime(), [5_000_000, 4_900_000, 5_000_001])
    assert [n for r, _ in paced for n in stime_values(r.rows.column(0)).tolist()] == [
        5_000_000, 4_900_000, 5_000_001,
    ]  # fmt: skip
    clock = FakeTime(stop_after=3)
    paced = pace(clock, [1_000_000, 60_000_000], [70_000_000])
    assert clock.waits == 3
    assert sum(r.rows.num_rows for r, _ in paced) == 1
