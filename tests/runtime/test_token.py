"""The token of a cluster without TLS."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from australis.kernel.errors import Damaged, UserError
from australis.runtime.token import FILE, NoToken, Token, Unproven, keep_token, read_token


def test_it_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    state = tmp_path / "new" / "state"
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: keep_token(state).secret, range(8)))
    assert len(found) == 1
    assert (state / FILE).stat().st_mode & 0o777 == 0o600
    assert read_token(state).secret in found
    assert [path.name for path in state.iterdir()] == [FILE]
    assert found.pop().hex() not in repr(read_token(state))


def test_what_is_no_token(tmp_path: Path) -> None:
    with pytest.raises(NoToken, match="token' does not exist: it is made by the first `aus"):
        read_token(tmp_path)
    keep_token(tmp_path)
    file = tmp_path / FILE
    file.chmod(0o640)
    with pytest.raises(UserError, match="token' may be read by others: it should have mode 600"):
        keep_token(tmp_path)
    file.chmod(0o600)
    whole = file.read_bytes()
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(Damaged, match=r"token is damaged, .*: remove it while no node runs"):
            read_token(tmp_path)
    other = tmp_path / "other"
    file.rename(other)
    file.symlink_to(other)
    with pytest.raises(UserError, match="token' is a symbolic link"):
        read_token(tmp_path)


def met(caller: Token, node: Token) -> list[BaseException | None]:
    """What becomes of a caller and a node that meet, and all bytes that were exchanged."""
    one, other = socket.socketpair()
    errors: list[BaseException | None] = [None, None]
    until = time.monotonic() + 1

    def call() -> None:
        try:
            caller.connect(one, "b", until)
        except BaseException as error:
            errors[0] = error
            one.close()

    thread = threading.Thread(target=call)
    thread.start()
    try:
        node.accept(other, until)
    except BaseException as error:
        errors[1] = error
    thread.join()
    return errors


def test_both_ends_prove_that_they_know_it() -> None:
    right, wrong = Token(b"r" * 32, "b"), Token(b"w" * 32, "b")
    assert met(right, right) == [None, None]
    caller, node = met(right, wrong)
    assert isinstance(caller, Unproven)
    assert isinstance(node, OSError)


def test_a_node_proves_to_be_itself() -> None:
    """A process in the place of `b` cannot pass on what another node proves."""
    caller, _ = met(Token(b"r" * 32), Token(b"r" * 32, "a"))
    assert isinstance(caller, Unproven)


def test_an_answer_cannot_be_used_again_nor_turned_back() -> None:
    """A caller that sends a node's own words back proves nothing."""
    token = Token(b"t" * 32)
    one, other = socket.socketpair()
    failed: list[BaseException] = []

    def accept() -> None:
        try:
            token.accept(other, time.monotonic() + 2)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=accept)
    thread.start()
    one.sendall(b"n" * 32)
    said = one.recv(64, socket.MSG_WAITALL)
    one.sendall(said[32:])
    thread.join()
    assert isinstance(failed[0], Unproven)
    assert token.secret not in said
