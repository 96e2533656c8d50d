"""Buckets: the tuples of one fixed interval of `_stime`, the grain of serialisation.

Bucket k covers (k*B, (k+1)*B]: a tuple exactly at a boundary lies before it, so
that "boundary b" means that every later tuple has `_stime` > b.

>>> clock = Buckets(500_000)
>>> clock.of(500_000), clock.of(500_001), clock.end(0)
(0, 1, 500000)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from australis.kernel.durations import MILLISECOND, format_duration
from australis.kernel.errors import UserError
from australis.kernel.ids import MAX_BUCKET

MIN_BUCKET_US = 10 * MILLISECOND
DEFAULT_BUCKET_US = 500 * MILLISECOND

END_OF_STREAM_US = 253_370_764_800_000_000
"""The boundary after the last tuple of a stream that has ended (the year 9999)."""


@dataclass(frozen=True)
class Buckets:
    """The division of time into buckets of one size."""

    size_us: int = DEFAULT_BUCKET_US

    def __post_init__(self) -> None:
        if self.size_us < MIN_BUCKET_US or self.size_us % MILLISECOND:
            raise UserError(
                f"is not a bucket size: {format_duration(self.size_us)}"
                " (whole milliseconds, at least 10 ms)"
            )

    def of(self, stime_us: int) -> int:
        """The bucket of one tuple."""
        return -(-stime_us // self.size_us) - 1

    def of_all(self, stimes_us: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The bucket of each tuple."""
        result: npt.NDArray[np.int64] = -(-stimes_us // self.size_us) - 1
        return result

    def end(self, bucket: int) -> int:
        """The last `_stime` of a bucket, which is its boundary."""
        return min((bucket + 1) * self.size_us, END_OF_STREAM_US)

    def floor(self, boundary_us: int) -> int:
        """The largest bucket end at or before this time, up to which a boundary there closes."""
        if boundary_us >= END_OF_STREAM_US:
            return END_OF_STREAM_US
        return boundary_us // self.size_us * self.size_us

    def closed_by(self, boundary_us: int) -> int:
        """The last bucket that a boundary closes."""
        if boundary_us >= END_OF_STREAM_US:
            return self.last
        return boundary_us // self.size_us - 1

    @property
    def last(self) -> int:
        """The bucket whose end is the end of the stream."""
        return self.of(END_OF_STREAM_US)

    @property
    def max_stime_us(self) -> int:
        """The last `_stime` that ids can express."""
        return min(self.end(MAX_BUCKET), END_OF_STREAM_US - self.size_us)


def stime_values(column: Any) -> npt.NDArray[np.int64]:
    """A timestamp column as microseconds, without a copy where there are no nulls."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    values: npt.NDArray[np.int64] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return values
