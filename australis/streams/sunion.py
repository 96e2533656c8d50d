"""SUnion's pure half: several input streams, one sequence in canonical order.

The inputs of a fragment are merged by (`_stime`, input, `_id`), and each tuple
gets the id of its place in the merged bucket. A bucket may be released as stable
once every input's boundary has passed it (thesis 4.5.1). Inputs with the same
schema share their columns; where schemas differ each one has a struct column of
its own, so that the fragment still reads one source with one offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from australis.kernel.ids import RANK_BITS
from australis.streams.buckets import Buckets, stime_values
from australis.streams.canonical import refuse_overfull, runs
from australis.streams.schema import HEADER, TIMESTAMP, Schema, TupleType

INPUT = pa.field("_input", pa.int16())


@dataclass(frozen=True)
class MergedSchema:
    """The columns of a fragment's merged input; ids are left out where no operator asks."""

    inputs: tuple[Schema, ...]
    ids: bool = True

    @cached_property
    def ports(self) -> tuple[Schema, ...]:
        """The distinct schemas among the inputs, in order of appearance."""
        return tuple(dict.fromkeys(self.inputs))

    def port_of(self, index: int) -> str | None:
        """The struct column that holds this input, or None if its columns stand alone."""
        if len(self.ports) == 1:
            return None
        return f"_port{self.ports.index(self.inputs[index])}"

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema: header, input number, then the attributes or the ports."""
        return pa.schema([f for f in self.whole if self.ids or f.name != "_id"])

    @cached_property
    def whole(self) -> pa.Schema:
        """The same schema with ids, which merging needs."""
        header = [*HEADER, INPUT] if len(self.inputs) > 1 else [*HEADER]
        if len(self.ports) == 1:
            return pa.schema([*header, *self.ports[0].attributes])
        ports = [
            pa.field(f"_port{i}", pa.struct(list(port.attributes)))
            for i, port in enumerate(self.ports)
        ]
        return pa.schema([*header, *ports])


class SUnion:
    """Merges the inputs of one fragment."""

    def __init__(self, schema: MergedSchema, buckets: Buckets) -> None:
        self.schema = schema
        self.buckets = buckets

    def merge(self, inputs: Sequence[Sequence[pa.RecordBatch]]) -> pa.Table:
        """Whole buckets of every input, as one ordered and renumbered table."""
        parts = [
            self._widen(index, batch) for index, batches in enumerate(inputs) for batch in batches
        ]
        table = pa.Table.from_batches(parts, self.schema.whole)
        if sum(1 for batches in inputs if batches) > 1:
            table = self._ordered(table)
        return table if self.schema.ids else table.drop_columns("_id")

    def _ordered(self, table: pa.Table) -> pa.Table:
        stimes = stime_values(table.column("_stime"))
        order = np.lexsort((_int64(table.column("_id")), _int64(table.column("_input")), stimes))
        table = table.combine_chunks().take(pa.array(order))
        if not self.schema.ids:
            return table
        ids = self._renumber(stimes[order])
        return table.set_column(1, HEADER[1], pa.array(ids))

    def _renumber(self, stimes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        ids = np.empty(len(stimes), dtype=np.int64)
        for bucket, lo, hi in runs(self.buckets.of_all(stimes)):
            refuse_overfull(hi - lo)
            ids[lo:hi] = (bucket << RANK_BITS) + np.arange(hi - lo)
        return ids

    def _widen(self, index: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        if len(self.schema.inputs) == 1:
            return batch
        n = batch.num_rows
        header = [*batch.columns[:3], pa.array(np.full(n, index, dtype=np.int16))]
        attributes = batch.columns[3:]
        mine = self.schema.port_of(index)
        if mine is None:
            return pa.RecordBatch.from_arrays([*header, *attributes], schema=self.schema.whole)
        ports = [
            pa.StructArray.from_arrays(attributes, fields=list(field.type))
            if field.name == mine
            else pa.nulls(n, field.type)
            for field in list(self.schema.whole)[4:]
        ]
        return pa.RecordBatch.from_arrays([*header, *ports], schema=self.schema.whole)

    def boundary(self, boundary_us: int) -> pa.RecordBatch:
        """The boundary row that ends a release."""
        names = self.schema.arrow.names
        values: dict[str, pa.Array] = {
            "_type": pa.array([int(TupleType.BOUNDARY)], pa.int8()),
            "_stime": pa.array([boundary_us], TIMESTAMP),
        }
        columns = [
            values.get(name, pa.nulls(1, self.schema.arrow.field(name).type)) for name in names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)


def _int64(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    values: npt.NDArray[np.int64] = column.combine_chunks().to_numpy(zero_copy_only=False)
    return values
