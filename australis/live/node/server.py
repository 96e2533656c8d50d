"""A node's one port: what other nodes, clients and operators may ask of it.

Each question is an action of Arrow Flight. `post` brings messages for the machines that
run here; the others are answered at once: `hello` says who this is, `status` how it is
doing, `snapshot` hands over a lane's checkpoint, `fault` rehearses a failure. Whatever
is malformed, too long, of another version or from a stranger gets one sentence back,
is counted, and changes nothing.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import msgspec
import pyarrow as pa
import pyarrow.flight as fl

from australis.kernel.errors import AustralisError
from australis.live.node.links import POST, unpack
from australis.live.node.mailbox import MESSAGES
from australis.live.node.wire import LARGEST, VERSION, WireError

CHUNK = 1 << 20
"""A file of a snapshot is sent in pieces of this size."""


class Answers(Protocol):
    """What a node knows and can do."""

    cluster: str
    name: str

    def receive(self, node: str | None, body: bytes) -> None:
        """Take one message that came from this node (None: nobody proved who it is)."""
        ...

    def inbox(self, node: str | None, client: str) -> Iterable[pa.RecordBatch]:
        """The stream of messages for a client."""
        ...

    def status(self) -> dict[str, Any]:
        """How the node is doing."""
        ...

    def snapshot(self, machine: str, stream: str) -> tuple[int, dict[str, bytes]]:
        """The latest checkpoint of a lane."""
        ...

    def fault(self, what: dict[str, Any]) -> str:
        """Rehearse a failure, or end it."""
        ...


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A piece of one file of a snapshot."""

    upto: int
    name: str
    data: bytes
    last: bool


class NodeServer(fl.FlightServerBase):
    """Serves one node."""

    def __init__(
        self,
        answers: Answers,
        location: str,
        identify: Callable[[Any], str | None] = lambda context: None,
        **tls: Any,
    ) -> None:
        super().__init__(location, **tls)
        self.refused: Counter[str] = Counter()
        """How many questions were refused, by reason."""
        self._answers = answers
        self._identify = identify
        self._thread = threading.Thread(target=self.serve, daemon=True, name="server")

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def do_action(self, context: Any, action: fl.Action) -> Iterable[bytes]:
        try:
            if action.body is not None and action.body.size > LARGEST:
                raise WireError(f"{action.body.size:,} bytes are more than {LARGEST:,}")
            body: bytes = action.body.to_pybytes() if action.body is not None else b""
            return self._answer(action.type, body, self._identify(context))
        except (AustralisError, ValueError, msgspec.MsgspecError) as error:
            self.refused[type(error).__name__] += 1
            raise fl.FlightServerError(str(error)) from None

    def do_get(self, context: Any, ticket: fl.Ticket) -> fl.FlightDataStream:
        try:
            client = msgspec.msgpack.decode(ticket.ticket, type=str)
            batches = self._answers.inbox(self._identify(context), client)
        except (AustralisError, msgspec.MsgspecError) as error:
            self.refused[type(error).__name__] += 1
            raise fl.FlightServerError(str(error)) from None
        return fl.GeneratorStream(MESSAGES, batches)

    def _answer(self, kind: str, body: bytes, node: str | None) -> Iterable[bytes]:
        match kind:
            case "post":
                for message in unpack(body):
                    self._answers.receive(node, message)
                return []
            case "hello":
                return [self._packed(self._hello())]
            case "status":
                return [self._packed(self._answers.status())]
            case "snapshot":
                machine, stream = msgspec.msgpack.decode(body, type=tuple[str, str])
                return _pieces(*self._answers.snapshot(machine, stream))
            case "fault":
                what = msgspec.msgpack.decode(body, type=dict[str, Any])
                return [self._packed(self._answers.fault(what))]
        raise WireError(f"unknown action '{kind}'")

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        return [
            (POST, "messages for the machines of this node"),
            ("hello", "who this is"),
            ("status", "how it is doing"),
            ("snapshot", "the latest checkpoint of a lane"),
            ("fault", "rehearse a failure"),
        ]

    def _hello(self) -> dict[str, Any]:
        me = self._answers
        return {"version": VERSION, "cluster": me.cluster, "node": me.name}

    def _packed(self, answer: Any) -> bytes:
        return msgspec.msgpack.encode(answer)


def _pieces(upto: int, files: dict[str, bytes]) -> Iterator[bytes]:
    for name, data in files.items():
        for at in range(0, max(1, len(data)), CHUNK):
            last = at + CHUNK >= len(data)
            yield msgspec.msgpack.encode(Piece(upto, name, data[at : at + CHUNK], last))


def fetch_snapshot(
    client: fl.FlightClient, machine: str, stream: str, timeout_s: float
) -> tuple[int, dict[str, bytes]]:
    """The latest checkpoint of a lane on another node."""
    body = msgspec.msgpack.encode((machine, stream))
    files: dict[str, list[bytes]] = {}
    upto, whole = -1, False
    options = fl.FlightCallOptions(timeout=timeout_s)
    for result in client.do_action(fl.Action("snapshot", body), options):
        piece = msgspec.msgpack.decode(result.body.to_pybytes(), type=Piece)
        files.setdefault(piece.name, []).append(piece.data)
        upto, whole = piece.upto, piece.last
    if not whole:
        raise WireError("a snapshot is cut short")
    return upto, {name: b"".join(parts) for name, parts in files.items()}


def ask(client: fl.FlightClient, kind: str, what: Any = None, timeout_s: float = 5.0) -> Any:
    """Ask a node one thing."""
    body = b"" if what is None else msgspec.msgpack.encode(what)
    options = fl.FlightCallOptions(timeout=timeout_s)
    (result,) = client.do_action(fl.Action(kind, pa.py_buffer(body)), options)
    return msgspec.msgpack.decode(result.body.to_pybytes())
