"""Who may send rows to a tcp source, and how many may try."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from australis.diagram.model import ARRIVAL, Source
from australis.kernel.errors import Place, UserError
from australis.runtime.certs import issue
from australis.runtime.listener import Listener, raise_descriptor_limit
from australis.runtime.load import load, seen_from_above
from australis.runtime.options import Options
from australis.runtime.sources import check_options
from australis.runtime.sources import tcp_door as door
from australis.runtime.sources.inbox import Inbox
from australis.runtime.sources.tcp import TcpListener
from australis.streams.buckets import Buckets
from australis.streams.schema import parse_schema

pytestmark = pytest.mark.timeout(60)
TOKEN = "s3cret-of-orders"


def source(**options: Any) -> Source:
    about = {"address": "127.0.0.1:0", "ack": True} | options
    schema = parse_schema("a int")
    place = Place("d.yaml", 3)
    return Source(name="s", kind="tcp", schema=schema, time=ARRIVAL, options=about, place=place)


class Took:
    """Takes every delivery, and counts its rows."""

    def __init__(self) -> None:
        self.rows = 0
        self.rejected = 0
        self.inbox = Inbox()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def _take(self) -> None:
        while not self._ends.is_set():
            for delivery in self.inbox.take(0.05):
                self.rows += delivery.rows.num_rows
                self.rejected += len(delivery.rejected)
                delivery.finish()

    def close(self) -> None:
        self._ends.set()
        self._thread.join()


@contextmanager
def listening(base: Path, room: int = 256, **options: Any) -> Iterator[tuple[TcpListener, Took]]:
    took = Took()
    listener = TcpListener(
        source(**options), Buckets(100_000), took.inbox, base, max_connections=room
    )
    listener.start()
    try:
        yield listener, took
    finally:
        listener.stop()
        took.close()


def connected(listener: TcpListener) -> socket.socket:
    return socket.create_connection(listener.address, 10)


def exchanged(connection: socket.socket, data: bytes) -> bytes:
    """What is answered to some lines."""
    connection.settimeout(10)
    connection.sendall(data)
    return connection.recv(100)


def until(what: Any, timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# --- the address ---------------------------------------------------------------------------------


def test_without_a_host_only_this_machine_is_served() -> None:
    def read(text: str) -> tuple[str, int]:
        return door.read_address(Options(source(address=text), door.TCP_OPTIONS))

    assert read(":7000") == ("127.0.0.1", 7000)
    assert read("0.0.0.0:7000") == ("0.0.0.0", 7000)
    assert read("[::]:7000") == ("::", 7000)


# --- the token -----------------------------------------------------------------------------------


def test_the_first_line_is_the_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with listening(tmp_path, token="token") as (listener, took):
        with connected(listener) as one:
            assert exchanged(one, f'{TOKEN}\n{{"a": 1}}\n'.encode()) == b"1\n"
        with connected(listener) as slow:
            for byte in TOKEN.encode():
                slow.sendall(bytes([byte]))
            assert exchanged(slow, b'\r\n{"a": 2}\n') == b"1\n", "its line is not counted"
        until(lambda: took.rows == 2)


@pytest.mark.parametrize("first", [b'{"a": 1}\n', b"s3cret\n", b"\n", b"x" * 5000, b"\xff\xfe\n"])
def test_without_the_token_no_row_is_taken(tmp_path: Path, first: bytes) -> None:
    (tmp_path / "token").write_text(TOKEN)
    with listening(tmp_path, token="token") as (listener, took):
        with connected(listener) as one:
            assert exchanged(one, first + b'{"a": 1}\n' * 3) == door.REFUSED
        until(lambda: listener.refused == {"token": 1})
        assert took.rows == took.rejected == 0


def test_who_shows_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "IDENTIFY_TIMEOUT_S", 0.2)
    (tmp_path / "token").write_text(TOKEN)
    with listening(tmp_path, token="token") as (listener, _), connected(listener) as one:
        one.sendall(b"s3")
        until(lambda: listener.refused == {"silent": 1})
        assert one.recv(10) == b""


# --- TLS -----------------------------------------------------------------------------------------


def with_tls(connection: socket.socket, base: Path, name: str = "") -> socket.socket:
    context = ssl.create_default_context(cafile=base / "ca.pem")
    if name:
        context.load_cert_chain(base / f"{name}.pem", base / f"{name}.key")
    return context.wrap_socket(connection, server_hostname="127.0.0.1")


def test_with_tls_and_with_certificates(tmp_path: Path) -> None:
    issue(tmp_path, {"s": (), "producer": ()})
    files = {"certificate": "s.pem", "key": "s.key"}
    row = b'{"a": 1}\n'
    with listening(tmp_path, tls=files) as (listener, took):
        with with_tls(connected(listener), tmp_path) as one:
            assert exchanged(one, row) == b"1\n"
        with connected(listener) as plain:
            plain.sendall(row * 10)
            until(lambda: listener.refused == {"tls": 1})
        assert took.rows == 1
    with listening(tmp_path, tls=files | {"ca": "ca.pem"}) as (listener, took):
        with with_tls(connected(listener), tmp_path, "producer") as one:
            assert exchanged(one, row) == b"1\n"
        with pytest.raises(OSError, match=r"certificate required|EOF|reset|Broken"):
            exchanged(with_tls(connected(listener), tmp_path), row)
        assert took.rows == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tls": "s.pem"}, "has the option tls, which is not a mapping of certificate, key and ca"),
        ({"tls": {"certificate": "s.pem"}}, "needs in 'tls' the option 'key'"),
        (
            {"tls": {"cert": "s.pem"}},
            "has an unknown option 'cert' in 'tls' (known: certificate, key, ca)",
        ),
        ({"tls": {"certificate": 1, "key": "k"}}, "has in 'tls' the option certificate: 1, which"),
        ({"tls": {"certificate": "no", "key": "no"}}, "no: No such file or directory"),
        ({"tls": {"certificate": "file", "key": "file"}}, "for TLS: "),
        ({"token": "no"}, "no: No such file or directory"),
        ({"token": "file"}, "has a token file "),
        ({"token": 7}, "has the option token: 7, which is not a text"),
    ],
)
def test_mistakes_get_one_sentence(tmp_path: Path, options: Any, sentence: str) -> None:
    (tmp_path / "file").write_text("two\nlines\n")
    with pytest.raises(UserError) as error:
        check_options(source(**options), tmp_path)
    assert str(error.value).startswith("d.yaml:3: 's' ")
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_files_begin_at_the_directory_of_the_diagram(tmp_path: Path) -> None:
    file = tmp_path / "d.yaml"
    file.write_text(
        'diagram: d\nsources:\n  s: {tcp: ":0", schema: "a int", token: t, tls: {certificate: c,'
        " key: ~/k}}\noperators:\n  o: {filter: s, where: a > 1}\n"
    )
    (found,) = seen_from_above(load(file), Path("below")).sources
    assert found.options["token"] == "below/t"
    assert found.options["tls"] == {"certificate": "below/c", "key": "~/k"}


# --- how many ------------------------------------------------------------------------------------


def test_silent_connections_make_way(tmp_path: Path) -> None:
    """Those that have sent a row stay; any number of silent ones leaves room for a producer."""
    with listening(tmp_path, room=16) as (listener, took):
        with connected(listener) as first:
            assert exchanged(first, b'{"a": 1}\n') == b"1\n"
            silent = [connected(listener) for _ in range(200)]
            with connected(listener) as late:
                assert exchanged(late, b'{"a": 2}\n') == b"1\n"
            assert exchanged(first, b'{"a": 3}\n') == b"2\n"
        assert listener.refused["unidentified"] >= 200 - 16
        assert took.rows == 3
        for one in silent:
            one.close()


def test_a_source_that_is_full_of_producers_refuses_more(tmp_path: Path) -> None:
    with listening(tmp_path, room=4) as (listener, _):
        busy = [connected(listener) for _ in range(4)]
        for one in busy:
            assert exchanged(one, b'{"a": 1}\n') == b"1\n"
        with connected(listener) as more:
            assert more.recv(10) == b""
        until(lambda: listener.refused == {"full": 1})
        busy.pop().close()
        until(lambda: len(listener._listener) == 3)
        with connected(listener) as again:
            assert exchanged(again, b'{"a": 2}\n') == b"1\n"
        for one in busy:
            one.close()


def test_a_process_without_descriptors_listens_on_when_it_has_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the system says then ends no listener."""
    served = threading.Event()
    listener = Listener("test", "127.0.0.1", 0, lambda connection: served.set())
    real, errors = listener._socket, [OSError(24, "Too many open files")] * 2

    class Out:
        def accept(self) -> Any:
            if errors:
                raise errors.pop()
            return real.accept()

        def close(self) -> None:
            real.close()

        def getsockname(self) -> Any:
            return real.getsockname()

    listener._socket = Out()  # type: ignore[assignment]
    listener.start()
    with socket.create_connection(listener.address) as one:
        one.sendall(b"x")
        assert served.wait(10)
    assert listener.refused == {"descriptors": 2}
    listener.stop()


def test_a_process_takes_all_descriptors_that_it_may_have() -> None:
    assert raise_descriptor_limit() >= 256
