"""SUnion: merge equals a naive sort, ids are ranks, schemas that differ get ports."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from streams.stream_data import BUCKETS, SIZE, plain

from australis.kernel.ids import pack_id
from australis.streams.schema import TIMESTAMP, Schema, TupleType, parse_schema
from australis.streams.sunion import MergedSchema, SUnion

A = parse_schema("n int, s string")
B = parse_schema("x double")

Stamps = list[int]


def stream(schema: Schema, stimes: Stamps) -> list[pa.RecordBatch]:
    """A stream's log: one batch per bucket, ids by rank; values are the place in the stream."""
    found: dict[int, list[tuple[int, int]]] = {}
    for place, stime in enumerate(sorted(stimes)):
        found.setdefault(BUCKETS.of(stime), []).append((place, stime))
    return [_bucket(schema, bucket, rows) for bucket, rows in found.items()]


def _bucket(schema: Schema, bucket: int, rows: list[tuple[int, int]]) -> pa.RecordBatch:
    ids = [pack_id(bucket, rank) for rank in range(len(rows))]
    places = [place for place, _ in rows]
    values = [
        pa.array([str(p) for p in places] if kind == pa.string() else places, kind)
        for kind in schema.attributes.types
    ]
    head = [
        pa.array([0] * len(rows), pa.int8()),
        pa.array(ids, pa.int64()),
        pa.array([stime for _, stime in rows], TIMESTAMP),
    ]
    return pa.RecordBatch.from_arrays([*head, *values], schema=schema.arrow)


def naive(inputs: list[Stamps]) -> list[tuple[int, int, int, int]]:
    """(id, stime, input, place in the input), by sorting Python tuples."""
    rows = sorted(
        (stime, index, place)
        for index, stimes in enumerate(inputs)
        for place, stime in enumerate(sorted(stimes))
    )
    ranks: dict[int, int] = {}
    result = []
    for stime, index, place in rows:
        bucket = -(-stime // SIZE) - 1
        rank = ranks[bucket] = ranks.get(bucket, -1) + 1
        result.append((pack_id(bucket, rank), stime, index, place))
    return result


STAMPS = st.lists(st.integers(1, 8).map(lambda i: i * SIZE // 2), max_size=10)
"""Half-bucket steps: many ties, many edges."""


@given(st.lists(STAMPS, min_size=1, max_size=4))
def test_merge_is_a_sort_by_stime_input_and_id(inputs: list[Stamps]) -> None:
    union = SUnion(MergedSchema((A,) * len(inputs)), BUCKETS)
    merged = union.merge([stream(A, stimes) for stimes in inputs])
    assert merged.schema == union.schema.arrow
    rows = plain(merged)
    found = [(row["_id"], row["_stime"], row.get("_input", 0), row["n"]) for row in rows]
    assert found == naive(inputs)
    assert all(row["_type"] == 0 and row["s"] == str(row["n"]) for row in rows)


@given(st.tuples(STAMPS, STAMPS, STAMPS))
def test_different_schemas_have_a_port_each(inputs: tuple[Stamps, Stamps, Stamps]) -> None:
    union = SUnion(MergedSchema((A, B, A)), BUCKETS)
    schemas = (A, B, A)
    merged = union.merge([stream(s, stimes) for s, stimes in zip(schemas, inputs, strict=True)])
    merged.validate(full=True)
    found = []
    for row in plain(merged):
        mine, other = ("_port1", "_port0") if row["_input"] == 1 else ("_port0", "_port1")
        assert row[other] is None
        place = row[mine]["x"] if row["_input"] == 1 else row[mine]["n"]
        found.append((row["_id"], row["_stime"], row["_input"], int(place)))
    assert found == naive(list(inputs))


@given(st.tuples(STAMPS, STAMPS), st.integers(0, 4))
def test_merging_in_parts_gives_the_same(inputs: tuple[Stamps, Stamps], cut: int) -> None:
    """Replicas release different numbers of buckets at once."""
    union = SUnion(MergedSchema((A, A)), BUCKETS)
    whole = union.merge([stream(A, stimes) for stimes in inputs])
    logs = [stream(A, stimes) for stimes in inputs]
    parts = [
        union.merge([[b for b in log if (_number(b) < cut) == early] for log in logs])
        for early in (True, False)
    ]
    assert [row for part in parts for row in plain(part)] == plain(whole)


def _number(batch: pa.RecordBatch) -> int:
    return int(BUCKETS.of(batch.column("_stime").cast(pa.int64())[0].as_py()))


def test_the_merged_schema() -> None:
    same, differ = MergedSchema((A, A)), MergedSchema((A, B, A))
    assert MergedSchema((A,)).arrow.names == ["_type", "_id", "_stime", "n", "s"]
    assert MergedSchema((A, A), ids=False).arrow.names == ["_type", "_stime", "_input", "n", "s"]
    assert same.arrow.names == ["_type", "_id", "_stime", "_input", "n", "s"]
    assert differ.arrow.names == ["_type", "_id", "_stime", "_input", "_port0", "_port1"]
    assert same.port_of(1) is None
    assert [differ.port_of(i) for i in range(3)] == ["_port0", "_port1", "_port0"]
    assert differ.arrow.field("_port1").type == pa.struct(list(B.attributes))


def test_nothing_merges_to_nothing() -> None:
    union = SUnion(MergedSchema((A, B)), BUCKETS)
    merged = union.merge([[], []])
    assert merged.num_rows == 0
    assert merged.schema == union.schema.arrow


def test_the_boundary_row() -> None:
    for inputs in ((A, A), (A, B)):
        union = SUnion(MergedSchema(inputs), BUCKETS)
        batch = union.boundary(5 * SIZE)
        assert batch.schema == union.schema.arrow
        (row,) = plain(batch)
        assert row.pop("_type") == TupleType.BOUNDARY
        assert row.pop("_stime") == 5 * SIZE
        assert set(row.values()) == {None}
