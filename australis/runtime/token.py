"""The token of a cluster without TLS: who can read its file may do everything.

The first `australis up` makes it, in the cluster's state directory, readable by its owner only.
Both ends of a connection prove that they know it (HMAC over random bytes of both), so it is
never sent, and a process that took a node's port learns nothing.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import stat
from dataclasses import dataclass, field
from pathlib import Path

from australis.kernel.errors import AustralisError, UserError
from australis.runtime.files import TEMPORARY, make_directory, stopping, sync_directory, write_all
from australis.runtime.sockets import receive, send

FILE = "token"
BYTES = 32
"""The size of the token, of the random bytes of either end, and of a proof."""


class Unproven(AustralisError):
    """The other end of a connection does not know the cluster's token."""


class NoToken(UserError):
    """A cluster has no token yet."""


@dataclass(frozen=True, slots=True)
class Token:
    """A secret that all processes of a cluster on this machine share."""

    secret: bytes = field(repr=False)

    def wrap(self, connection: socket.socket, node: str | None) -> socket.socket:
        """The connection as it is: it is not encrypted."""
        return connection

    def connect(self, connection: socket.socket, node: str, deadline: float) -> None:
        """Prove to a node that one knows the token, once it has proved the same."""
        mine = secrets.token_bytes(BYTES)
        send(connection, mine, deadline)
        answer = receive(connection, 2 * BYTES, deadline)
        theirs, proof = answer[:BYTES], answer[BYTES:]
        if not hmac.compare_digest(proof, self._proof(b"node", mine, theirs)):
            raise Unproven(f"'{node}' has another token than the state directory of this cluster")
        send(connection, self._proof(b"caller", mine, theirs), deadline)

    def accept(self, connection: socket.socket, deadline: float) -> str | None:
        """Let a caller prove that it knows the token; it has no identity of its own."""
        theirs = receive(connection, BYTES, deadline)
        mine = secrets.token_bytes(BYTES)
        send(connection, mine + self._proof(b"node", theirs, mine), deadline)
        proof = receive(connection, BYTES, deadline)
        if not hmac.compare_digest(proof, self._proof(b"caller", theirs, mine)):
            raise Unproven("a caller that does not know the token of this cluster")
        return None

    def _proof(self, whose: bytes, caller: bytes, node: bytes) -> bytes:
        return hmac.digest(self.secret, b"australis " + whose + caller + node, "sha256")


def keep_token(state: Path) -> Token:
    """The token of the cluster with this state, made now if there is none yet."""
    path = state / FILE
    if not path.exists():
        with stopping("write", path):
            make_directory(state)
            _write_first(path, f"{secrets.token_hex(BYTES)}\n".encode())
    return read_token(state)


def read_token(state: Path) -> Token:
    """The token of the cluster with this state; a `UserError` if it is not there, or not safe."""
    path = state / FILE
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        sentence = "does not exist: it is made by the first `australis up` of the cluster"
        raise NoToken(sentence, name=str(path)) from None
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", name=str(path)) from None
    with os.fdopen(fd, "rb") as file:
        about = os.fstat(fd)
        if about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UserError("may be read by others: it should have mode 600", name=str(path))
        text = file.read(4 * BYTES)
    try:
        secret = bytes.fromhex(text.decode("ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != BYTES:
        raise UserError("is damaged: remove it while no node runs, to get another", name=str(path))
    return Token(secret)


def _write_first(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read, unless another process has created it."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}{TEMPORARY}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
    sync_directory(path.parent)
