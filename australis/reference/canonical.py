"""Rows put together into canonical record batches.

This writes what `streams.canonical` would write, byte for byte, but is made for
buckets of a few rows that exist as Python values already.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import pyarrow as pa

from australis.kernel.ids import RANK_BITS
from australis.reference.expressions import Row
from australis.reference.numbers import NAN
from australis.streams.buckets import Buckets
from australis.streams.canonical import refuse_overfull
from australis.streams.schema import TIMESTAMP, Schema, TupleType

Writer = Callable[[Sequence[Any]], pa.Array]
_CODES = {
    pa.int8(): "b",
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    pa.date32(): "i",
    TIMESTAMP: "q",
}
_IDS = pa.int64()


class Canonical:
    """Cuts the rows of one stream into canonical, numbered batches."""

    def __init__(self, schema: Schema, buckets: Buckets) -> None:
        self._schema = schema.arrow
        self._buckets = buckets
        kinds = [field.arrow for field in schema]
        self._writers = [writer(kind) for kind in (TIMESTAMP, *kinds)]
        self._floats = [at for at, kind in enumerate(kinds, 1) if pa.types.is_floating(kind)]
        self._structs = any(pa.types.is_struct(kind) for kind in kinds)
        self._keys = [_key(kind) for kind in kinds]

    def by_bucket(self, rows: list[Row]) -> list[tuple[int, pa.RecordBatch]]:
        """One batch for each bucket that has rows, in order."""
        ordered = self._ordered(rows)
        first, last = self._buckets.of(ordered[0][0]), self._buckets.of(ordered[-1][0])
        if first == last:
            return [(first, self._batch(first, ordered))]
        of = self._buckets.of
        return [
            (bucket, self._batch(bucket, list(members)))
            for bucket, members in groupby(ordered, key=lambda row: of(row[0]))
        ]

    def _ordered(self, rows: list[Row]) -> list[Row]:
        """By `_stime`, then every attribute; NaN comes after the numbers, NULL after all."""
        if len(rows) < 2:
            return rows
        if len({row[0] for row in rows}) < len(rows) and (
            self._structs or any(row[at] != row[at] for at in self._floats for row in rows)
        ):
            return sorted(rows, key=self._sort_key)
        try:
            # NULL compares with nothing, which shows only where it decides the order.
            return sorted(rows)
        except TypeError:
            return sorted(rows, key=self._sort_key)

    def _sort_key(self, row: Row) -> tuple[Any, ...]:
        return (row[0], *[key(value) for key, value in zip(self._keys, row[1:], strict=False)])

    def _batch(self, bucket: int, rows: list[Row]) -> pa.RecordBatch:
        n = len(rows)
        refuse_overfull(n)
        first = bucket << RANK_BITS
        ids = pa.py_buffer(array("q", range(first, first + n)))
        arrays = [_insertions(n), pa.Array.from_buffers(_IDS, n, [None, ids])]
        for write, values in zip(self._writers, zip(*rows, strict=True), strict=False):
            arrays.append(write(values))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _key(kind: pa.DataType) -> Callable[[Any], Any]:
    """A key that sorts values of this type as Arrow does."""
    if pa.types.is_struct(kind):
        keys = [_key(field.type) for field in kind]
        nothing = (None,) * len(keys)
        return lambda v: (
            v is None,
            *[key(child) for key, child in zip(keys, v or nothing, strict=True)],
        )
    if pa.types.is_floating(kind):
        return lambda v: (2, 0) if v is None else (1, 0) if v != v else (0, v)
    return lambda v: (True, 0) if v is None else (False, v)


@lru_cache(maxsize=256)
def _insertions(n: int) -> pa.Array:
    kinds = bytes([int(TupleType.INSERTION)]) * n
    return pa.Array.from_buffers(pa.int8(), n, [None, pa.py_buffer(kinds)])


def writer(kind: pa.DataType) -> Writer:
    """How to write a column of this type."""
    if kind in _CODES:
        return _integers(kind, _CODES[kind])
    if pa.types.is_floating(kind):
        return _floats(kind, "d" if kind == pa.float64() else "f")
    if pa.types.is_decimal(kind):
        return lambda values: _decimals(kind, values)
    if pa.types.is_struct(kind):
        return _structs(kind)
    return lambda values: pa.array(values, kind)


def _integers(kind: pa.DataType, code: str) -> Writer:
    def write(values: Sequence[Any]) -> pa.Array:
        if None in values:
            return pa.array(values, kind)
        data = pa.py_buffer(array(code, values))
        return pa.Array.from_buffers(kind, len(values), [None, data])

    return write


def _floats(kind: pa.DataType, code: str) -> Writer:
    def write(values: Sequence[Any]) -> pa.Array:
        # One zero and one NaN: -0.0 + 0.0 is 0.0.
        clean = [None if v is None else v + 0.0 if v == v else NAN for v in values]
        if None in clean:
            return pa.array(clean, kind, from_pandas=False)
        data: array[float] = array(code, clean)  # type: ignore[arg-type]
        return pa.Array.from_buffers(kind, len(clean), [None, pa.py_buffer(data)])

    return write


def _decimals(kind: pa.DataType, values: Sequence[int | None]) -> pa.Array:
    data = b"".join((v or 0).to_bytes(16, "little", signed=True) for v in values)
    validity = None
    if None in values:
        valid = pa.array([v is not None for v in values], pa.bool_())
        validity = valid.buffers()[1]
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(data)])


def _structs(kind: pa.DataType) -> Writer:
    fields = list(kind)
    writers = [writer(field.type) for field in fields]

    def write(values: Sequence[Any]) -> pa.Array:
        children = [
            write_child([None if v is None else v[at] for v in values])
            for at, write_child in enumerate(writers)
        ]
        mask = pa.array([v is None for v in values]) if None in values else None
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)

    return write
