"""A node's one port: the requests of other nodes, clients and operators.

The way in is the same for all. A connection is admitted (`listener`), identifies its caller, and
may then send requests (`transport`). Of each the node looks at the name and length, and at the
caller's role (`Rights`), before it reads the body; messages then count against the budget of
their sender (`Router`) before they are decoded. `post` delivers messages for the machines that run
here, `inbox` is the stream of messages for a client; the others are answered at once: `hello` gives the
node's identity, `status` its status, `snapshot` a lane's checkpoint, `fault` injects a fault. A
request that is malformed, too long or not the caller's to make gets an error of one sentence, is
counted and recorded (`events`), and changes nothing; one of another version is recorded only.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec

from australis.kernel.errors import AustralisError
from australis.node.admission import Limits, Refusal
from australis.runtime.listener import Connection, Listener
from australis.runtime.node import snapshots
from australis.runtime.node.events import ERROR, WARNING, Tell, tell_nobody
from australis.runtime.node.links import Hello, pack, unpack
from australis.runtime.node.transport import (
    END,
    MAX_KIND_BYTES,
    MIN_BYTES_PER_S,
    PART,
    REFUSED,
    REQUEST,
    NodeConnection,
    answer,
)
from australis.runtime.node.wire import MAX_CLIENT_BYTES, VERSION, NotSpoken, WireError, short
from australis.runtime.sockets import Access, receive, send
from australis.runtime.token import Unproven

MAX_BAD_MESSAGES = 10
"""The number of invalid messages in one call after which the rest of the call is ignored."""
MAX_READING_BYTES = 512 << 20
"""The largest number of bytes of requests that are being read for one identity."""
IDLE_TIMEOUT_S = 600.0
"""The time without a request after which a connection is closed; links open another one."""
READ_TIMEOUT_S = 10.0
"""The time in which a request has to arrive, besides what a slow network needs for a long one."""
WRITE_TIMEOUT_S = 30.0
"""The time in which a caller has to take a part of an answer."""
SHUTDOWN_TIMEOUT_S = 2.0
"""The longest time that a stopping server waits for calls in progress."""


class Answers(Protocol):
    """The requests that a node answers; `caller` is None where callers have no certificates."""

    cluster: str
    name: str
    digest: str

    def knows(self, caller: str) -> bool:
        """Whether a certificate of this name belongs to this cluster."""
        ...

    def longest(self, caller: str | None, kind: str) -> int:
        """The longest body of a request of this kind; raises if it is not the caller's to make."""
        ...

    def receive(self, caller: str | None, body: bytes) -> None:
        """Take one message."""
        ...

    def inbox(self, caller: str | None, client: str, incarnation: int) -> Iterable[list[bytes]]:
        """The stream of messages for a client in one of its incarnations."""
        ...

    def status(self) -> dict[str, Any]:
        """The status of the node."""
        ...

    def snapshot(self, caller: str | None, machine: str, stream: str) -> tuple[int, Path]:
        """The latest checkpoint of a lane in a directory of its own."""
        ...

    def fault(self, what: dict[str, Any], caller: str | None = None) -> str:
        """Inject a fault, or end it."""
        ...

    def change(self, what: dict[str, Any], caller: str | None = None) -> dict[str, Any]:
        """Begin a change of the deployment."""
        ...

    def about_applications(self, kind: str, body: bytes, caller: str | None) -> Any:
        """Submit or withdraw an application, or keep or give the definition of one."""
        ...


class NodeServer:
    """The server of one node."""

    def __init__(
        self,
        answers: Answers,
        host: str,
        port: int,
        access: Access,
        tell: Tell = tell_nobody,
        limits: Limits = Limits(),  # noqa: B008
    ) -> None:
        """Listen from now on; raises an `OSError` if the port is taken. `start` answers."""
        self.refused: Counter[str] = Counter()
        """The number of refused requests, by reason."""
        self.refused_at: float | None = None
        """The time of the last refusal."""
        self._answers = answers
        self._access = access
        self._tell = tell
        self._lock = threading.Lock()
        self._reading: Counter[str | None] = Counter()
        """The bytes of requests that are being read, by identity."""
        self.listener = Listener("node", host, port, self._serve, tell, limits)

    @property
    def port(self) -> int:
        """The port at which it listens."""
        return self.listener.address[1]

    def start(self) -> None:
        """Start to answer requests."""
        self.listener.start()

    def stop(self) -> None:
        """Stop answering and free the port, even if a client does not end its call."""
        self.listener.stop(SHUTDOWN_TIMEOUT_S)

    # --- connections ------------------------------------------------------------------------

    def _serve(self, connection: Connection) -> None:
        """Answer the requests of one connection, one after the other."""
        try:
            caller = self._identify(connection)
        except (Refusal, WireError, Unproven) as refusal:
            self._turn_away(connection, refusal)
            return
        except OSError as error:  # TLS fails in many ways
            why = f"did not identify itself: {error}"
            self.listener.refuse("unidentified", short(why), connection.peer)
            return
        while not self.listener.stopping:
            connection.socket.settimeout(IDLE_TIMEOUT_S)
            try:
                first = connection.socket.recv(1)
            except TimeoutError:
                return
            if not first or not self._request(connection, caller, first):
                return

    def _identify(self, connection: Connection) -> str | None:
        caller = connection.accept(self._access)
        if caller is not None and not self._answers.knows(caller):
            raise WireError(f"'{caller}' is not of this cluster")
        connection.identify(caller)
        self._say(connection, END)
        return caller

    def _turn_away(self, connection: Connection, refusal: Exception) -> None:
        """Refuse a connection; its caller is told why."""
        reason = refusal.reason if isinstance(refusal, Refusal) else "unidentified"
        self.listener.refuse(reason, str(refusal), connection.peer)
        with suppress(OSError):
            self._say(connection, REFUSED, str(refusal).encode())

    def _request(self, connection: Connection, caller: str | None, first: bytes) -> bool:
        """Answer one request; returns whether the connection can go on."""
        deadline = time.monotonic() + READ_TIMEOUT_S
        head = first + receive(connection.socket, REQUEST.size - 1, deadline)
        name_length, length = REQUEST.unpack(head)
        try:
            kind = self._kind(connection, name_length, deadline)
            self._allow(caller, kind, length)
        except WireError as error:
            short_one = name_length <= MAX_KIND_BYTES and length <= MAX_CLIENT_BYTES
            if short_one:  # else what is still on the way shall not be read
                receive(connection.socket, length, deadline)
            self._say(connection, REFUSED, self._refuse(connection.peer, error).encode())
            return short_one
        try:
            body = receive(connection.socket, length, deadline + length / MIN_BYTES_PER_S)
        finally:
            self._release(caller, length)
        try:
            with closing(self._answer(connection.peer, kind, body, caller)) as parts:
                for part in parts:
                    self._say(connection, PART, part)
        except _Gone:
            raise
        except Exception as error:
            self._say(connection, REFUSED, self._refuse(connection.peer, error).encode())
        else:
            self._say(connection, END)
        return True

    @staticmethod
    def _kind(connection: Connection, length: int, deadline: float) -> str:
        if length > MAX_KIND_BYTES:
            raise WireError(f"unknown action: its name has {length:,} bytes")
        return short(receive(connection.socket, length, deadline).decode(errors="replace"))

    def _allow(self, caller: str | None, kind: str, length: int) -> None:
        """Whether the caller may make such a request, with so many bytes."""
        most = self._answers.longest(caller, kind)
        if length > most:
            raise WireError(f"{length:,} bytes are more than {most:,}")
        self._reserve(caller, length)

    def _reserve(self, caller: str | None, length: int) -> None:
        with self._lock:
            if self._reading[caller] + length > MAX_READING_BYTES:
                raise WireError(f"{self._reading[caller]:,} bytes of this caller are being read")
            self._reading[caller] += length

    def _release(self, caller: str | None, length: int) -> None:
        with self._lock:
            self._reading[caller] -= length
            if not self._reading[caller]:
                del self._reading[caller]

    @staticmethod
    def _say(connection: Connection, kind: int, body: bytes = b"") -> None:
        deadline = time.monotonic() + WRITE_TIMEOUT_S + len(body) / MIN_BYTES_PER_S
        try:
            send(connection.socket, answer(kind, body), deadline)
        except OSError as error:
            raise _Gone(*error.args) from None

    # --- what is answered -----------------------------------------------------------------

    def _answer(self, peer: str, kind: str, body: bytes, caller: str | None) -> Generator[bytes]:
        """The parts of the answer to a request that its caller may make."""
        match kind:
            case "post":
                self._post(peer, caller, body)
            case "inbox":
                client, incarnation = msgspec.msgpack.decode(body, type=tuple[str, int])
                for messages in self._answers.inbox(caller, client, incarnation):
                    yield pack(messages)
            case "hello":
                me = self._answers
                yield self._packed(Hello(VERSION, me.cluster, me.name, me.digest))
            case "status":
                yield self._packed(self._answers.status())
            case snapshots.ACTION:
                machine, stream = msgspec.msgpack.decode(body, type=tuple[str, str])
                yield from snapshots.pieces(*self._answers.snapshot(caller, machine, stream))
            case "fault":
                what = msgspec.msgpack.decode(body, type=dict[str, Any])
                yield self._packed(self._answers.fault(what, caller))
            case "change":
                what = msgspec.msgpack.decode(body, type=dict[str, Any])
                yield self._packed(self._answers.change(what, caller))
            case "submit" | "withdraw" | "drain" | "define" | "definition":
                yield self._packed(self._answers.about_applications(kind, body, caller))
            case _:
                raise AssertionError(f"nobody may ask for '{kind}'")

    def _post(self, peer: str, caller: str | None, body: bytes) -> None:
        """Deliver messages; an invalid one does not hold up those after it."""
        wrong: list[str] = []
        bad = 0
        for message in unpack(body):
            try:
                self._answers.receive(caller, message)
            except Exception as error:
                wrong.append(self._refuse(peer, error))
                if not isinstance(error, NotSpoken):
                    bad += 1
                if bad == MAX_BAD_MESSAGES:
                    break
        if wrong:
            raise _Told(wrong[0])

    def _packed(self, answer: Any) -> bytes:
        return msgspec.msgpack.encode(answer)

    # --- what is not ------------------------------------------------------------------------

    def _refuse(self, peer: str, error: Exception) -> str:
        """Count and record a refusal; returns the sentence for the caller."""
        if isinstance(error, _Told):
            return str(error)
        if isinstance(error, NotSpoken):  # of a node that is older or newer, not of an attacker
            self._tell("not_spoken", level=WARNING, why=str(error), peer=peer)
            return str(error)
        reason = type(error).__name__
        ours = not isinstance(error, AustralisError | ValueError | msgspec.MsgspecError)
        why = short(repr(error) if ours else str(error)) or reason
        with self._lock:
            self.refused[reason] += 1
            self.refused_at = time.monotonic()
        level = ERROR if ours else WARNING
        self._tell("refused", level=level, kind=reason, reason=reason, why=why, peer=peer)
        return "something is wrong inside this node" if ours else why


class _Gone(OSError):
    """A caller that takes no answer."""


class _Told(AustralisError):
    """A refusal that has been counted and recorded already."""


# --- what others ask ----------------------------------------------------------------------------


def ask(client: NodeConnection, kind: str, what: Any = None, timeout_s: float = 5.0) -> Any:
    """Send one request to a node; returns its answer."""
    body = b"" if what is None else msgspec.msgpack.encode(what)
    (result,) = client.call(kind, body, timeout_s)
    return msgspec.msgpack.decode(result)
