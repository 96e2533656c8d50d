"""What all sources share: chunks of rows, and the rows that were turned away.

A source that can be read again (`Reader`) always gives the same rows in the
same order, so its position is a number of rows. Rows that do not fit the schema
are `Rejected`, with the reason; they do not count as rows, and one bad row
never stops a source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

MAX_ROWS = 65_536
"""The most rows in one chunk."""

RAW_CHARACTERS = 2_000
"""How much of a rejected row is kept."""


@dataclass(frozen=True)
class Rejected:
    """A row that does not fit: where it stood, why, and what it was."""

    line: int
    reason: str
    raw: str


@dataclass(frozen=True)
class Chunk:
    """Some rows of a source, with exactly the schema's attributes."""

    rows: pa.RecordBatch
    rejected: tuple[Rejected, ...] = ()


class Reader(Protocol):
    """A source that can be read again, with the same result."""

    def chunks(self, skip: int) -> Iterator[Chunk]:
        """The accepted rows without the first `skip`, and *all* rejected ones.

        Chunks are cut the same way whatever is skipped, so that the n-th
        rejected row is the same one in every run.
        """
        ...


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
