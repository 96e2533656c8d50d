"""A node's one port: the requests of other nodes, clients and operators.

Each request is an action of Arrow Flight. `post` delivers messages for the machines that
run here; the others are answered at once: `hello` gives the node's identity, `status` its
status, `snapshot` a lane's checkpoint, `fault` injects a fault. A request that is
malformed, too long or from an unknown sender gets an error of one sentence, is counted
and recorded (`events`), and changes nothing; one of another version is recorded only. Bytes
that are no call at all, and callers whose certificate is not of the cluster's authority, do
not get past gRPC.
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
from australis.runtime.node import snapshots
from australis.runtime.node.events import ERROR, WARNING, Tell, tell_nobody
from australis.runtime.node.links import HELLO, POST, Hello, unpack
from australis.runtime.node.mailbox import MESSAGES
from australis.runtime.node.wire import MAX_MESSAGE_BYTES, VERSION, NotSpoken, WireError, short

MAX_BAD_MESSAGES = 10
"""The number of invalid messages in one call after which the rest of the call is ignored."""
SHUTDOWN_TIMEOUT_S = 2.0
"""The longest time that a stopping server waits for calls in progress."""


class Answers(Protocol):
    """The requests that a node answers."""

    cluster: str
    name: str
    digest: str

    def knows(self, node: str) -> bool:
        """Whether a certificate of this name belongs to this cluster."""
        ...

    def receive(self, node: str | None, body: bytes) -> None:
        """Take one message from this node (None: the sender did not authenticate)."""
        ...

    def inbox(self, node: str | None, client: str, incarnation: int) -> Iterable[pa.RecordBatch]:
        """The stream of messages for a client in one of its incarnations."""
        ...

    def status(self) -> dict[str, Any]:
        """The status of the node."""
        ...

    def snapshot(self, node: str | None, machine: str, stream: str) -> tuple[int, Path]:
        """The latest checkpoint of a lane, for this node, in a directory of its own."""
        ...

    def fault(self, what: dict[str, Any]) -> str:
        """Inject a fault, or end it."""
        ...


class NodeServer(fl.FlightServerBase):
    """The Flight server of one node."""

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
        """The number of refused requests, by reason."""
        self.refused_at: float | None = None
        """The time of the last refusal."""
        self._answers = answers
        self._identify = identify
        self._tell = tell
        self._lock = threading.Lock()
        # `serve` would handle SIGINT and SIGTERM itself, and end only this server.
        self._thread = threading.Thread(target=self.wait, daemon=True, name="server")

    def start(self) -> None:
        """Start to answer requests."""
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and free the port, even if a client does not end its call."""
        ending = threading.Thread(target=self.shutdown, daemon=True, name="end of server")
        ending.start()
        ending.join(SHUTDOWN_TIMEOUT_S)

    # --- what is answered -----------------------------------------------------------------

    def do_action(self, context: Any, action: fl.Action) -> Iterable[bytes]:
        try:
            node = self._caller(context)
            if action.body is not None and action.body.size > MAX_MESSAGE_BYTES:
                raise WireError(f"{action.body.size:,} bytes are more than {MAX_MESSAGE_BYTES:,}")
            body: bytes = action.body.to_pybytes() if action.body is not None else b""
            if action.type == POST:
                return self._post(context, node, body)
            return self._answer(action.type, body, node)
        except Exception as error:
            raise self._refuse(context, error) from None

    def do_get(self, context: Any, ticket: fl.Ticket) -> fl.FlightDataStream:
        try:
            node = self._caller(context)
            client, incarnation = msgspec.msgpack.decode(ticket.ticket, type=tuple[str, int])
            batches = self._answers.inbox(node, client, incarnation)
        except Exception as error:
            raise self._refuse(context, error) from None
        return fl.GeneratorStream(MESSAGES, batches)

    def _caller(self, context: Any) -> str | None:
        """The node or client that calls; None where callers need not authenticate."""
        node = self._identify(context)
        if node is not None and not self._answers.knows(node):
            raise WireError(f"'{node}' is not of this cluster")
        return node

    def _post(self, context: Any, node: str | None, body: bytes) -> Iterable[bytes]:
        """Deliver messages; an invalid one does not hold up those after it."""
        wrong: list[Exception] = []
        bad = 0
        for message in unpack(body):
            try:
                self._answers.receive(node, message)
            except Exception as error:
                wrong.append(self._refuse(context, error))
                if not isinstance(error, NotSpoken):
                    bad += 1
                if bad == MAX_BAD_MESSAGES:
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
            ("fault", "inject a fault"),
        ]

    def _packed(self, answer: Any) -> bytes:
        return msgspec.msgpack.encode(answer)

    # --- what is not ------------------------------------------------------------------------

    def _refuse(self, context: Any, error: Exception) -> Exception:
        """Count and record a refusal; returns the error for the caller."""
        if isinstance(error, fl.FlightServerError):
            return error  # recorded already
        if isinstance(error, NotSpoken):  # of a node that is older or newer, not of an attacker
            why, peer = str(error), context.peer()
            self._tell("not_spoken", level=WARNING, why=why, peer=peer)
            return fl.FlightServerError(why)
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
    """Send one request to a node; returns its answer."""
    body = b"" if what is None else msgspec.msgpack.encode(what)
    options = fl.FlightCallOptions(timeout=timeout_s)
    (result,) = client.do_action(fl.Action(kind, pa.py_buffer(body)), options)
    return msgspec.msgpack.decode(result.body.to_pybytes())
