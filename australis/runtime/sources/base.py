"""What all sources share: chunks of rows, and rejected rows.

A source that can be read again (`Reader`) always gives the same rows in the
same order, so its position is a number of rows. Rows that do not fit the schema
are `Rejected`, with the reason; they do not count as rows, and one bad row
never stops a source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

MAX_ROWS = 65_536
"""The largest number of rows in one chunk."""

RAW_CHARACTERS = 2_000
"""The number of characters of a rejected row that are kept."""


@dataclass(frozen=True)
class Rejected:
    """A rejected row: its position, the reason, and its text."""

    line: int
    reason: str
    raw: str


@dataclass(frozen=True)
class Chunk:
    """Some rows of a source, with exactly the schema's attributes."""

    rows: pa.RecordBatch
    rejected: tuple[Rejected, ...] = ()


class FilesRead:
    """The progress of reading some files, in bytes."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._sizes = {path: path.stat().st_size for path in paths}
        self._read = dict.fromkeys(self._sizes, 0)

    def upto(self, path: Path, position: int) -> None:
        """Record that a file has been read up to this position."""
        self._read[path] = position

    @property
    def share(self) -> float:
        """The share of all bytes that has been read."""
        return min(1.0, sum(self._read.values()) / max(1, sum(self._sizes.values())))


class Reader(Protocol):
    """A source that can be read again, with the same result."""

    @property
    def share(self) -> float | None:
        """The approximate share of its rows that has been read; None for an endless source."""
        ...

    def chunks(self, skip: int) -> Iterator[Chunk]:
        """The accepted rows without the first `skip`, and *all* rejected ones.

        Chunks are cut the same way whatever is skipped, so that the n-th
        rejected row is the same one in every run.
        """
        ...


def shown_value(value: pa.Scalar) -> Any:
    """A value as Python has it, or a text that stands for one that Python cannot hold."""
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        pass
    if isinstance(value, pa.StringScalar | pa.LargeStringScalar):
        return value.as_buffer().to_pybytes().decode("utf-8", errors="replace")
    try:
        return str(value.cast(pa.string()))
    except (pa.ArrowException, ValueError, OverflowError):
        return f"a {value.type}"


def shown_row(rows: pa.RecordBatch, row: int) -> str:
    """A row that has no text of its own, shortened."""
    return shown(str({name: shown_value(rows.column(name)[row]) for name in rows.schema.names}))


def shown(raw: bytes | str) -> str:
    """A rejected row as text, shortened."""
    text = raw.decode("utf-8", errors="replace") if isinstance(raw, bytes) else raw
    return text if len(text) <= RAW_CHARACTERS else text[:RAW_CHARACTERS] + "…"


def without_first(chunks: Iterable[Chunk], skip: int) -> Iterator[Chunk]:
    """The chunks without their first `skip` rows, none larger than `MAX_ROWS`."""
    for chunk in chunks:
        skipped = min(skip, chunk.rows.num_rows)
        skip -= skipped
        rows, rejected = chunk.rows.slice(skipped), chunk.rejected
        for start in range(0, max(rows.num_rows, 1), MAX_ROWS):
            part = rows.slice(start, MAX_ROWS)
            if part.num_rows or rejected:
                yield Chunk(part, rejected)
            rejected = ()
