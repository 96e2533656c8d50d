"""Who may send rows to a tcp source: its address, and what its producers have to show.

    sources:
      orders: {tcp: "0.0.0.0:7000", tls: {certificate: s.pem, key: s.key, ca: ca.pem}, ...}
      clicks: {tcp: "127.0.0.1:7001", token: clicks.token, ...}

With `tls` the connection is encrypted; with a `ca` in it a producer needs a certificate of that
authority. With `token` the first line of each connection has to be the content of that file.
"""

from __future__ import annotations

import hmac
import socket
import ssl
import time
from collections.abc import Mapping
from pathlib import Path

from australis.deployment.cluster import LOOPBACK
from australis.diagram.model import Source
from australis.kernel.errors import UserError
from australis.kernel.names import known_names
from australis.node.admission import Refusal
from australis.runtime.listener import IDENTIFY_TIMEOUT_S, Connection
from australis.runtime.options import Options
from australis.runtime.sockets import limit

TCP_OPTIONS = ("address", "ack", "unit", "tls", "token")
TLS_OPTIONS = ("certificate", "key", "ca")
MAX_TOKEN_BYTES = 1024
"""The longest token of a source."""
REFUSED = b"refused\n"
"""What a producer is told whose first line is not the token."""


def read_address(options: Options) -> tuple[str, int]:
    """Host and port of `address`; without a host only this machine, port 0 takes any free one."""
    text = options.text("address")
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise options.wrong(f"has the option address: {text!r}, which is not host:port")
    return host.strip("[]") or LOOPBACK, int(port)


def tls_files(source: Source) -> Mapping[str, str]:
    """The files of `tls`, by their settings; a `UserError` if they are not what is needed."""
    options, given = Options(source, TCP_OPTIONS), source.options.get("tls")
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise options.wrong("has the option tls, which is not a mapping of certificate, key and ca")
    for name, path in given.items():
        if name not in TLS_OPTIONS:
            hint = known_names(str(name), TLS_OPTIONS)
            raise options.wrong(f"has an unknown option '{name}' in 'tls' ({hint})")
        if not isinstance(path, str | Path) or not str(path):
            raise options.wrong(f"has in 'tls' the option {name}: {path!r}, which is not a file")
    for name in ("certificate", "key"):
        if name not in given:
            raise options.wrong(f"needs in 'tls' the option '{name}'")
    return {str(name): str(path) for name, path in given.items()}


class Door:
    """Lets producers in that show what they have to."""

    def __init__(self, source: Source, base: Path) -> None:
        """Read the files; a `UserError` names one that is missing or of no use."""
        self._source = source
        options = Options(source, TCP_OPTIONS)
        self._token: bytes | None = None
        if source.options.get("token") is not None:
            self._token = self._read_token(base / Path(options.text("token")).expanduser())
        files = {n: base / Path(f).expanduser() for n, f in tls_files(source).items()}
        self._context = self._tls(files) if files else None

    @property
    def identifies(self) -> bool:
        """Whether a producer has to show anything before its first row."""
        return self._token is not None or self._context is not None

    def enter(self, connection: Connection) -> bytes:
        """Let a producer in; returns what it has sent behind its token already."""
        if self._context is not None:
            connection.accept(self)
        if self._token is None:
            connection.identify()
            return b""
        line, rest = self._first_line(connection.socket)
        if not hmac.compare_digest(line, self._token):
            connection.socket.sendall(REFUSED)
            raise Refusal("token", "its first line is not the token of the source")
        connection.identify()
        return rest

    def wrap(self, connection: socket.socket, node: str | None) -> socket.socket:
        """The connection with TLS; nothing is sent yet."""
        assert self._context is not None
        return self._context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )

    def accept(self, connection: socket.socket, deadline: float) -> str | None:
        """Agree on keys; what a certificate of the producer says does not matter."""
        assert isinstance(connection, ssl.SSLSocket)
        limit(connection, deadline)
        try:
            connection.do_handshake()
        except TimeoutError:
            raise
        except OSError as error:
            raise Refusal("tls", f"cannot agree on TLS: {error}") from None
        return None

    def connect(self, connection: socket.socket, node: str, deadline: float) -> None:
        raise AssertionError("a source calls nobody")

    @staticmethod
    def _first_line(connection: socket.socket) -> tuple[bytes, bytes]:
        deadline = time.monotonic() + IDENTIFY_TIMEOUT_S
        data = b""
        while b"\n" not in data and len(data) <= MAX_TOKEN_BYTES:
            limit(connection, deadline)
            more = connection.recv(1 << 12)
            if not more:
                break
            data += more
        line, _, rest = data.partition(b"\n")
        return line.strip(), rest

    def _read_token(self, path: Path) -> bytes:
        token = self._read(path).strip()
        if not 0 < len(token) <= MAX_TOKEN_BYTES or b"\n" in token:
            raise self._wrong(f"has a token file {path}, which is not one line with a token")
        return token

    def _tls(self, files: Mapping[str, Path]) -> ssl.SSLContext:
        for path in files.values():
            self._read(path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        at = files["certificate"]
        try:
            # Without the function OpenSSL would ask at the terminal for a password.
            context.load_cert_chain(at, files["key"], password=lambda: b"")
            if "ca" in files:
                at = files["ca"]
                context.load_verify_locations(at)
                context.verify_mode = ssl.CERT_REQUIRED
        except (OSError, ValueError) as error:
            raise self._wrong(f"cannot use {at} for TLS: {error}") from None
        return context

    def _read(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise self._wrong(f"cannot read {path}: {error.strerror}") from None

    def _wrong(self, sentence: str) -> UserError:
        return UserError(sentence, name=self._source.name, place=self._source.place)
