"""How Spark's processes reach the DataPath.

Spark runs the two ends of a query in processes of its own, possibly on other
machines. They are told the name of a port's factory and an address, both plain
text, and connect themselves.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class LanePort(Protocol):
    """What a lane asks of its DataPath."""

    def latest(self, lane: str, after: int, reader: str) -> int:
        """The last bucket that may be processed next, `after` if there is none.

        All readers of a lane that ask in one round get the same answer.
        """
        ...

    def rows(self, lane: str, after: int, upto: int) -> int:
        """How many tuples the buckets (after, upto] hold."""
        ...

    def read(
        self, lane: str, after: int, upto: int, part: int, parts: int
    ) -> Iterator[pa.RecordBatch]:
        """One part of the merged buckets (after, upto]; the last part ends with a boundary."""
        ...

    def processed(self, lane: str, upto: int) -> None:
        """The buckets up to this one will not be asked for again."""
        ...

    def stage(self, lane: str, batches: Iterator[pa.RecordBatch]) -> str | None:
        """Hand over the rows of one task; the name to commit them by (None: no rows)."""
        ...

    def commit(self, lane: str, batch_id: int, staged: Sequence[str]) -> None:
        """The micro-batch is complete: append what its tasks staged."""
        ...

    def abort(self, lane: str, batch_id: int, staged: Sequence[str]) -> None:
        """The micro-batch failed: forget what its tasks staged."""
        ...


def private_name(end: str, lane: str) -> str:
    """The name of one end of one lane as a Spark format."""
    return f"australis_{end}_{lane.encode().hex()}"


def connect(factory: str, address: str) -> LanePort:
    """Open the port that `module:function` makes for this address."""
    module, _, name = factory.partition(":")
    port: LanePort = getattr(importlib.import_module(module), name)(address)
    return port
