"""Checkpoints on their way from one node to another."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from australis.runtime.listener import Connection, Listener
from australis.runtime.node import snapshots
from australis.runtime.node import transport as parts
from australis.runtime.node.snapshots import Piece, fetch, pieces
from australis.runtime.node.wire import WireError
from australis.runtime.sockets import receive, send
from australis.runtime.token import Token

pytestmark = pytest.mark.timeout(60)
TOKEN = Token(b"t" * 32, "b")


def fetched(answer: Iterable[bytes], into: Path) -> int:
    """What is fetched from a node that answers whatever it is asked with these pieces."""

    def serve(connection: Connection) -> None:
        connection.accept(TOKEN)
        connection.identify()
        far = time.monotonic() + 60
        send(connection.socket, parts.answer(parts.END), far)
        name, length = parts.REQUEST.unpack(receive(connection.socket, parts.REQUEST.size, far))
        receive(connection.socket, name + length, far)
        for piece in answer:
            send(connection.socket, parts.answer(parts.PART, piece), far)
        send(connection.socket, parts.answer(parts.END), far)

    there = Listener("there", "127.0.0.1", 0, serve)
    there.start()
    try:
        with parts.NodeConnection(*there.address, "b", TOKEN) as client:
            return fetch(client, "counts@b", "counts", into, 10)
    finally:
        there.stop()


def content(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


def test_a_snapshot_goes_round(tmp_path: Path) -> None:
    files = {"state/0": b"x" * (3 << 20), "offsets/1": b"", "commits/0": b"y", "z": b"z" * 5}
    for name, data in files.items():
        (tmp_path / "here" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "here" / name).write_bytes(data)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "left").write_bytes(b"by one that was cut short")
    assert fetched(pieces(7, tmp_path / "here"), tmp_path / "there") == 7
    assert content(tmp_path / "there") == files
    assert not (tmp_path / "here").exists(), "a copy is for one who asks"


def test_nothing_at_all_is_no_snapshot(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with pytest.raises(WireError, match="cut short"):
        fetched(pieces(7, tmp_path / "here"), tmp_path / "there")


def test_a_copy_is_removed_when_nobody_reads_on(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    for name in "abc":
        (tmp_path / "here" / name).write_bytes(b"x")
    sent = pieces(7, tmp_path / "here")
    next(sent)
    sent.close()  # type: ignore[attr-defined]
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ([Piece(7, "state", b"x", False)], "cut short"),
        ([Piece(7, "a", b"x", False), Piece(7, "b", b"x", False)], "cut short"),
        ([Piece(7, "a", b"x", False), Piece(8, "b", b"x", True)], "2 files, at {"),
        ([Piece(7, "../../etc/passwd", b"x", True)], "a file called '../../etc/passwd'"),
        ([Piece(7, "/etc/passwd", b"x", True)], "a file called '/etc/passwd'"),
        ([Piece(7, "a/../../b", b"x", True)], "a file called 'a/../../b'"),
        ([Piece(7, ".", b"x", True)], "a file called '.'"),
        ([Piece(7, "a\0b", b"x", True)], "a file called 'a?b'"),
        ([Piece(7, "a", b"x", False), Piece(7, "a/b", b"x", True)], "a file called 'a/b'"),
        ([Piece(7, "a/b", b"x", False), Piece(7, "a", b"x", True)], "a file called 'a'"),
        ([Piece(7, "", b"x", True)], "something else in it"),
        ([Piece(-9, "state", b"x", True)], "something else in it"),
        ([Piece(1 << 62, "state", b"x", True)], "something else in it"),
        ([b"\xff"], "something else in it"),
        ([b"\x94\x07\xa1\xff\xc4\x00\xc3"], "something else in it"),
        ([Piece(7, str(i), b"x" * 100, i == 11) for i in range(12)], "a snapshot of"),
    ],
)
def test_a_snapshot_that_is_none_is_refused(
    answer: list[Any], sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(snapshots, "MAX_SNAPSHOT_BYTES", 1000)
    said = [p if isinstance(p, bytes) else msgspec.msgpack.encode(p) for p in answer]
    with pytest.raises(WireError) as error:
        fetched(said, tmp_path / "there")
    assert sentence in str(error.value)
    outside = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert all(p.is_relative_to(tmp_path / "there") for p in outside)
