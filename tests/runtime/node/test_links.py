"""Links, mailboxes and the server of a node, one by one: bounded, in order, never stuck."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime.node.small_cluster import free_ports

from australis.kernel.errors import UserError
from australis.runtime.listener import Connection, Listener
from australis.runtime.node import links, mailbox, server
from australis.runtime.node.links import Hello, Link, Mismatch, greeted, pack, sentence_of, unpack
from australis.runtime.node.mailbox import Mailbox
from australis.runtime.node.server import NodeServer, ask
from australis.runtime.node.transport import END, PART, REQUEST, NodeConnection, Refused, answer
from australis.runtime.node.wire import MAX_MESSAGE_BYTES, VERSION, NotSpoken, WireError
from australis.runtime.sockets import receive, send
from australis.runtime.token import Token, Unproven

pytestmark = pytest.mark.timeout(60)
TOKEN = Token(b"t" * 32, "b")


class Told:
    """Remembers what was told."""

    def __init__(self) -> None:
        self.all: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, event: str, **fields: Any) -> None:
        self.all.append((event, fields))

    def names(self) -> list[str]:
        return [event for event, _ in self.all]

    def why(self, event: str) -> list[str]:
        return [fields["why"] for name, fields in self.all if name == event]


class Answers:
    """A node that keeps what it is sent, and blocks or refuses when it is told to."""

    cluster = "c"
    name = "b"
    digest = ""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.blocked = threading.Event()
        self.blocked.set()
        self.wrong: Exception | None = None
        self.mailbox = Mailbox()
        self.most = MAX_MESSAGE_BYTES

    def knows(self, node: str) -> bool:
        return node != "stranger"

    def longest(self, caller: str | None, kind: str) -> int:
        if kind not in ("hello", "status", "post", "inbox", "snapshot", "fault"):
            raise WireError(f"unknown action '{kind}'")
        return self.most

    def receive(self, node: str | None, body: bytes) -> None:
        self.blocked.wait(20)
        if self.wrong is not None:
            raise self.wrong
        if body.startswith(b"bad"):
            raise WireError("not a message")
        if body.startswith(b"newer"):
            raise NotSpoken("version 9 of the protocol")
        self.got.append(body)

    def inbox(self, node: str | None, client: str, incarnation: int) -> Iterable[list[bytes]]:
        if client != "reader":
            raise WireError(f"'{client}' is not a client of this cluster")
        return self.mailbox.read(incarnation)

    def status(self) -> dict[str, Any]:
        return {"node": self.name}

    def snapshot(self, node: str | None, machine: str, stream: str) -> tuple[int, Path]:
        raise WireError("there is none")

    def fault(self, what: dict[str, Any], caller: str | None = None) -> str:
        raise UserError("does not allow injected faults", name="c")


@contextmanager
def served(
    answers: Any, port: int = 0, told: Told | None = None, access: Any = TOKEN
) -> Iterator[NodeServer]:
    made = NodeServer(answers, "127.0.0.1", port, access, told or Told())
    made.start()
    try:
        yield made
    finally:
        if hasattr(answers, "blocked"):
            answers.blocked.set()
        made.stop()


def client_of(port: int) -> NodeConnection:
    return NodeConnection("127.0.0.1", port, "b", TOKEN)


def until(what: Callable[[], bool], timeout_s: float = 15.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def linked(port: int, told: Told | None = None, hello: bool = True) -> Iterator[Link]:
    def connect() -> NodeConnection:
        return greeted(client_of(port), "c", "b") if hello else client_of(port)

    link = Link("b", connect, told or Told())
    try:
        yield link
    finally:
        link.close()


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(Refused) as error:
        call()
    return sentence_of(error.value)


# --- bodies ------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_bodies_go_round(messages: list[bytes]) -> None:
    assert unpack(pack(messages)) == messages


@given(st.binary(max_size=300))
def test_garbage_is_unpacked_or_refused(body: bytes) -> None:
    try:
        messages = unpack(body)
    except ValueError:
        return
    assert pack(messages) == body


def test_a_body_has_only_so_many_messages() -> None:
    assert len(unpack(pack([b""] * links.MAX_CALL_MESSAGES))) == links.MAX_CALL_MESSAGES
    with pytest.raises(ValueError, match="more than 4096 messages"):
        unpack(pack([b""] * (links.MAX_CALL_MESSAGES + 1)))
    with pytest.raises(ValueError, match="cut short"):
        unpack(b"\xff\xff\xff\xff")


# --- links -------------------------------------------------------------------------------------


def test_messages_arrive_in_order() -> None:
    answers = Answers()
    sent = [str(i).encode() for i in range(20_000)]
    with served(answers) as there, linked(there.port) as link:
        for message in sent:
            link.send(message)
        until(lambda: link.sent == len(sent))
        assert answers.got == sent
        assert link.dropped == 0


def test_a_node_that_stands_still_costs_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_QUEUED_BYTES", 1 << 20)
    monkeypatch.setattr(links, "CALL_TIMEOUT_S", 1.0)
    answers, told = Answers(), Told()
    with served(answers) as there, linked(there.port, told) as link:
        link.send(b"first")
        until(lambda: link.sent == 1)
        answers.blocked.clear()
        began = time.monotonic()
        for _ in range(1000):
            link.send(b"x" * 10_000)
        assert time.monotonic() - began < 0.9, "whoever sends never waits"
        assert link._bytes <= 1 << 20
        assert link.dropped > 0
        until(lambda: not link.up)
        assert link._bytes == 0, "what waited is stale"
        answers.blocked.set()
        until(lambda: link.send(b"again") is None and b"again" in answers.got)
        assert link.up
    assert told.names() == ["link_up", "link_down", "link_up"]


def test_one_message_may_be_longer_than_all_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_QUEUED_BYTES", 1000)
    answers = Answers()
    with served(answers) as there, linked(there.port) as link:
        link.send(b"x" * 5000)
        until(lambda: link.sent == 1)
        assert len(answers.got[0]) == 5000


def test_a_node_that_comes_back_is_found_again() -> None:
    told = Told()
    (port,) = free_ports(1)
    with linked(port, told) as link:
        for _ in range(2):
            answers = Answers()
            link.send(b"nobody is there")
            until(lambda: link.dropped > 0)
            with served(answers, port):
                until(lambda: link.send(b"here") is None and b"here" in answers.got, 10)  # noqa: B023
            until(lambda: link.send(b"gone") is None and not link.up)
        assert link.dropped > 0
    assert told.names()[:4] == ["link_down", "link_up", "link_down", "link_up"]
    assert "Connection refused" in told.why("link_down")[0]


def test_a_refusal_is_counted_and_told_and_the_link_goes_on() -> None:
    answers, told = Answers(), Told()
    with served(answers) as there, linked(there.port, told) as link:
        link.send(b"bad message")
        until(lambda: link.dropped == 1)
        link.send(b"good message")
        until(lambda: answers.got == [b"good message"])
    assert told.names() == ["refused_by", "link_up"]
    assert told.why("refused_by") == ["not a message"]


def test_whatever_goes_wrong_the_thread_lives() -> None:
    errors: list[Exception] = [ValueError("x"), KeyError(1), NotImplementedError(), OSError()]

    def connect() -> NodeConnection:
        if errors:
            raise errors.pop()
        return client_of(there.port)

    answers = Answers()
    with served(answers) as there:
        link = Link("b", connect)
        until(lambda: link.send(b"here") is None and b"here" in answers.got)
        link.close()
        assert not link._thread.is_alive()


def test_a_closed_link_ends_at_once_and_takes_nothing() -> None:
    (port,) = free_ports(1)
    with linked(port) as link:
        link.send(b"nobody is there")
        until(lambda: link.dropped > 0)
    assert not link._thread.is_alive()
    link.send(b"too late")
    assert not link._waiting


def test_injected_faults() -> None:
    answers = Answers()
    with served(answers) as there, linked(there.port) as link:
        link.cut = True
        link.send(b"cut")
        link.cut, link.slow_s = False, 0.3
        began = time.monotonic()
        link.send(b"slow")
        until(lambda: answers.got == [b"slow"])
        assert time.monotonic() - began >= 0.3
        assert link.dropped == 1


# --- who answers -------------------------------------------------------------------------------


class Impostor:
    """Answers `hello` with whatever it is given."""

    def __init__(self, *results: bytes) -> None:
        self.results = results
        self.asked: list[str] = []
        self._listener = Listener("impostor", "127.0.0.1", 0, self._serve)
        self.port = self._listener.address[1]

    def __enter__(self) -> Impostor:
        self._listener.start()
        return self

    def __exit__(self, *about: object) -> None:
        self._listener.stop()

    def _serve(self, connection: Connection) -> None:
        connection.accept(TOKEN)
        connection.identify()
        far = time.monotonic() + 60
        send(connection.socket, answer(END), far)
        while True:
            name, length = REQUEST.unpack(receive(connection.socket, REQUEST.size, far))
            self.asked.append(receive(connection.socket, name, far).decode())
            receive(connection.socket, length, far)
            results = self.results if self.asked[-1] == "hello" else ()
            send(connection.socket, b"".join(answer(PART, r) for r in results) + answer(END), far)


def hello(**changes: Any) -> bytes:
    who = {"version": VERSION, "cluster": "c", "node": "b"} | changes
    return msgspec.msgpack.encode(who)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ([hello(version=3)], "'b' speaks version 3 of the protocol, not 2"),
        ([hello(cluster="other")], "'b' is of cluster 'other', not of 'c'"),
        ([hello(node="a")], "'a' answers where 'b' should"),
        ([hello(node="x" * 10_000)], f"'{'x' * 300} ...' answers where 'b' should"),
        ([hello(version="1")], "'b' does not say who it is, or not so that one understands"),
        ([b"\xff\xfe garbage"], "'b' does not say who it is, or not so that one understands"),
        ([b""], "'b' does not say who it is, or not so that one understands"),
        ([], "'b' does not say who it is, or not so that one understands"),
    ],
)
def test_somebody_else_hears_nothing_and_it_is_said_once(
    answer: list[bytes], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "MISMATCH_RETRY_S", 0.05)
    told = Told()
    with Impostor(*answer) as there, linked(there.port, told) as link:
        until(lambda: link.send(b"secret") is None and there.asked.count("hello") >= 3)
        assert set(there.asked) == {"hello"}
        assert link.sent == 0
        assert link.dropped > 3
        there.results = (hello(),)
        until(lambda: link.send(b"message") is None and link.up)
    assert told.names() == ["link_down", "link_up"]
    assert told.why("link_down") == [sentence]


def test_a_stranger_is_asked_again_only_now_and_then() -> None:
    with Impostor(hello(node="a")) as there, linked(there.port) as link:
        began = time.monotonic()
        while time.monotonic() - began < 1:
            link.send(b"secret")
            time.sleep(0.001)
        assert there.asked == ["hello"]


def test_a_node_that_computes_something_else_is_left_alone() -> None:
    answers = Answers()
    answers.digest = "theirs"
    with served(answers) as there:
        port = there.port
        greeted(client_of(port), "c", "b").close()
        greeted(client_of(port), "c", "b", "theirs").close()
        with pytest.raises(Mismatch, match="'b' has another diagram, other functions or another"):
            greeted(client_of(port), "c", "b", "ours")


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 10_000])
def test_another_service_is_no_node(said: bytes) -> None:
    def serve(connection: Connection) -> None:
        connection.socket.sendall(said)
        with suppress(OSError):
            connection.socket.recv(1 << 16)

    other = Listener("other", "127.0.0.1", 0, serve)
    other.start()
    with pytest.raises((OSError, Unproven)):
        client_of(other.address[1])
    other.stop()


def test_a_connection_that_was_closed_while_idle_costs_no_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "IDLE_TIMEOUT_S", 0.2)
    answers, told = Answers(), Told()
    with served(answers, told=told) as there, linked(there.port, told) as link:
        for number in range(3):
            link.send(str(number).encode())
            until(lambda n=number: len(answers.got) == n + 1)  # type: ignore[misc]
            until(lambda: len(there.listener) == 0)
        assert link.dropped == 0
    assert told.names() == ["link_up"]


# --- mailboxes ---------------------------------------------------------------------------------


def open_box(box: Mailbox) -> Iterator[list[bytes]]:
    stream = box.read(1)
    thread = threading.Thread(target=lambda: next(stream))
    box_opened = box._opened
    thread.start()
    until(lambda: box._opened > box_opened)
    box.send(b"first")
    thread.join()
    return stream


def test_what_nobody_fetches_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "MAX_QUEUED_BYTES", 1000)
    box = Mailbox()
    box.send(b"nobody is there")
    assert box.dropped == 1
    stream = open_box(box)
    box.send(b"x" * 5000)
    assert box.dropped == 1, "a single message may be longer"
    for _ in range(10):
        box.send(b"y")
    assert box.dropped == 11
    assert box._bytes == 5000
    assert [len(m) for m in next(stream)] == [5000]
    box.send(b"z")
    assert next(stream) == [b"z"]


def test_messages_are_written_in_small_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "MAX_BATCH_BYTES", 100)
    box = Mailbox()
    stream = open_box(box)
    sent = [str(i).encode() * 20 for i in range(50)]
    for message in sent:
        box.send(message)
    got: list[bytes] = []
    while len(got) < len(sent):
        lot = next(stream)
        assert len(lot) <= 5
        got += lot
    assert got == sent
    assert box._bytes == 0


def test_an_earlier_process_of_a_client_is_refused() -> None:
    box = Mailbox()
    box.read(7)
    box.read(7)
    with pytest.raises(WireError, match="another process reads in this name"):
        box.read(6)


def test_another_stream_takes_over() -> None:
    box = Mailbox()
    old = open_box(box)
    new = open_box(box)
    with pytest.raises(StopIteration):
        next(old)
    box.send(b"for the new one")
    assert next(new) == [b"for the new one"]
    box.close()
    with pytest.raises(StopIteration):
        next(new)
    assert box._streams == 0


def test_only_so_many_streams_hang() -> None:
    box = Mailbox()
    hanging = [open_box(box) for _ in range(mailbox.MAX_STREAMS)]
    with pytest.raises(WireError, match="16 streams are open already"):
        box.read(1)
    hanging.pop().close()  # type: ignore[attr-defined]
    box.read(1)


# --- the server --------------------------------------------------------------------------------


def test_a_wrong_message_does_not_hold_up_those_behind_it() -> None:
    answers, told = Answers(), Told()
    with served(answers, told=told) as there, client_of(there.port) as client:
        body = pack([b"one", b"bad", b"two", b"bad", b"three"])
        assert refusal(lambda: list(client.call("post", body))) == "not a message"
        assert answers.got == [b"one", b"two", b"three"]
        assert there.refused == {"WireError": 2}
    assert told.names() == ["refused", "refused"]
    fields = told.all[0][1]
    assert fields["reason"] == "WireError"
    assert fields["peer"].startswith("127.0.0.1:")


def test_after_so_many_wrong_ones_the_rest_is_not_looked_at() -> None:
    answers = Answers()
    with served(answers) as there, client_of(there.port) as client:
        body = pack([b"bad"] * 1000 + [b"good"])
        refusal(lambda: list(client.call("post", body)))
        assert there.refused == {"WireError": server.MAX_BAD_MESSAGES}
        assert answers.got == []


def test_messages_of_another_version_are_not_counted_as_wrong_ones() -> None:
    answers, told = Answers(), Told()
    with served(answers, told=told) as there, client_of(there.port) as client:
        body = pack([b"newer"] * 2 * server.MAX_BAD_MESSAGES + [b"good"])
        said = refusal(lambda: list(client.call("post", body)))
        assert said == "version 9 of the protocol"
        assert answers.got == [b"good"]
        assert not there.refused
    assert set(told.names()) == {"not_spoken"}


@pytest.mark.parametrize(
    ("kind", "body", "sentence"),
    [
        ("reboot", b"", "unknown action 'reboot'"),
        ("x" * 65, b"", "unknown action"),
        ("post", b"\x05\x00\x00\x00ab", "a message is cut short"),
        ("snapshot", b"", "Input data was truncated"),
        ("snapshot", b"\xff\xff", "Expected `array`"),
        ("snapshot", msgspec.msgpack.encode(("a", 1)), "Expected `str`"),
        ("snapshot", b"\x92\xa1\xff\xa1\xff", "'utf-8' codec can't decode"),
        ("snapshot", b"\x91" * 100_000, "Expected `array` of length 2"),
        ("fault", b"\x81\x01\x02", "Expected `str`"),
        ("fault", b"\x81\xa1k" * 100_000, "recursion"),
        ("fault", b"\x80", "'c' does not allow injected faults"),
    ],
)
def test_what_is_wrong_with_a_question_is_said_in_one_sentence(
    kind: str, body: bytes, sentence: str
) -> None:
    told = Told()
    with served(Answers(), told=told) as there, client_of(there.port) as client:
        said = refusal(lambda: list(client.call(kind, body)))
        assert sum(there.refused.values()) == 1
        with client_of(there.port) as other:
            assert ask(other, "status") == {"node": "b"}
    assert sentence in said or said == "something is wrong inside this node"
    assert "Traceback" not in said
    assert sentence in told.why("refused")[0]


def test_a_body_may_be_so_long() -> None:
    """Nothing of one that is too long is read, however much of it comes."""
    answers = Answers()
    answers.most = 1 << 20
    with served(answers) as there:
        for body in (b"x" * ((1 << 20) + 1), b"x" * (100 << 20)):
            with client_of(there.port) as client:
                said = refusal(lambda c=client, b=body: list(c.call("post", b)))  # type: ignore[misc]
                assert said == f"{len(body):,} bytes are more than 1,048,576"
    assert MAX_MESSAGE_BYTES == 256 << 20


def test_only_so_much_is_read_at_a_time_for_one_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_READING_BYTES", 1000)
    head = REQUEST.pack(4, 900) + b"post"
    with served(Answers()) as there, client_of(there.port) as slow, client_of(there.port) as other:
        slow._socket.sendall(head)
        until(lambda: there._reading[None] == 900)
        said = refusal(lambda: list(other.call("post", pack([b"x" * 196]))))
        assert said == "900 bytes of this caller are being read"
        slow.close()
        until(lambda: not there._reading)


def test_what_was_announced_and_does_not_come_takes_no_memory_and_little_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "READ_TIMEOUT_S", 0.3)
    monkeypatch.setattr(server, "MIN_BYTES_PER_S", 1 << 40)
    with served(Answers()) as there, client_of(there.port) as slow:
        slow._socket.sendall(REQUEST.pack(4, 200 << 20) + b"post" + b"x" * 1000)
        until(lambda: there.listener.refused == {"silent": 1})
        assert not there._reading


def test_a_mistake_of_ours_is_told_here_and_not_there() -> None:
    answers, told = Answers(), Told()
    answers.wrong = KeyError("a secret of ours")
    with served(answers, told=told) as there, client_of(there.port) as client:
        said = refusal(lambda: list(client.call("post", pack([b"x"]))))
        assert said == "something is wrong inside this node"
        assert there.refused == {"KeyError": 1}
    assert told.all[0][1]["level"] == "error"
    assert "a secret of ours" in told.why("refused")[0]


class Called(Token):
    """Says that every caller is the same one."""

    def accept(self, connection: socket.socket, deadline: float) -> str | None:
        super().accept(connection, deadline)
        return "stranger"


def test_a_name_that_the_cluster_does_not_know_gets_nothing() -> None:
    with served(Answers(), access=Called(TOKEN.secret, "b")) as there:
        assert refusal(lambda: client_of(there.port)) == "'stranger' is not of this cluster"
        assert there.listener.refused == {"unidentified": 1}


def test_without_the_token_nothing_is_answered() -> None:
    """Neither end learns anything from another that does not know it."""
    told = Told()
    with served(Answers(), told=told) as there:
        with pytest.raises(Unproven, match="'b' has another token than the state directory"):
            NodeConnection("127.0.0.1", there.port, "b", Token(b"x" * 32))
        until(lambda: len(there.listener) == 0)
        with socket.create_connection(("127.0.0.1", there.port)) as guess:
            guess.sendall(b"\0" * 64)
            assert len(receive(guess, 64, time.monotonic() + 5)) == 64
            said = b"".join(iter(lambda: guess.recv(1000), b""))
            assert said.endswith(b"a caller that does not know the token of this cluster")
    assert {fields["reason"] for _, fields in told.all} == {"unidentified"}


def test_only_a_client_has_an_inbox() -> None:
    with served(Answers()) as there, client_of(there.port) as client:
        for ticket in (b"", b"\xff", msgspec.msgpack.encode("other"), b"\xa1\xff"):
            assert refusal(lambda t=ticket: next(client.call("inbox", t)))  # type: ignore[misc]
        assert sum(there.refused.values()) == 4
        assert ask(client, "hello") == msgspec.to_builtins(Hello(VERSION, "c", "b"))


READER = msgspec.msgpack.encode(("reader", 1))


def test_a_client_that_never_reads_holds_up_nobody() -> None:
    answers = Answers()
    with served(answers) as there, client_of(there.port) as client:
        reading = client_of(there.port)
        reader = reading.call("inbox", READER)
        until(lambda: answers.mailbox._reader > 0)
        began = time.monotonic()
        for _ in range(400):
            answers.mailbox.send(b"x" * 100_000)
        assert time.monotonic() - began < 5
        until(lambda: answers.mailbox.sent > 0)
        time.sleep(0.3)
        box = answers.mailbox
        assert box._bytes <= mailbox.MAX_QUEUED_BYTES
        assert box.dropped > 0
        assert ask(client, "status") == {"node": "b"}
        got = 0
        while got < box.sent + 100 and (messages := unpack(next(reader))):
            got += len(messages)
        reading.close()
        assert got == 400 - box.dropped, "what was not dropped is there when it reads on"


def test_a_server_stops_though_somebody_does_not_let_go() -> None:
    answers = Answers()
    (port,) = free_ports(1)
    with served(answers, port) as there:
        stuck, other = client_of(port), client_of(port)
        stuck.call("inbox", READER)
        until(lambda: answers.mailbox._reader > 0)
        for _ in range(100):
            answers.mailbox.send(b"x" * 100_000)
        answers.blocked.clear()

        def post() -> None:
            with suppress(OSError):
                list(other.call("post", pack([b"x"])))

        threading.Thread(target=post, daemon=True).start()
        time.sleep(0.2)
        began = time.monotonic()
        there.stop()
        assert time.monotonic() - began < server.SHUTDOWN_TIMEOUT_S + 1
        with served(Answers(), port), client_of(port) as client:
            assert ask(client, "status") == {"node": "b"}
