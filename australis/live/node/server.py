"""A node's one port: what other nodes, clients and operators may ask of it.

Each question is an action of Arrow Flight. `post` brings messages for the machines that
run here; the others are answered at once: `hello` says who this is, `status` how it is
doing, `snapshot` hands over a lane's checkpoint, `fault` rehearses a failure. Whatever
is malformed, too long, of another version or from a stranger gets one sentence back,
is counted and told (`events`), and changes nothing. Bytes that are no call at all, and
callers whose certificate is not of the cluster's authority, do not get past gRPC.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn, Protocol

import msgspec
import pyarrow as pa
import pyarrow.flight as fl

from australis.kernel.errors import AustralisError
from australis.live.node import snapshots
from australis.live.node.events import ERROR, WARNING, Tell, tell_nobody
from australis.live.node.links import HELLO, POST, Hello, unpack
from australis.live.node.mailbox import MESSAGES
from australis.live.node.wire import LARGEST, VERSION, WireError, short

WRONG = 10
"""After so many wrong messages in one call the others are not looked at."""
PATIENCE_S = 2.0
"""So long a server that stops waits for calls under way; a client that does not read has none."""


class Answers(Protocol):
    """What a node knows and can do."""

    cluster: str
    name: str
    digest: str

    def knows(self, node: str) -> bool:
        """Whether a certificate of this name is of this cluster."""
        ...

    def receive(self, node: str | None, body: bytes) -> None:
        """Take one message that came from this node (None: nobody proved who it is)."""
        ...

    def inbox(self, node: str | None, client: str, life: int) -> Iterable[pa.RecordBatch]:
        """The stream of messages for a client in one of its lives."""
        ...

    def status(self) -> dict[str, Any]:
        """How the node is doing."""
        ...

    def snapshot(self, node: str | None, machine: str, stream: str) -> tuple[int, Path]:
        """The latest checkpoint of a lane, for this node, in a directory that nobody else needs."""
        ...

    def fault(self, what: dict[str, Any]) -> str:
        """Rehearse a failure, or end it."""
        ...


class NodeServer(fl.FlightServerBase):
    """Serves one node."""

    def __init__(
        self,
        answers: Answers,
        location: str,
        identify: Callable[[Any], str | None] = lambda context: None,
        tell: Tell = tell_nobody,
        **tls: Any,
    ) -> None:
        super().__init__(location, **tls)
        self.refused: Counter[str] = Counter()
        """How many questions were refused, by reason,"""
        self.refused_at: float | None = None
        """and when the last one was."""
        self._answers = answers
        self._identify = identify
        self._tell = tell
        self._lock = threading.Lock()
        # `serve` would take SIGINT and SIGTERM for itself, and end only this.
        self._thread = threading.Thread(target=self.wait, daemon=True, name="server")

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more; the port is free, even if somebody does not let go of a call."""
        ending = threading.Thread(target=self.shutdown, daemon=True, name="end of server")
        ending.start()
        ending.join(PATIENCE_S)

    # --- what is answered -----------------------------------------------------------------

    def do_action(self, context: Any, action: fl.Action) -> Iterable[bytes]:
        try:
            node = self._caller(context)
            if action.body is not None and action.body.size > LARGEST:
                raise WireError(f"{action.body.size:,} bytes are more than {LARGEST:,}")
            body: bytes = action.body.to_pybytes() if action.body is not None else b""
            if action.type == POST:
                return self._post(context, node, body)
            return self._answer(action.type, body, node)
        except Exception as error:
            raise self._refuse(context, error) from None

    def do_get(self, context: Any, ticket: fl.Ticket) -> fl.FlightDataStream:
        try:
            node = self._caller(context)
            client, life = msgspec.msgpack.decode(ticket.ticket, type=tuple[str, int])
            batches = self._answers.inbox(node, client, life)
        except Exception as error:
            raise self._refuse(context, error) from None
        return fl.GeneratorStream(MESSAGES, batches)

    def _caller(self, context: Any) -> str | None:
        """The node or client that calls; None where nobody has to prove that."""
        node = self._identify(context)
        if node is not None and not self._answers.knows(node):
            raise WireError(f"'{node}' is not of this cluster")
        return node

    def _post(self, context: Any, node: str | None, body: bytes) -> Iterable[bytes]:
        """Hand messages over; a wrong one does not hold up those behind it."""
        wrong: list[Exception] = []
        for message in unpack(body):
            try:
                self._answers.receive(node, message)
            except Exception as error:
                wrong.append(self._refuse(context, error))
                if len(wrong) == WRONG:
                    break
        if wrong:
            raise wrong[0]
        return []

    def _answer(self, kind: str, body: bytes, node: str | None) -> Iterable[bytes]:
        match kind:
            case "hello":
                me = self._answers
                return [self._packed(Hello(VERSION, me.cluster, me.name, me.digest))]
            case "status":
                return [self._packed(self._answers.status())]
            case snapshots.ACTION:
                machine, stream = msgspec.msgpack.decode(body, type=tuple[str, str])
                return snapshots.pieces(*self._answers.snapshot(node, machine, stream))
            case "fault":
                what = msgspec.msgpack.decode(body, type=dict[str, Any])
                return [self._packed(self._answers.fault(what))]
        raise WireError(f"unknown action '{short(kind)}'")

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        return [
            (POST, "messages for the machines of this node"),
            (HELLO, "who this is"),
            ("status", "how it is doing"),
            (snapshots.ACTION, "the latest checkpoint of a lane"),
            ("fault", "rehearse a failure"),
        ]

    def _packed(self, answer: Any) -> bytes:
        return msgspec.msgpack.encode(answer)

    # --- what is not ------------------------------------------------------------------------

    def _refuse(self, context: Any, error: Exception) -> Exception:
        """Count a refusal and tell of it; what the caller is told."""
        if isinstance(error, fl.FlightServerError):
            return error  # told already
        reason = type(error).__name__
        ours = not isinstance(error, AustralisError | ValueError | msgspec.MsgspecError)
        why = short(repr(error) if ours else str(error)) or reason
        with self._lock:
            self.refused[reason] += 1
            self.refused_at = time.monotonic()
        peer, level = context.peer(), ERROR if ours else WARNING
        self._tell("refused", level=level, kind=reason, reason=reason, why=why, peer=peer)
        return fl.FlightServerError("something is wrong inside this node" if ours else why)

    def _refuse_call(self, context: Any, call: str) -> NoReturn:
        raise self._refuse(context, WireError(f"a node does not answer '{call}'"))

    def list_flights(self, context: Any, criteria: bytes) -> NoReturn:
        self._refuse_call(context, "list_flights")

    def get_flight_info(self, context: Any, descriptor: fl.FlightDescriptor) -> NoReturn:
        self._refuse_call(context, "get_flight_info")

    def get_schema(self, context: Any, descriptor: fl.FlightDescriptor) -> NoReturn:
        self._refuse_call(context, "get_schema")

    def do_put(
        self, context: Any, descriptor: fl.FlightDescriptor, reader: Any, writer: Any
    ) -> NoReturn:
        self._refuse_call(context, "do_put")

    def do_exchange(
        self, context: Any, descriptor: fl.FlightDescriptor, reader: Any, writer: Any
    ) -> NoReturn:
        self._refuse_call(context, "do_exchange")


# --- what others ask ----------------------------------------------------------------------------


def ask(client: fl.FlightClient, kind: str, what: Any = None, timeout_s: float = 5.0) -> Any:
    """Ask a node one thing."""
    body = b"" if what is None else msgspec.msgpack.encode(what)
    options = fl.FlightCallOptions(timeout=timeout_s)
    (result,) = client.do_action(fl.Action(kind, pa.py_buffer(body)), options)
    return msgspec.msgpack.decode(result.body.to_pybytes())
