"""The token of a cluster without TLS: who can read its file may do everything.

The first `australis up` makes it, in the cluster's state directory, readable by its owner only.
Both ends of a connection prove that they know it (HMAC over the node's name and random bytes of
both), so it is never sent, and a process that took a node's port learns nothing.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from australis.kernel.errors import AustralisError, UserError
from australis.runtime.files import make_directory, stopping, write_first
from australis.runtime.sealed import read_sealed, seal
from australis.runtime.sockets import receive, send

FILE = "token"
REMEDY = "remove it while no node runs, and the next `australis up` makes another"
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
    node: str = ""
    """The node that holds it and proves to be itself; a caller that is none needs no name."""

    def wrap(self, connection: socket.socket, node: str | None) -> socket.socket:
        """The connection as it is: it is not encrypted."""
        return connection

    def connect(self, connection: socket.socket, node: str, deadline: float) -> None:
        """Prove to a node that one knows the token, once it has proved the same."""
        mine = secrets.token_bytes(BYTES)
        send(connection, mine, deadline)
        answer = receive(connection, 2 * BYTES, deadline)
        theirs, proof = answer[:BYTES], answer[BYTES:]
        if not hmac.compare_digest(proof, self._proof(b"node", node, mine, theirs)):
            raise Unproven(f"'{node}' has another token than the state directory of this cluster")
        send(connection, self._proof(b"caller", node, mine, theirs), deadline)

    def accept(self, connection: socket.socket, deadline: float) -> str | None:
        """Let a caller prove that it knows the token; it has no identity of its own."""
        theirs = receive(connection, BYTES, deadline)
        mine = secrets.token_bytes(BYTES)
        send(connection, mine + self._proof(b"node", self.node, theirs, mine), deadline)
        proof = receive(connection, BYTES, deadline)
        if not hmac.compare_digest(proof, self._proof(b"caller", self.node, theirs, mine)):
            raise Unproven("a caller that does not know the token of this cluster")
        return None

    def _proof(self, whose: bytes, node: str, caller: bytes, answer: bytes) -> bytes:
        # With the node's name, or a process in the place of one node could pass on the proof of another.
        name = node.encode()
        said = b"australis %s %d %s" % (whose, len(name), name)
        return hmac.digest(self.secret, said + caller + answer, "sha256")


def keep_token(state: Path) -> Token:
    """The token of the cluster with this state, made now if there is none yet."""
    path = state / FILE
    if not path.exists():
        with stopping("write", path):
            make_directory(state)
            write_first(path, seal(FILE, f"{secrets.token_hex(BYTES)}\n".encode()))
    return read_token(state)


def read_token(state: Path) -> Token:
    """The token of the cluster with this state; a `UserError` if it is not there, or not safe."""
    path = state / FILE
    with stopping("read", path), suppress(FileNotFoundError):
        if path.lstat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) and not path.is_symlink():
            raise UserError("may be read by others: it should have mode 600", name=str(path))
    found = read_sealed(path, FILE, REMEDY)
    if found is None:
        sentence = "does not exist: it is made by the first `australis up` of the cluster"
        raise NoToken(sentence, name=str(path))
    return Token(bytes.fromhex(found.decode()))
