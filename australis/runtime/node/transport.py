"""Requests between processes of a cluster: the bytes of a connection, and its calling end.

A connection first identifies its caller (`token`, or TLS by `certs`); the node then says that
it is welcome. A request is the name of what is asked and its body, each with its length first; the
node looks at who asks what, and how much, before it reads the body. Answers are any number of
parts, then the end or a refusal of one sentence. One request at a time.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType

from australis.kernel.errors import AustralisError
from australis.runtime.node.wire import MAX_CLIENT_BYTES, MAX_MESSAGE_BYTES, short
from australis.runtime.sockets import Access, end, ended, keep_alive, receive, send
from australis.runtime.token import Unproven

REQUEST = struct.Struct("<HI")
"""The lengths of a request's name and body."""
ANSWER = struct.Struct("<BI")
"""What a part of an answer is, and its length."""
PART, END, REFUSED = 0, 1, 2
MAX_KIND_BYTES = 64
"""The longest name of a request."""
MAX_ANSWER_BYTES = MAX_MESSAGE_BYTES + (1 << 20)
"""The longest part of an answer."""
CONNECT_TIMEOUT_S = 2.0
"""The time in which a node has to accept and identify itself."""
MIN_BYTES_PER_S = 256 << 10
"""The rate of a slow network, by which large bodies get more time."""


class Refused(AustralisError):
    """A node refuses a request or a connection; the text is what it says."""


def answer(kind: int, body: bytes = b"") -> bytes:
    """A part of an answer."""
    return ANSWER.pack(kind, len(body)) + body


class NodeConnection:
    """A connection to a node, for one thread; another one may `cancel` it."""

    def __init__(
        self,
        host: str,
        port: int,
        node: str,
        access: Access,
        timeout_s: float = CONNECT_TIMEOUT_S,
    ) -> None:
        """Connect within a time; raises `Refused`, `Unproven`, or an `OSError` if nothing answers."""
        deadline = time.monotonic() + timeout_s
        self._socket = socket.create_connection((host, port), timeout_s)
        self._broken = False
        self._ends_if_refused = False
        try:
            keep_alive(self._socket)
            self._socket = access.wrap(self._socket, node)
            access.connect(self._socket, node, deadline)
            for _ in self._answers(deadline, timeout_s):
                pass  # nothing but the end, which is the welcome
        except BaseException:
            self.close()
            raise

    @property
    def stale(self) -> bool:
        """Whether the node has ended the connection since the last answer."""
        return self._broken or ended(self._socket)

    def call(self, kind: str, body: bytes = b"", timeout_s: float = 5.0) -> Iterator[bytes]:
        """Send a request; the parts of its answer, each of which comes within this time."""
        if self._broken:
            raise ConnectionResetError("the connection has ended")
        deadline = time.monotonic() + timeout_s
        name = kind.encode()
        self._ends_if_refused = len(body) > MAX_CLIENT_BYTES
        self._broken = True  # until the whole answer is there
        try:
            send(self._socket, REQUEST.pack(len(name), len(body)) + name, deadline)
            send(self._socket, body, deadline)
        except OSError as error:
            # A node that does not want the body says why before it ends the connection.
            with suppress(OSError):
                for _ in self._answers(time.monotonic() + 0.2, 0.2):
                    pass
            raise error from None
        return self._answers(deadline, timeout_s)

    def _answers(self, deadline: float, timeout_s: float) -> Iterator[bytes]:
        while True:
            kind, length = ANSWER.unpack(receive(self._socket, ANSWER.size, deadline))
            if length > MAX_ANSWER_BYTES or kind not in (PART, END, REFUSED):
                raise ConnectionAbortedError("what answers is no node of this version")
            body = receive(self._socket, length, deadline + length / MIN_BYTES_PER_S)
            if kind == PART:
                yield body
                deadline = time.monotonic() + timeout_s
                continue
            self._broken = kind == REFUSED and self._ends_if_refused
            if kind == REFUSED:
                raise Refused(short(body.decode(errors="replace")))
            return

    def cancel(self) -> None:
        """End the connection while another thread waits for an answer."""
        self._broken = True
        end(self._socket)

    def close(self) -> None:
        """End the connection."""
        self._broken = True
        self._socket.close()

    def __enter__(self) -> NodeConnection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def sentence_of(error: BaseException) -> str:
    """The message of an error from another node or the network."""
    if isinstance(error, OSError) and error.strerror:
        return short(error.strerror)
    return short(str(error)) or type(error).__name__


NETWORK_ERRORS = (OSError, Refused, Unproven)
"""What a call raises if it fails for a reason of the network or of the other end."""
