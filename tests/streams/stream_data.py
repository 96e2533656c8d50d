"""Rows, cuttings and disks that the stream tests share."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from australis.streams.buckets import Buckets
from australis.streams.log import StableLog
from australis.streams.schema import TIMESTAMP, Schema, parse_schema

BUCKETS = Buckets(10_000)
SIZE = BUCKETS.size_us

EVERYTHING = parse_schema(
    "flag boolean, tiny tinyint, small smallint, n int, big bigint, f float, d double,"
    " s string, b binary, day date, ts timestamp, money decimal(20,3),"
    " place struct<lat: double, ok: boolean, tag: string, deep: struct<x: int>>"
)
"""A schema with every type a stream can carry."""

OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]

_DOUBLES = [0.0, -0.0, 1.5, -1.5, float("nan"), OTHER_NAN, float("inf"), float("-inf")]
_PLACES = st.fixed_dictionaries(
    {
        "lat": st.sampled_from([None, *_DOUBLES]),
        "ok": st.sampled_from([None, True, False]),
        "tag": st.sampled_from([None, "", "a"]),
        "deep": st.sampled_from([None, {"x": None}, {"x": 0}, {"x": 1}]),
    }
)
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "flag": st.booleans(),
    "tiny": st.sampled_from([-128, 0, 1]),
    "small": st.sampled_from([-1, 0, 2]),
    "n": st.sampled_from([-1, 0, 2]),
    "big": st.sampled_from([-(2**63), 0, 2**63 - 1]),
    "f": st.sampled_from(_DOUBLES),
    "d": st.sampled_from(_DOUBLES),
    "s": st.sampled_from(["", "a", "ab", "é"]),
    "b": st.sampled_from([b"", b"\x00", b"\xff\x01"]),
    "day": st.sampled_from([dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2026, 5, 4)]),
    "ts": st.integers(-2, 2),
    "money": st.sampled_from([Decimal("-1.500"), Decimal("0.000"), Decimal("2.250")]),
    "place": _PLACES,
}


@st.composite
def everything_rows(draw: st.DrawFn, max_size: int = 12, last_us: int = 3 * SIZE) -> pa.Table:
    """Rows with every type that differ in few columns, so that every column breaks ties."""
    columns = {name: st.none() | values for name, values in _VALUES.items()}
    base = draw(st.fixed_dictionaries(columns))
    stimes = st.integers(1, 2 * last_us // SIZE).map(lambda half: half * SIZE // 2)
    changes = st.lists(st.sampled_from(list(_VALUES)), max_size=2)
    rows = []
    for _ in range(draw(st.integers(0, max_size))):
        changed = {name: draw(columns[name]) for name in draw(changes)}
        rows.append({"_stime": draw(stimes), **base, **changed})
    arrow = row_schema(EVERYTHING)
    arrays = [pa.array([r[f.name] for r in rows], f.type, from_pandas=False) for f in arrow]
    return pa.table(arrays, schema=arrow)


def row_schema(schema: Schema) -> pa.Schema:
    """`_stime` and the attributes."""
    return pa.schema([pa.field("_stime", TIMESTAMP), *schema.attributes])


def simple_rows(schema: Schema, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """A record batch of (stime, attribute, ...) rows."""
    arrow = row_schema(schema)
    columns = [pa.array([row[i] for row in rows], field.type) for i, field in enumerate(arrow)]
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


@st.composite
def cuts(draw: st.DrawFn, n: int) -> list[tuple[int, int]]:
    """Where to cut n rows into batches, empty ones among them."""
    edges = sorted(draw(st.lists(st.integers(0, n), max_size=5)))
    return list(zip([0, *edges], [*edges, n], strict=True))


def log_rows(log: StableLog) -> list[dict[str, Any]]:
    """Every tuple in a log, `_stime` and the other times as microseconds."""
    last = BUCKETS.last
    return [row for _, batch in log.read(-1, last) for row in plain(batch)]


def plain(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Rows as dictionaries, with timestamps as integers."""
    columns = {
        name: (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column)
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    }
    return pa.table(columns).to_pylist() if columns else []
