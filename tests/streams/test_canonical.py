"""Canonical order and bytes: equal rows, however they came, are equal bytes."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams.stream_data import (
    BUCKETS,
    EVERYTHING,
    OTHER_NAN,
    SIZE,
    everything_rows,
    plain,
    simple_rows,
)

from australis.kernel.errors import Stopped
from australis.kernel.ids import unpack_id
from australis.streams import canonical
from australis.streams.canonical import by_bucket, canonical_array, canonical_order
from australis.streams.schema import parse_schema


def encoded(rows: pa.Table, schema: Any = EVERYTHING) -> list[tuple[int, bytes]]:
    return [
        (bucket, batch.serialize().to_pybytes())
        for bucket, batch in by_bucket(rows, canonical_order(rows), schema, BUCKETS)
    ]


@given(everything_rows(), st.randoms(use_true_random=False))
def test_the_bytes_do_not_depend_on_order_or_chunks(rows: pa.Table, rng: random.Random) -> None:
    order = list(range(rows.num_rows))
    rng.shuffle(order)
    pieces = [rows.slice(i, 1).combine_chunks() for i in order]
    shuffled = pa.concat_tables(pieces) if pieces else rows
    assert encoded(shuffled) == encoded(rows)


@given(everything_rows())
def test_no_value_is_changed(rows: pa.Table) -> None:
    batches = by_bucket(rows, canonical_order(rows), EVERYTHING, BUCKETS)
    kept = [
        repr({k: v for k, v in row.items() if k not in ("_type", "_id")})
        for _, batch in batches
        for row in plain(batch)
    ]
    # -0.0 may become 0.0; everything else must come through.
    assert sorted(text.replace("-0.0", "0.0") for text in kept) == sorted(
        repr(row).replace("-0.0", "0.0") for row in plain(rows)
    )


@given(everything_rows())
def test_buckets_ids_and_types(rows: pa.Table) -> None:
    batches = by_bucket(rows, canonical_order(rows), EVERYTHING, BUCKETS)
    numbers = [bucket for bucket, _ in batches]
    assert numbers == sorted(set(numbers))
    for bucket, batch in batches:
        batch.validate(full=True)
        assert batch.schema == EVERYTHING.arrow
        for rank, row in enumerate(plain(batch)):
            assert unpack_id(row["_id"]) == (bucket, rank)
            assert row["_type"] == 0
            assert bucket * SIZE < row["_stime"] <= (bucket + 1) * SIZE


@pytest.mark.parametrize("field", EVERYTHING, ids=lambda f: f.name)
def test_every_column_breaks_ties(field: Any) -> None:
    samples = {"boolean": True, "string": "x", "binary": b"x", "date": dt.date(2026, 5, 4)}
    value = {"place": {"tag": "x"}}.get(field.name, samples.get(field.type, 1))
    rows = [dict.fromkeys(EVERYTHING.names), {**dict.fromkeys(EVERYTHING.names), field.name: value}]
    batches = [simple_rows(EVERYTHING, [(1, *row.values())]) for row in rows]
    one, two = pa.Table.from_batches(batches), pa.Table.from_batches(batches[::-1])
    assert encoded(one) == encoded(two)


def test_order_is_stime_then_every_attribute() -> None:
    schema = parse_schema("a int, p struct<x: int>, b string")
    rows = [
        (2, 0, {"x": 0}, "a"),
        (1, 1, {"x": 0}, "a"),
        (1, 0, {"x": 1}, "a"),
        (1, 0, {"x": 0}, "b"),
        (1, 0, {"x": 0}, "a"),
        (1, 0, {"x": None}, "a"),
        (1, 0, None, "a"),
        (1, None, {"x": 0}, "a"),
    ]
    table = pa.Table.from_batches([simple_rows(schema, rows)])
    ordered = [rows[i] for i in canonical_order(table).to_pylist()]
    assert ordered == [rows[i] for i in (4, 3, 2, 5, 6, 1, 7, 0)]


def test_a_null_struct_is_not_a_struct_of_nulls() -> None:
    schema = parse_schema("p struct<x: int>")
    one = pa.Table.from_batches([simple_rows(schema, [(1, None), (1, {"x": None})])])
    two = pa.Table.from_batches([simple_rows(schema, [(1, {"x": None}), (1, None)])])
    assert encoded(one, schema) == encoded(two, schema)
    ((_, batch),) = by_bucket(one, canonical_order(one), schema, BUCKETS)
    assert batch.column("p").to_pylist() == [{"x": None}, None]


def test_there_is_one_zero_and_one_nan() -> None:
    for kind in (pa.float32(), pa.float64()):
        same = [pa.array([z, n], kind) for z in (0.0, -0.0) for n in (math.nan, OTHER_NAN)]
        layouts = {canonical_array(array).buffers()[1].to_pybytes() for array in same}
        assert len(layouts) == 1


@pytest.mark.parametrize("field", list(EVERYTHING)[:-1], ids=lambda f: f.type)
def test_what_lies_under_a_null_is_zero(field: Any) -> None:
    kind = field.arrow
    samples = {"boolean": True, "string": "xx", "binary": b"xx", "date": dt.date(2026, 5, 4)}
    loud = pa.array([samples.get(field.type, 1)], kind)
    mask = pa.py_buffer(b"\x00")
    dirty = pa.Array.from_buffers(kind, 1, [mask, *loud.buffers()[1:]])
    assert dirty.to_pylist() == [None]
    clean = canonical_array(dirty)
    assert clean.to_pylist() == [None]
    assert not any(b"".join(buffer.to_pybytes() for buffer in clean.buffers() if buffer))


def test_a_bucket_with_more_tuples_than_ids_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "MAX_RANK", 2)
    schema = parse_schema("n int")
    table = pa.Table.from_batches([simple_rows(schema, [(1, i) for i in range(4)])])
    with pytest.raises(Stopped, match="holds 4 tuples"):
        encoded(table, schema)
    assert encoded(table.slice(0, 3), schema)
