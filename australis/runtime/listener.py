"""A listening port with limits: connections are admitted, served by threads, and counted.

A connection that does not identify itself in time, or for which there is no room, is closed;
nothing of it is kept. When the process has no descriptors left, the listener waits until it
has some again.
"""

from __future__ import annotations

import errno
import resource
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from australis.kernel.errors import AustralisError
from australis.node.admission import Admissions, Limits, Refusal
from australis.runtime.node.events import WARNING, Tell, tell_nobody
from australis.runtime.sockets import Access, end, keep_alive

IDENTIFY_TIMEOUT_S = 5.0
"""The time in which a connection has to identify itself."""
ACCEPTS_PER_S = 1000
"""The largest rate of new connections; more wait in the system's queue."""
BACKLOG = 128
"""The number of connections that the system queues."""
POLL_S = 0.2
NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
NO_DESCRIPTORS_WAIT_S = 0.2
"""The wait after the process had no descriptor for a new connection."""
STOP_TIMEOUT_S = 2.0
"""The longest time that a stopping listener waits for its threads."""


def raise_descriptor_limit() -> int:
    """Allow this process as many descriptors as the system lets it have; returns that number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (1 << 20) if soft == resource.RLIM_INFINITY else soft


class Connection:
    """An admitted connection, for the thread that serves it."""

    def __init__(
        self, listener: Listener, number: int, connection: socket.socket, peer: str
    ) -> None:
        self.socket = connection
        """The connection as it is read and written, encrypted if there is TLS."""
        self.peer = peer
        """The address of the other end."""
        self._listener = listener
        self._number = number

    def accept(self, access: Access) -> str | None:
        """Let the other end identify itself: the name of its certificate, if it has one."""
        self.socket = access.wrap(self.socket, None)
        return access.accept(self.socket, time.monotonic() + IDENTIFY_TIMEOUT_S)

    def identify(self, identity: str | None = None) -> None:
        """It has identified itself; raises a `Refusal` if there is no room for it."""
        self._listener.identified(self._number, identity)


class Listener:
    """Accepts the connections of one port, and serves each in a thread of its own."""

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        serve: Callable[[Connection], None],
        tell: Tell = tell_nobody,
        limits: Limits = Limits(),  # noqa: B008
        silence_s: float | None = IDENTIFY_TIMEOUT_S,
    ) -> None:
        """Listen from now on; raises an `OSError` if the port is taken. `start` accepts.

        A connection may be silent for `silence_s` before its first byte.
        """
        self.refused: Counter[str] = Counter()
        """The number of connections that were refused, by reason."""
        self._name = name
        self._serve = serve
        self._tell = tell
        self._silence_s = silence_s
        self._admissions = Admissions(limits)
        self._connections: dict[int, Connection] = {}
        self._threads: dict[int, threading.Thread] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        self._socket = socket.socket(family, kind, proto)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(address)
            self._socket.listen(BACKLOG)
        except BaseException:
            self._socket.close()
            raise
        self._socket.settimeout(POLL_S)
        self._thread = threading.Thread(target=self._run, name=f"{name}: accept", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        """The address on which it listens."""
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    def __len__(self) -> int:
        return len(self._admissions)

    @property
    def stopping(self) -> bool:
        """Whether it takes no more requests."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Start to accept connections."""
        self._thread.start()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Accept nothing more, end all connections, and free the port."""
        deadline = time.monotonic() + timeout_s
        self._stopping.set()
        self._socket.close()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        with self._lock:
            connections, threads = list(self._connections.values()), list(self._threads.values())
        for connection in connections:
            end(connection.socket)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def identified(self, number: int, identity: str | None) -> None:
        """A connection has identified itself; raises a `Refusal` if there is no room for it."""
        with self._lock:
            self._admissions.identify(number, identity)

    def refuse(self, reason: str, why: str, peer: str) -> None:
        """Count a connection that was refused, and record it as an event, once in a while."""
        with self._lock:
            self.refused[reason] += 1
        self._tell(
            "connection_refused",
            level=WARNING,
            kind=f"{self._name} {reason}",
            listener=self._name,
            reason=reason,
            why=why,
            peer=peer,
        )

    # --- accepting --------------------------------------------------------------------------

    def _run(self) -> None:
        allowance, at = float(ACCEPTS_PER_S), time.monotonic()
        while not self._stopping.is_set():
            now = time.monotonic()
            allowance = min(ACCEPTS_PER_S, allowance + (now - at) * ACCEPTS_PER_S) - 1
            at = now
            if allowance < 0:
                self._stopping.wait(-allowance / ACCEPTS_PER_S)
            self._accept()

    def _accept(self) -> None:
        try:
            raw, address = self._socket.accept()
        except TimeoutError:
            return
        except OSError as error:
            if self._stopping.is_set():
                return
            if error.errno in NO_DESCRIPTORS:
                self.refuse("descriptors", f"cannot accept: {error.strerror}", "")
                self._stopping.wait(NO_DESCRIPTORS_WAIT_S)
            return
        try:
            self._admit(raw, *address[:2])
        except (OSError, RuntimeError) as error:  # it is gone already, or there is no thread for it
            raw.close()
            self.refuse("broken", f"cannot be served: {error}", str(address[0]))

    def _admit(self, raw: socket.socket, host: str, port: int) -> None:
        keep_alive(raw)
        with self._lock:
            try:
                number, gone = self._admissions.arrive(host)
            except Refusal as refusal:
                number, gone, full = 0, None, refusal
            made_way = None if gone is None else self._connections.get(gone)
        if not number:
            raw.close()
            self.refuse(full.reason, str(full), host)
            return
        if made_way is not None:
            end(made_way.socket)
            self.refuse("unidentified", "did not identify itself before newer ones", host)
        connection = Connection(self, number, raw, f"{host}:{port}")
        name = f"{self._name}: {connection.peer}"
        thread = threading.Thread(
            target=self._attend, args=(number, connection), name=name, daemon=True
        )
        with self._lock:
            self._connections[number], self._threads[number] = connection, thread
        try:
            thread.start()
        except RuntimeError:
            self._forget(number)
            raise

    def _attend(self, number: int, connection: Connection) -> None:
        try:
            if not self._stopping.is_set() and self._speaks(number, connection.socket):
                self._serve(connection)
        except Refusal as refusal:
            self.refuse(refusal.reason, str(refusal), connection.peer)
        except TimeoutError:
            self.refuse("silent", "was silent for too long", connection.peer)
        except (OSError, AustralisError):
            pass  # the other end is gone, or what its rows were for has stopped
        finally:
            self._forget(number)
            connection.socket.close()

    def _speaks(self, number: int, connection: socket.socket) -> bool:
        """Wait for the first byte of a connection; returns whether there is one."""
        connection.settimeout(self._silence_s)
        if not connection.recv(1, socket.MSG_PEEK):
            return False
        with self._lock:
            self._admissions.speak(number)
        return True

    def _forget(self, number: int) -> None:
        with self._lock:
            self._admissions.leave(number)
            self._connections.pop(number, None)
            self._threads.pop(number, None)
