"""Rows pushed by a program in this process.

`push` takes a list of dicts, a pandas DataFrame, or an Arrow table or record
batch, and returns once the rows are durable. A call is accepted as a whole or
refused: one value that does not fit refuses the call, with its row and column. In
dicts a missing key is NULL; a key or column the schema does not know is refused,
because it is probably a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from australis.diagram.model import ARRIVAL, Source
from australis.kernel.errors import UserError
from australis.kernel.names import known_names
from australis.runtime.sources.base import shown_value
from australis.runtime.sources.columns import cast, faults
from australis.runtime.sources.inbox import Delivery, Inbox
from australis.runtime.sources.stamp import Stamper
from australis.streams.buckets import Buckets
from australis.streams.schema import Field

_MISFIT = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    OverflowError,
    TypeError,
    ValueError,
)


class PushHandle:
    """The handle by which a program pushes rows, from any thread."""

    def __init__(
        self,
        source: Source,
        buckets: Buckets,
        inbox: Inbox,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._source = source
        self._inbox = inbox
        self._stamper = None if source.time == ARRIVAL else Stamper(source, buckets, clock)

    def push(self, rows: Any) -> None:
        """Take these rows; returns once they are durable."""
        batch = self._batch(rows)
        if batch.num_rows == 0:
            return
        stimes = None
        if self._stamper is not None:
            stimes, wrong = self._stamper.stimes(batch)
            if wrong:
                raise self._wrong(f"row {wrong[0]} {self._stamper.reason(batch, wrong[0])}")
        self._inbox.deliver(Delivery(batch, stimes))

    def end(self) -> None:
        """End the source, which gets no more rows; returns once that is durable."""
        nothing = pa.RecordBatch.from_arrays([], names=[])
        self._inbox.deliver(Delivery(nothing, None, end=True))

    def _wrong(self, sentence: str) -> UserError:
        return UserError(
            f"was pushed rows that do not fit: {sentence}",
            name=self._source.name,
            place=self._source.place,
        )

    def _batch(self, rows: Any) -> pa.RecordBatch:
        if isinstance(rows, pa.Table | pa.RecordBatch):
            return self._from_arrow(rows)
        if hasattr(rows, "to_dict") and hasattr(rows, "columns"):
            return self._from_pandas(rows)
        if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
            return self._from_dicts(rows)
        raise self._wrong(
            f"a {type(rows).__name__} is neither a list of dicts, a DataFrame"
            " nor an Arrow table or record batch"
        )

    def _from_dicts(self, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        known = dict.fromkeys(self._source.schema.names)
        for index, row in enumerate(rows):
            if not isinstance(row, Mapping):
                raise self._wrong(f"row {index} is a {type(row).__name__}, not a dict")
            if not row.keys() <= known.keys():
                odd = next(key for key in row if key not in known)
                raise self._wrong(
                    f"row {index} has the unknown column '{odd}' ({known_names(odd, known)})"
                )
        columns = [
            self._values(field, [row.get(field.name) for row in rows])
            for field in self._source.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._source.schema.attributes)

    def _from_pandas(self, frame: Any) -> pa.RecordBatch:
        self._check_names([str(name) for name in frame.columns])
        columns = [
            self._values(field, frame[field.name], from_pandas=True)
            for field in self._source.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._source.schema.attributes)

    def _from_arrow(self, rows: pa.Table | pa.RecordBatch) -> pa.RecordBatch:
        self._check_names(rows.schema.names)
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        columns: list[pa.Array] = []
        for field in self._source.schema:
            whole = table.column(field.name).combine_chunks()
            columns.append(self._fitted(field, whole, cast))
        return pa.RecordBatch.from_arrays(columns, schema=self._source.schema.attributes)

    def _check_names(self, names: Sequence[str]) -> None:
        known = self._source.schema.names
        for name in names:
            if name not in known:
                raise self._wrong(f"the column '{name}' is unknown ({known_names(name, known)})")
        for name in known:
            if names.count(name) != 1:
                raise self._wrong(f"the column '{name}' is missing or there twice")

    def _values(self, field: Field, values: Any, from_pandas: bool = False) -> pa.Array:
        def build(part: Any, kind: pa.DataType) -> pa.Array:
            try:
                return pa.array(part, kind, from_pandas=from_pandas)
            except _MISFIT:
                # Texts are read as they are in files, so that "2026-01-01T00:00:00Z" is a time.
                texts = pa.array(part, pa.string(), from_pandas=from_pandas)
                if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
                    return cast(texts, kind)
                raise

        return self._fitted(field, values, build)

    def _fitted(
        self, field: Field, values: Any, build: Callable[[Any, pa.DataType], pa.Array]
    ) -> pa.Array:
        def works(lo: int, hi: int) -> bool:
            try:
                build(values[lo:hi], field.arrow)
            except _MISFIT:
                return False
            return True

        try:
            return build(values, field.arrow)
        except _MISFIT:
            wrong = faults(len(values), works)
            if not wrong:
                kind = getattr(values, "type", "of another type")
                raise self._wrong(f"column '{field.name}' is {kind}, not {field.type}") from None
            row = wrong[0]
            value = values.iloc[row] if hasattr(values, "iloc") else values[row]
            shown = repr(shown_value(value) if isinstance(value, pa.Scalar) else value)
            raise self._wrong(
                f"row {row}, column '{field.name}': {shown[:80]} does not fit {field.type}"
            ) from None
