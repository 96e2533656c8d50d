"""The canonical order and the canonical bytes of a bucket.

Two replicas batch their work differently and must still write the same bytes.
So within a bucket tuples are ordered by `_stime`, then by all attributes; each
bucket is one record batch, rebuilt from scratch; the bytes under a null are
zero; and there is one zero and one NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from australis.kernel.errors import Stopped
from australis.kernel.ids import MAX_RANK, RANK_BITS
from australis.streams.buckets import Buckets, stime_values
from australis.streams.schema import HEADER_NAMES, Schema, TupleType


def canonical_order(rows: pa.Table) -> pa.Array:
    """Indices that put rows into order: `_stime`, then every attribute."""
    keys: list[pa.ChunkedArray | pa.Array] = [rows.column("_stime")]
    for name in rows.column_names:
        if name not in HEADER_NAMES:
            keys.extend(_sort_keys(rows.column(name)))
    names = [str(i) for i in range(len(keys))]
    table = pa.table(keys, names=names)
    return pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names])


def _sort_keys(column: pa.ChunkedArray | pa.Array) -> list[pa.ChunkedArray | pa.Array]:
    if not pa.types.is_struct(column.type):
        return [column]
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    keys: list[pa.ChunkedArray | pa.Array] = [pc.is_null(whole)]
    for child in whole.flatten():
        keys.extend(_sort_keys(child))
    return keys


def by_bucket(
    rows: pa.Table, order: pa.Array, schema: Schema, buckets: Buckets
) -> list[tuple[int, pa.RecordBatch]]:
    """Cut ordered rows into one canonical, numbered record batch per bucket."""
    order_np = order.to_numpy()
    numbers = buckets.of_all(stime_values(rows.column("_stime"))[order_np])
    whole = rows.combine_chunks()
    return [
        (bucket, _bucket_batch(whole.take(pa.array(order_np[lo:hi])), bucket, schema))
        for bucket, lo, hi in runs(numbers)
    ]


def runs(numbers: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """The runs of equal numbers: the number, where it begins, where it ends."""
    if not len(numbers):
        return
    edges = np.flatnonzero(np.diff(numbers)) + 1
    starts = np.concatenate(([0], edges))
    ends = np.concatenate((edges, [len(numbers)]))
    for lo, hi in zip(starts.tolist(), ends.tolist(), strict=True):
        yield int(numbers[lo]), lo, hi


def _bucket_batch(rows: pa.Table, bucket: int, schema: Schema) -> pa.RecordBatch:
    n = rows.num_rows
    refuse_overfull(n)
    columns = [
        pa.array(np.full(n, int(TupleType.INSERTION), dtype=np.int8)),
        pa.array((bucket << RANK_BITS) + np.arange(n, dtype=np.int64)),
    ]
    for name in ("_stime", *schema.names):
        column = rows.column(name)
        columns.append(
            canonical_array(column.combine_chunks() if column.num_chunks != 1 else column.chunk(0))
        )
    return pa.RecordBatch.from_arrays(columns, schema=schema.arrow)


def refuse_overfull(rows: int) -> None:
    """Raise `Stopped` if one bucket has more tuples than ids can number."""
    if rows > MAX_RANK + 1:
        raise Stopped(
            f"a bucket holds {rows} tuples, more than the {MAX_RANK + 1} that ids can number"
        )


def canonical_array(array: pa.Array) -> pa.Array:
    """The same values in the one layout that equal values always have."""
    if pa.types.is_struct(array.type):
        children = [canonical_array(child) for child in array.flatten()]
        mask = pc.is_null(array) if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(array.type), mask=mask)
    if pa.types.is_floating(array.type):
        array = _canonical_floats(array)
    if pa.types.is_boolean(array.type):
        values = array.fill_null(False).to_numpy(zero_copy_only=False)
        data = pa.py_buffer(np.packbits(values, bitorder="little").tobytes())
        return pa.Array.from_buffers(array.type, len(array), [_validity(array), data])
    if not array.null_count:
        return array
    filled = array.fill_null(_zero(array.type))
    return pa.Array.from_buffers(array.type, len(array), [_validity(array), *filled.buffers()[1:]])


def _validity(array: pa.Array) -> pa.Buffer | None:
    if not array.null_count:
        return None
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())


def _canonical_floats(array: pa.Array) -> pa.Array:
    values = array.fill_null(0.0).to_numpy(zero_copy_only=False)
    values = values + values.dtype.type(0)
    values[np.isnan(values)] = np.nan
    mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    return pa.array(values, type=array.type, mask=mask, from_pandas=False)


def _zero(kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_string(kind):
        return pa.scalar("", kind)
    if pa.types.is_binary(kind):
        return pa.scalar(b"", kind)
    if pa.types.is_decimal(kind):
        return pa.scalar(Decimal(0), kind)
    return pa.scalar(0, pa.int32()).cast(kind) if pa.types.is_date(kind) else pa.scalar(0, kind)
