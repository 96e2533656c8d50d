"""Sockets with deadlines, whose memory grows with what has arrived."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Protocol

READ_BYTES = 1 << 18
"""The most that is read at once."""
KEEPALIVE_S = 5
"""The silence after which the system tests a connection, and the time between its tests."""
UNSENT_TIMEOUT_MS = 60_000
"""The time after which a connection is broken whose other end takes nothing; the system tests none
of those that have something to send."""
KEEPALIVE_TESTS = 3
"""The number of tests after which a connection counts as broken."""


class Access(Protocol):
    """How a process proves who it is: by the cluster's token, or by a certificate."""

    def wrap(self, connection: socket.socket, node: str | None) -> socket.socket:
        """The connection as it is read and written, to a node, or at one (None); nothing is sent."""
        ...

    def connect(self, connection: socket.socket, node: str, deadline: float) -> None:
        """Identify oneself to a node, and make sure that it is that node."""
        ...

    def accept(self, connection: socket.socket, deadline: float) -> str | None:
        """Find out who calls: the name of its certificate, None where callers have none."""
        ...


def keep_alive(connection: socket.socket) -> None:
    """Let the system find out that the other end of a connection has vanished."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_TESTS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNSENT_TIMEOUT_MS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def end(connection: socket.socket) -> None:
    """End a connection that another thread may be reading or writing; that thread closes it."""
    with suppress(OSError):
        # Not the method of a TLS socket, which would take away what the other thread uses.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def ended(connection: socket.socket) -> bool:
    """Whether the other end has ended a connection of which nothing is expected now."""
    connection.settimeout(0)
    try:
        # Below TLS: a TLS socket cannot look ahead.
        return socket.socket.recv(connection, 1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def receive(connection: socket.socket, length: int, deadline: float) -> bytes:
    """A number of bytes, which have to arrive before some time."""
    body = bytearray()
    while len(body) < length:
        limit(connection, deadline)
        data = connection.recv(min(READ_BYTES, length - len(body)))
        if not data:
            raise ConnectionResetError("the connection has ended")
        if len(data) == length:
            return data
        body += data
    return bytes(body)


def send(connection: socket.socket, data: bytes, deadline: float) -> None:
    """Send bytes before some time."""
    limit(connection, deadline)
    connection.sendall(data)


def limit(connection: socket.socket, deadline: float) -> None:
    """Let the next operation last no longer than until some time."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    connection.settimeout(left)
