"""Sinks: what they write, and that a crash neither loses nor repeats it."""

from __future__ import annotations

import io
import json
import threading
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from australis.diagram.model import Sink
from australis.kernel.errors import Damaged, Place, Stopped, UserError
from australis.kernel.ids import pack_id
from australis.runtime.sinks import SinkWriter, StreamIterator, open_sink
from australis.runtime.sinks.console import ConsoleSink
from australis.runtime.sinks.parquet import ParquetSink
from australis.streams.schema import TIMESTAMP, Schema, parse_schema

pytestmark = pytest.mark.unit

SCHEMA = parse_schema("src string, n bigint")
START = 1_767_225_600_000_000


def batch(*numbers: int, schema: Schema = SCHEMA) -> pa.RecordBatch:
    count = len(numbers)
    columns = [
        pa.array([0] * count, pa.int8()),
        pa.array([pack_id(7, n) for n in numbers], pa.int64()),
        pa.array([START + n for n in numbers], TIMESTAMP),
        pa.array([f"host{n}" for n in numbers]),
        pa.array([n * 10 for n in numbers], pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


def sink(kind: str, **options: Any) -> Sink:
    return Sink(name="out", kind=kind, stream="x", options=options, place=Place("d.yaml", 9))


def open_(tmp_path: Path, kind: str = "jsonl", fresh: bool = False, **options: Any) -> SinkWriter:
    options = options or {"path": f"out/a.{kind}"}
    return open_sink(sink(kind, **options), SCHEMA, tmp_path / "state", tmp_path, fresh=fresh)


# --- JSON lines ------------------------------------------------------------------


def test_jsonl_values(tmp_path: Path) -> None:
    schema = parse_schema(
        "d double, c decimal(6,2), t timestamp, day date, x binary, b boolean,"
        " p struct<q: float, w: timestamp>"
    )
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([0] * 4, pa.int8()),
            pa.array([1, 2, 3, 4], pa.int64()),
            pa.array([START, START + 1, START + 2, START + 3], TIMESTAMP),
            pa.array([1.5, float("nan"), float("-inf"), None]),
            pa.array([Decimal("1.50"), None, Decimal("-2"), None], pa.decimal128(6, 2)),
            pa.array([START, None, 0, None], TIMESTAMP),
            pa.array([date(2026, 1, 2), None, None, None]),
            pa.array([b"hi", b"", None, None]),
            pa.array([True, False, None, None]),
            pa.array(
                [{"q": float("inf"), "w": START}, {"q": None, "w": None}, None, None],
                schema.fields[-1].arrow,
            ),
        ],
        schema=schema.arrow,
    )
    writer = open_sink(sink("jsonl", path="v.jsonl"), schema, tmp_path / "state", tmp_path)
    writer.write(rows)
    writer.close()
    lines = (tmp_path / "v.jsonl").read_text().splitlines()
    assert lines[0] == (
        '{"_id":1,"_stime":"2026-01-01T00:00:00.000000Z","d":1.5,"c":"1.50",'
        '"t":"2026-01-01T00:00:00.000000Z","day":"2026-01-02","x":"aGk=","b":true,'
        '"p":{"q":"Infinity","w":"2026-01-01T00:00:00.000000Z"}}'
    )
    objects = [json.loads(line) for line in lines]
    assert [o["d"] for o in objects] == [1.5, "NaN", "-Infinity", None]
    assert [o["p"] for o in objects[1:]] == [{"q": None, "w": None}, None, None]


def test_jsonl_is_exactly_once_wherever_it_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "out" / "a.jsonl"
    writer = open_(tmp_path)
    assert writer.position == -1
    writer.write(batch(0, 1, 2))
    writer.flush()
    durable = path.read_bytes()
    writer.write(batch(3, 4))
    assert writer.position == pack_id(7, 2)
    whole = path.read_bytes()
    for end in range(len(durable), len(whole) + 1, 7):
        path.write_bytes(whole[:end])  # the process died here: what was not flushed is torn
        again = open_(tmp_path)
        assert again.position == pack_id(7, 2)
        assert path.read_bytes() == durable
    again.write(batch(1, 2, 3))  # what is there already is not written again
    again.write(batch(4))
    again.close()
    assert path.read_bytes() == whole
    assert open_(tmp_path).position == pack_id(7, 4)


def test_jsonl_does_not_touch_what_is_not_its_own(tmp_path: Path) -> None:
    path = tmp_path / "out" / "a.jsonl"
    path.parent.mkdir()
    path.write_text("precious\n")
    with pytest.raises(UserError) as refused:
        open_(tmp_path)
    assert str(refused.value).startswith(f"d.yaml:9: 'out' would write to {path}, which another")
    assert path.read_text() == "precious\n"
    with pytest.raises(UserError):
        open_(tmp_path, fresh=True)
    assert path.read_text() == "precious\n"


def test_jsonl_of_another_state_directory_is_refused(tmp_path: Path) -> None:
    writer = open_(tmp_path)
    writer.write(batch(0, 1))
    writer.close()
    other = sink("jsonl", path="out/a.jsonl")
    with pytest.raises(UserError, match="another run wrote"):
        open_sink(other, SCHEMA, tmp_path / "new state", tmp_path)
    (tmp_path / "out" / "a.jsonl").write_text("")
    with pytest.raises(UserError, match="of which 0 are left"):
        open_(tmp_path)


def test_jsonl_killed_before_its_first_flush_starts_again(tmp_path: Path) -> None:
    writer = open_(tmp_path)
    writer.write(batch(0))
    again = open_(tmp_path)
    assert again.position == -1
    again.write(batch(0, 1))
    again.close()
    assert len((tmp_path / "out" / "a.jsonl").read_text().splitlines()) == 2


# --- Parquet ---------------------------------------------------------------------


def test_a_parquet_part_with_another_last_id_is_damaged(tmp_path: Path) -> None:
    writer = open_(tmp_path, "parquet")
    writer.write(batch(0, 1, 2))
    writer.close()
    (part,) = (tmp_path / "out").rglob("part-*.parquet")
    last = str(writer.position).encode()
    data = part.read_bytes()
    at = data.rindex(last) + len(last) - 1
    part.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(Damaged, match=f"{part} is damaged: remove it"):
        open_(tmp_path, "parquet")


def test_parquet_is_what_duckdb_reads(tmp_path: Path) -> None:
    directory = tmp_path / "p"
    writer = ParquetSink(directory, SCHEMA, "run", part_rows=5)
    for start in range(0, 15, 3):
        writer.write(batch(start, start + 1, start + 2))
        writer.flush()
    assert writer.position == pack_id(7, 11)
    writer.close()
    assert writer.position == pack_id(7, 14)
    names = sorted(p.name for p in directory.iterdir())
    assert names == [f"part-{pack_id(7, n):020d}.parquet" for n in (0, 6, 12)]
    read = duckdb.sql(
        f"select _id, epoch_us(_stime), src, n from '{directory}/*.parquet' order by _id"
    ).fetchall()
    assert read == [(pack_id(7, n), START + n, f"host{n}", n * 10) for n in range(15)]
    assert pq.read_schema(directory / names[0]).field("_stime").type == TIMESTAMP


def test_parquet_goes_on_after_its_last_whole_part(tmp_path: Path) -> None:
    directory = tmp_path / "p"
    writer = ParquetSink(directory, SCHEMA, "run", part_rows=4)
    writer.write(batch(0, 1, 2, 3))
    writer.write(batch(4, 5))  # never closed: the process died
    (directory / ".part-00000000000117440516.parquet.tmp").write_bytes(b"half")
    again = ParquetSink(directory, SCHEMA, "run", part_rows=4)
    assert again.position == pack_id(7, 3)
    again.write(batch(2, 3, 4, 5, 6))
    again.close()
    numbers = duckdb.sql(f"select n from '{directory}/*.parquet' order by _id").fetchall()
    assert [n for (n,) in numbers] == [0, 10, 20, 30, 40, 50, 60]
    assert all(not p.name.startswith(".") for p in directory.iterdir())


def test_parquet_parts_end_when_they_are_old(tmp_path: Path) -> None:
    now = 0.0
    writer = ParquetSink(tmp_path / "p", SCHEMA, "run", monotonic=lambda: now)
    writer.write(batch(0))
    now = 59.0
    writer.flush()
    assert writer.position == -1
    now = 61.0
    writer.flush()
    assert writer.position == pack_id(7, 0)


def test_parquet_does_not_mix_with_others(tmp_path: Path) -> None:
    directory = tmp_path / "out" / "a.parquet"
    writer = open_(tmp_path, "parquet")
    writer.write(batch(0))
    writer.close()
    assert open_(tmp_path, "parquet").position == pack_id(7, 0)
    with pytest.raises(UserError, match="another run wrote"):
        ParquetSink(directory, SCHEMA, "other run")
    pq.write_table(pa.table({"a": [1]}), directory / "zzz.parquet")
    with pytest.raises(UserError, match="not from Australis"):
        open_(tmp_path, "parquet")
    (directory / "zzz.parquet").unlink()
    assert open_(tmp_path, "parquet", fresh=True).position == -1


# --- console, callback, iterator ---------------------------------------------------


def test_console_lines_are_aligned_and_plain_without_a_terminal(tmp_path: Path) -> None:
    stream = io.StringIO()
    writer = ConsoleSink(stream, tmp_path / "position")
    writer.write(batch(9, 10))
    writer.write(batch(11))
    writer.close()
    assert stream.getvalue().splitlines() == [
        "2026-01-01 00:00:00.000009  src=host9  n=90",
        "2026-01-01 00:00:00.000010  src=host10  n=100",
        "2026-01-01 00:00:00.000011  src=host11  n=110",
    ]
    again = ConsoleSink(stream, tmp_path / "position")
    assert again.position == pack_id(7, 11)


def test_console_keeps_columns_apart(tmp_path: Path) -> None:
    stream = io.StringIO()
    writer = ConsoleSink(stream, tmp_path / "position")
    writer.write(batch(10, 9))
    assert stream.getvalue().splitlines()[1] == "2026-01-01 00:00:00.000009  src=host9   n= 90"


def test_callback_gets_batches_or_rows_and_keeps_its_position(tmp_path: Path) -> None:
    seen: list[Any] = []
    writer = open_(tmp_path, "callback", call=seen.append)
    writer.write(batch(0, 1))
    assert writer.position == -1
    writer.flush()
    assert writer.position == pack_id(7, 1)
    assert seen == [batch(0, 1)]
    again = open_(tmp_path, "callback", call=seen.extend, rows=True)
    assert again.position == pack_id(7, 1)
    again.write(batch(1, 2))
    assert seen[1]["src"] == "host2"
    assert len(seen) == 2


def test_a_callback_that_raises_stops_the_sink(tmp_path: Path) -> None:
    def broken(rows: Any) -> None:
        raise ValueError("no")

    writer = open_(tmp_path, "callback", call=broken)
    with pytest.raises(Stopped, match=r"raised ValueError\('no'\)"):
        writer.write(batch(0))
    writer.flush()
    assert writer.position == -1


def test_an_iterator_blocks_ends_and_can_be_left() -> None:
    iterator = StreamIterator()

    def write() -> None:
        for number in range(100):
            iterator.write(batch(number))
        iterator.close()

    thread = threading.Thread(target=write)
    thread.start()
    assert [row["n"] for row in iterator] == [n * 10 for n in range(100)]
    thread.join(5)
    assert not thread.is_alive()

    left = StreamIterator(batches=True)
    thread = threading.Thread(target=lambda: [left.write(batch(n)) for n in range(100)])
    thread.start()
    assert next(iter(left)) == batch(0)  # the generator is dropped: nobody reads any more
    thread.join(5)
    assert not thread.is_alive()
    assert left.position == pack_id(7, 99)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (sink("jsonl"), "needs the option 'path'"),
        (sink("jsonl", path=5), "has the option path: 5, which is not a text"),
        (sink("jsonl", path="x", mode="append"), "unknown option 'mode' \\(known: path\\)"),
        (sink("console", path="x"), "unknown option 'path' \\(known: none\\)"),
        (sink("callback", call="print"), "needs the option 'call', a Python function"),
        (sink("callback", call=print, rows="yes"), "which is not true or false"),
        (sink("kafka"), "is of the unknown kind 'kafka'"),
        (sink("jsonl", path="."), "which is a directory"),
    ],
)
def test_mistakes_in_sinks(tmp_path: Path, made: Sink, said: str) -> None:
    with pytest.raises(UserError, match=f"d.yaml:9: 'out' .*{said}"):
        open_sink(made, SCHEMA, tmp_path / "state", tmp_path)
