"""The port by which Spark's processes reach the node.

Spark runs the two ends of a query in processes of its own, possibly on other
machines. They get the name of a port's factory and an address, both plain text,
and connect themselves.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class LanePort(Protocol):
    """The requests of a lane to the node that runs it."""

    def latest(self, lane: str, after: int, reader: str) -> int:
        """The last bucket that may be processed next, `after` if there is none.

        All readers of a lane that ask in one round get the same answer.
        """
        ...

    def rows(self, lane: str, after: int, upto: int) -> int:
        """The number of tuples in the buckets (after, upto]."""
        ...

    def read(
        self, lane: str, after: int, upto: int, part: int, parts: int
    ) -> Iterator[pa.RecordBatch]:
        """One part of the merged buckets (after, upto]; the last part ends with a boundary."""
        ...

    def stage(self, lane: str, batches: Iterator[pa.RecordBatch]) -> str | None:
        """Stage the rows of one task; returns the name to commit them by (None: no rows)."""
        ...

    def commit(self, lane: str, batch_id: int, staged: Sequence[str]) -> None:
        """Commit a complete micro-batch: append what its tasks staged."""
        ...

    def abort(self, lane: str, batch_id: int, staged: Sequence[str]) -> None:
        """Abort a failed micro-batch: drop what its tasks staged."""
        ...


def private_name(end: str, lane: str) -> str:
    """The name of one end of one lane as a Spark format."""
    return f"australis_{end}_{lane.encode().hex()}"


def connect(factory: str, address: str) -> LanePort:
    """Open the port that `module:function` makes for this address."""
    module, _, name = factory.partition(":")
    port: LanePort = getattr(importlib.import_module(module), name)(address)
    return port
