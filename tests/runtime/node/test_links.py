"""Links, mailboxes and the server of a node, one by one: bounded, in order, never stuck."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runtime.node.small_cluster import free_ports

from australis.kernel.errors import UserError
from australis.runtime.node import links, mailbox, server
from australis.runtime.node.links import Hello, Link, Mismatch, greeted, pack, sentence_of, unpack
from australis.runtime.node.mailbox import Mailbox
from australis.runtime.node.server import NodeServer, ask
from australis.runtime.node.wire import MAX_MESSAGE_BYTES, VERSION, NotSpoken, WireError

pytestmark = pytest.mark.timeout(60)


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

    def knows(self, node: str) -> bool:
        return node != "stranger"

    def receive(self, node: str | None, body: bytes) -> None:
        self.blocked.wait(20)
        if self.wrong is not None:
            raise self.wrong
        if body.startswith(b"bad"):
            raise WireError("not a message")
        if body.startswith(b"newer"):
            raise NotSpoken("version 9 of the protocol")
        self.got.append(body)

    def inbox(self, node: str | None, client: str, incarnation: int) -> Iterable[pa.RecordBatch]:
        if client != "reader":
            raise WireError(f"'{client}' is not a client of this cluster")
        return self.mailbox.read(incarnation)

    def status(self) -> dict[str, Any]:
        return {"node": self.name}

    def snapshot(self, node: str | None, machine: str, stream: str) -> tuple[int, Path]:
        raise WireError("there is none")

    def fault(self, what: dict[str, Any]) -> str:
        raise UserError("does not allow injected faults", name="c")


@contextmanager
def served(
    answers: Any, port: int = 0, told: Told | None = None, **how: Any
) -> Iterator[NodeServer]:
    made = NodeServer(answers, f"grpc://127.0.0.1:{port}", tell=told or Told(), **how)
    made.start()
    try:
        yield made
    finally:
        if hasattr(answers, "blocked"):
            answers.blocked.set()
        made.stop()


def client_of(port: int) -> fl.FlightClient:
    return fl.connect(f"grpc://127.0.0.1:{port}")


def until(what: Callable[[], bool], timeout_s: float = 15.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def linked(port: int, told: Told | None = None, hello: bool = True) -> Iterator[Link]:
    def connect() -> fl.FlightClient:
        return greeted(client_of(port), "c", "b") if hello else client_of(port)

    link = Link("b", connect, told or Told())
    try:
        yield link
    finally:
        link.close()


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(fl.FlightServerError) as error:
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
    errors: list[Exception] = [pa.ArrowKeyError("x"), KeyError(1), NotImplementedError(), OSError()]

    def connect() -> fl.FlightClient:
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


class Impostor(fl.FlightServerBase):
    """Answers `hello` with whatever it is given."""

    def __init__(self, *results: bytes) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self.results = results
        self.asked: list[str] = []

    def do_action(self, context: Any, action: fl.Action) -> Iterable[bytes]:
        self.asked.append(action.type)
        if action.type == "hello":
            return list(self.results)
        return []


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


def test_another_service_is_no_node() -> None:
    class Other(fl.FlightServerBase):
        pass

    with Other("grpc://127.0.0.1:0") as there, pytest.raises(Mismatch, match="not say who it is"):
        greeted(client_of(there.port), "c", "b")


# --- mailboxes ---------------------------------------------------------------------------------


def open_box(box: Mailbox) -> Iterator[pa.RecordBatch]:
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
    assert [len(m.as_py()) for m in next(stream).column(0)] == [5000]
    box.send(b"z")
    assert next(stream).column(0).to_pylist() == [b"z"]


def test_messages_are_written_in_small_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "MAX_BATCH_BYTES", 100)
    box = Mailbox()
    stream = open_box(box)
    sent = [str(i).encode() * 20 for i in range(50)]
    for message in sent:
        box.send(message)
    got: list[bytes] = []
    while len(got) < len(sent):
        lot = next(stream).column(0).to_pylist()
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
    assert next(new).column(0).to_pylist() == [b"for the new one"]
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
        assert refusal(lambda: list(client.do_action(fl.Action("post", body)))) == "not a message"
        assert answers.got == [b"one", b"two", b"three"]
        assert there.refused == {"WireError": 2}
    assert told.names() == ["refused", "refused"]
    fields = told.all[0][1]
    assert fields["reason"] == "WireError"
    assert fields["peer"].startswith("ipv4:127.0.0.1:")


def test_after_so_many_wrong_ones_the_rest_is_not_looked_at() -> None:
    answers = Answers()
    with served(answers) as there, client_of(there.port) as client:
        body = pack([b"bad"] * 1000 + [b"good"])
        refusal(lambda: list(client.do_action(fl.Action("post", body))))
        assert there.refused == {"WireError": server.MAX_BAD_MESSAGES}
        assert answers.got == []


def test_messages_of_another_version_are_not_counted_as_wrong_ones() -> None:
    answers, told = Answers(), Told()
    with served(answers, told=told) as there, client_of(there.port) as client:
        body = pack([b"newer"] * 2 * server.MAX_BAD_MESSAGES + [b"good"])
        said = refusal(lambda: list(client.do_action(fl.Action("post", body))))
        assert said == "version 9 of the protocol"
        assert answers.got == [b"good"]
        assert not there.refused
    assert set(told.names()) == {"not_spoken"}


@pytest.mark.parametrize(
    ("kind", "body", "sentence"),
    [
        ("reboot", b"", "unknown action 'reboot'"),
        ("x" * 5000, b"", "unknown action"),
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
        said = refusal(lambda: list(client.do_action(fl.Action(kind, body))))
        assert sum(there.refused.values()) == 1
        assert ask(client, "status") == {"node": "b"}
    assert sentence in said or said == "something is wrong inside this node"
    assert "Traceback" not in said
    assert sentence in told.why("refused")[0]


def test_a_body_may_be_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_MESSAGE_BYTES", 1 << 20)
    with served(Answers()) as there, client_of(there.port) as client:
        body = b"x" * ((1 << 20) + 1)
        said = refusal(lambda: list(client.do_action(fl.Action("post", body))))
        assert said == "1,048,577 bytes are more than 1,048,576"
    assert MAX_MESSAGE_BYTES == 256 << 20


def test_other_calls_are_refused() -> None:
    where = fl.FlightDescriptor.for_path("x")
    empty = pa.schema([])

    def put(client: fl.FlightClient) -> None:
        writer, _ = client.do_put(where, empty)
        writer.close()

    calls: list[Callable[[fl.FlightClient], object]] = [
        lambda client: list(client.list_flights()),
        lambda client: client.get_flight_info(where),
        lambda client: client.get_schema(where),
        put,
        lambda client: client.do_exchange(where)[1].read_chunk(),
    ]
    with served(Answers()) as there, client_of(there.port) as client:
        for call in calls:
            with pytest.raises(pa.ArrowException, match="a node does not answer"):
                call(client)
        assert there.refused == {"WireError": len(calls)}
        assert ask(client, "hello") == msgspec.to_builtins(Hello(VERSION, "c", "b"))


def test_a_mistake_of_ours_is_told_here_and_not_there() -> None:
    answers, told = Answers(), Told()
    answers.wrong = KeyError("a secret of ours")
    with served(answers, told=told) as there, client_of(there.port) as client:
        said = refusal(lambda: list(client.do_action(fl.Action("post", pack([b"x"])))))
        assert said == "something is wrong inside this node"
        assert there.refused == {"KeyError": 1}
    assert told.all[0][1]["level"] == "error"
    assert "a secret of ours" in told.why("refused")[0]


def test_a_name_that_the_cluster_does_not_know_gets_nothing() -> None:
    answers = Answers()
    with served(answers, identify=lambda context: "stranger") as there:
        client = client_of(there.port)
        for kind in ("hello", "status", "post", "snapshot", "fault"):
            said = refusal(lambda kind=kind: list(client.do_action(fl.Action(kind, b""))))  # type: ignore[misc]
            assert said == "'stranger' is not of this cluster"
        ticket = fl.Ticket(msgspec.msgpack.encode(("reader", 1)))
        assert "'stranger'" in refusal(lambda: client.do_get(ticket).read_chunk())
        assert there.refused == {"WireError": 6}


def test_only_a_client_has_an_inbox() -> None:
    with served(Answers()) as there, client_of(there.port) as client:
        for ticket in (b"", b"\xff", msgspec.msgpack.encode("other"), b"\xa1\xff"):
            assert refusal(lambda t=ticket: client.do_get(fl.Ticket(t)).read_chunk())  # type: ignore[misc]
        assert sum(there.refused.values()) == 4


def test_a_client_that_never_reads_holds_up_nobody() -> None:
    answers = Answers()
    with served(answers) as there, client_of(there.port) as client:
        reader = client.do_get(fl.Ticket(msgspec.msgpack.encode(("reader", 1))))
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
        while got < box.sent + 100 and (chunk := reader.read_chunk()).data.num_rows:
            got += chunk.data.num_rows
        assert got == 400 - box.dropped, "what was not dropped is there when it reads on"


def test_a_server_stops_though_somebody_does_not_let_go() -> None:
    answers = Answers()
    (port,) = free_ports(1)
    with served(answers, port) as there:
        stuck = client_of(port)
        stuck.do_get(fl.Ticket(msgspec.msgpack.encode(("reader", 1))))
        until(lambda: answers.mailbox._reader > 0)
        for _ in range(100):
            answers.mailbox.send(b"x" * 100_000)
        answers.blocked.clear()
        post = fl.Action("post", pack([b"x"]))
        threading.Thread(target=lambda: list(stuck.do_action(post)), daemon=True).start()
        time.sleep(0.2)
        began = time.monotonic()
        there.stop()
        assert time.monotonic() - began < server.SHUTDOWN_TIMEOUT_S + 1
        with served(Answers(), port), client_of(port) as client:
            assert ask(client, "status") == {"node": "b"}
