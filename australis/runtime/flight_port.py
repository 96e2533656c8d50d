"""The port by which Spark's processes reach the work of their lane over Arrow Flight.

There are many such processes, and each imports this module: it imports nothing of
the package.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.flight as fl

FACTORY = f"{__name__}:port"
"""The function with which Spark's processes connect."""


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """A request or a ticket: the run's secret, the lane and the request's numbers."""

    secret: str
    lane: str
    numbers: tuple[int, ...] = ()
    names: tuple[str, ...] = ()


class FlightPort:
    """The connection of a lane to the node that runs it, which may be on another machine."""

    def __init__(self, address: str) -> None:
        location, _, self._secret = address.partition("#")
        self._client = fl.connect(location)

    def _ask(self, kind: str, ask: Ask) -> Any:
        action = fl.Action(kind, msgspec.msgpack.encode(ask))
        (result,) = self._client.do_action(action)
        return msgspec.msgpack.decode(result.body.to_pybytes())

    def latest(self, lane: str, after: int, reader: str) -> int:
        return int(self._ask("latest", Ask(self._secret, lane, (after,), (reader,))))

    def rows(self, lane: str, after: int, upto: int) -> int:
        return int(self._ask("rows", Ask(self._secret, lane, (after, upto))))

    def read(
        self, lane: str, after: int, upto: int, part: int, parts: int
    ) -> Iterator[pa.RecordBatch]:
        ticket = fl.Ticket(
            msgspec.msgpack.encode(Ask(self._secret, lane, (after, upto, part, parts)))
        )
        return (chunk.data for chunk in self._client.do_get(ticket))

    def stage(self, lane: str, batches: Iterator[pa.RecordBatch]) -> str | None:
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return None
        descriptor = fl.FlightDescriptor.for_command(
            msgspec.msgpack.encode(Ask(self._secret, lane))
        )
        writer, answer = self._client.do_put(descriptor, first.schema)
        with writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)
            writer.done_writing()
            name: bytes = answer.read().to_pybytes()
        return name.decode()

    def commit(self, lane: str, batch_id: int, staged: Sequence[str]) -> None:
        self._ask("commit", Ask(self._secret, lane, (batch_id,), tuple(staged)))

    def abort(self, lane: str, batch_id: int, staged: Sequence[str]) -> None:
        self._ask("abort", Ask(self._secret, lane, (batch_id,), tuple(staged)))


@functools.lru_cache(maxsize=16)
def port(address: str) -> FlightPort:
    """The port for this address; Spark's processes live long and connect once."""
    return FlightPort(address)
