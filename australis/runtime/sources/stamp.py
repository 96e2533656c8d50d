"""The `_stime` of a tuple, from the source's time column.

A timestamp or date column is taken as it is. A number counts from 1970 in the
source's `unit` (s, ms or us; us if it says nothing); fractions of a microsecond
are rounded away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from australis.diagram.model import ARRIVAL, Source
from australis.kernel.durations import format_duration
from australis.kernel.errors import UserError
from australis.runtime.sources.base import Rejected, shown_row, shown_value
from australis.streams.buckets import Buckets
from australis.streams.schema import TIMESTAMP
from australis.streams.source import valid_stimes

UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def check_time(source: Source) -> None:
    """Raise a `UserError` if the source's time column is missing or cannot be a time."""

    def wrong(sentence: str) -> UserError:
        return UserError(sentence, name=source.name, place=source.place)

    unit = source.options.get("unit")
    if unit is not None and unit not in UNITS:
        raise wrong(f"has the option unit: {unit!r}, which is not one of {', '.join(UNITS)}")
    if source.time == ARRIVAL:
        if unit is not None:
            raise wrong("has the option 'unit' but no time column")
        return
    if source.time not in source.schema.names:
        known = ", ".join(source.schema.names)
        raise wrong(f"has the time column '{source.time}', which it does not declare ({known})")
    kind = source.schema.attributes.field(source.time).type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not (is_number or pa.types.is_temporal(kind)):
        raise wrong(f"has the time column '{source.time}', which is neither a time nor a number")
    if unit is not None and not is_number:
        raise wrong(f"has the option 'unit', but its time column '{source.time}' is no number")


class Stamper:
    """Computes the `_stime` of rows from their time column."""

    def __init__(
        self, source: Source, buckets: Buckets, clock: Callable[[], int] | None = None
    ) -> None:
        """A stamper that, with a clock, takes no time too far ahead of it (`max_ahead`)."""
        check_time(source)
        self._ahead_us = source.max_ahead_us
        self._clock = clock
        self._time = source.time
        self._buckets = buckets
        self._scale = UNITS[source.options.get("unit", "us")]

    def stimes(self, rows: pa.RecordBatch) -> tuple[pa.Array, list[int]]:
        """The `_stime` of each row, and which rows have none that a stream can carry."""
        stimes = self._stimes(rows.column(self._time))
        valid = valid_stimes(stimes, self._buckets)
        if self._clock is not None and self._ahead_us is not None:
            latest = pa.scalar(self._clock() + self._ahead_us, pa.int64())
            near = pc.less_equal(stimes.cast(pa.int64()), latest)
            valid = pc.fill_null(pc.and_(valid, near), False)
        if pc.all(valid).as_py() is not False:
            return stimes, []
        return stimes, pc.indices_nonzero(pc.invert(valid)).to_pylist()

    def _stimes(self, column: pa.Array) -> pa.Array:
        if pa.types.is_temporal(column.type):
            return column.cast(TIMESTAMP)
        if pa.types.is_integer(column.type):
            wide = column.cast(pa.int64())
            limit = np.iinfo(np.int64).max // self._scale
            fits = pc.and_(pc.less_equal(wide, limit), pc.greater_equal(wide, -limit))
            wide = pc.if_else(fits, wide, pa.scalar(None, pa.int64()))
            return pc.multiply(wide, self._scale).cast(TIMESTAMP)
        micros = pc.round(pc.multiply(column.cast(pa.float64()), float(self._scale)))
        fits = pc.less(pc.abs(micros), 2.0**62)  # false for NaN too
        return pc.if_else(fits, micros, None).cast(pa.int64()).cast(TIMESTAMP)

    def reject(self, rows: pa.RecordBatch, wrong: Sequence[int]) -> list[Rejected]:
        """The rejections of these rows, whose lines are no longer known."""
        return [Rejected(0, self.reason(rows, row), shown_row(rows, row)) for row in wrong]

    def reason(self, rows: pa.RecordBatch, row: int) -> str:
        """The reason why this row cannot enter a stream."""
        value = rows.column(self._time)[row]
        if not value.is_valid:
            return f"has no value in the time column '{self._time}'"
        said = shown_value(value)
        stime = self._stimes(rows.column(self._time).slice(row, 1))
        if self._ahead_us is not None and valid_stimes(stime, self._buckets)[0].as_py():
            ahead = format_duration(self._ahead_us)
            return f"column '{self._time}': {said} is more than {ahead} ahead of the clock"
        return f"column '{self._time}': {said} is not a time after 1970 that a stream can carry"


def reader_stamper(source: Source) -> Stamper | None:
    """The stamper with which a reader checks times; None if tuples are stamped on arrival.

    A reader still knows the line of a row, but not the size of buckets, on which the
    last time depends that ids can express; the replay checks that.
    """
    return None if source.time == ARRIVAL else Stamper(source, Buckets())
