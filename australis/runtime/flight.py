"""The Arrow Flight server for Spark's processes, which use the ports of `runtime.flight_port`.

`DoGet` streams merged buckets, `DoPut` stages a task's rows, `DoAction` carries
small requests, as msgpack. No pickle crosses the wire. Only callers that know the
secret of the run are answered; the connection itself is not encrypted. Flight's server bounds neither
connections nor what it reads of a request before it knows the caller. So on one machine it has no
port, but a socket in a directory that only its user may enter.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.flight as fl

from australis.deployment.cluster import LOOPBACK
from australis.kernel.errors import Stopped
from australis.runtime.flight_port import Ask


class Served(Protocol):
    """The requests of a Spark query; `runtime.node.spark_work` implements them."""

    @property
    def lanes(self) -> Mapping[str, Any]: ...
    def latest(self, name: str, after: int, reader: str) -> int: ...
    def rows(self, name: str, after: int, upto: int) -> int: ...
    def read(
        self, name: str, after: int, upto: int, part: int, parts: int
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]: ...
    def stage(self, name: str, batches: Sequence[pa.RecordBatch]) -> str: ...
    def commit(self, name: str, batch_id: int, staged: Sequence[str]) -> None: ...
    def abort(self, name: str, staged: Sequence[str]) -> None: ...


class LaneServer(fl.FlightServerBase):
    """Serves the lanes of one replica on one port."""

    def __init__(
        self,
        work: Served,
        on_stop: Callable[[Stopped], None],
        host: str = LOOPBACK,
        port: int = 0,
    ) -> None:
        self._directory: Path | None = None
        if host == LOOPBACK:
            self._directory = Path(tempfile.mkdtemp(prefix="australis-"))
            super().__init__(f"grpc+unix://{self._directory}/lanes")
        else:
            super().__init__(f"grpc://{host}:{port}")
        self._work = work
        self._on_stop = on_stop
        self._host = host
        # The server answers from now on. `serve` would only wait, and end it on SIGTERM, when
        # the queries that are to be stopped still need it.
        self._secret = secrets.token_hex(16)

    @property
    def address(self) -> str:
        """The address for clients, with the secret of this run, which they must know."""
        if self._directory is not None:
            return f"grpc+unix://{self._directory}/lanes#{self._secret}"
        return f"grpc://{self._host}:{self.port}#{self._secret}"

    def shutdown(self) -> None:
        """End the server once its calls have ended."""
        super().shutdown()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)

    def do_get(self, context: Any, ticket: fl.Ticket) -> fl.FlightDataStream:
        ask = self._decode(ticket.ticket)
        after, upto, part, parts = ask.numbers
        schema, batches = self._guard(lambda: self._work.read(ask.lane, after, upto, part, parts))
        return fl.RecordBatchStream(pa.RecordBatchReader.from_batches(schema, batches))

    def do_put(
        self, context: Any, descriptor: fl.FlightDescriptor, reader: Any, writer: Any
    ) -> None:
        ask = self._decode(descriptor.command)
        batches = [chunk.data for chunk in reader]
        name = self._guard(lambda: self._work.stage(ask.lane, batches))
        writer.write(pa.py_buffer(name.encode()))

    def do_action(self, context: Any, action: fl.Action) -> list[bytes]:
        ask = self._decode(action.body.to_pybytes())
        return [msgspec.msgpack.encode(self._guard(lambda: self._answer(action.type, ask)))]

    def _decode(self, data: bytes) -> Ask:
        try:
            ask = msgspec.msgpack.decode(data, type=Ask)
        except msgspec.DecodeError as error:
            raise fl.FlightServerError(f"not a question: {error}") from None
        if not secrets.compare_digest(ask.secret, self._secret):
            raise fl.FlightUnauthenticatedError("not a process of this run")
        if ask.lane not in self._work.lanes:
            raise fl.FlightServerError(f"unknown lane {ask.lane!r}")
        return ask

    def _answer(self, kind: str, ask: Ask) -> int | None:
        work = self._work
        match kind:
            case "latest":
                return work.latest(ask.lane, ask.numbers[0], ask.names[0])
            case "rows":
                return work.rows(ask.lane, *ask.numbers)
            case "commit":
                work.commit(ask.lane, ask.numbers[0], ask.names)
            case "abort":
                work.abort(ask.lane, ask.names)
            case _:
                raise fl.FlightServerError(f"unknown action {kind}")
        return None

    def _guard(self, call: Callable[[], Any]) -> Any:
        """Report an error that stops the lanes to the node as well as to the caller."""
        try:
            return call()
        except Stopped as stopped:
            self._on_stop(stopped)
            raise fl.FlightServerError(str(stopped)) from None
