"""A cluster that runs while its ports get what they should not: it goes on, and says so."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from runtime.node.small_cluster import SmallCluster
from runtime.node.test_cluster import check

from australis.kernel.errors import UserError
from australis.kernel.machine import Message
from australis.protocols.dpc.messages import (
    Bucket,
    Heartbeat,
    HeartbeatReply,
    ReconcileRequest,
    Snapshot,
    StableData,
    SubscriptionState,
    TentativeData,
)
from australis.runtime import client as client_module
from australis.runtime.client import Change, ChangeKind, connect
from australis.runtime.node import mailbox
from australis.runtime.node.events import FILE
from australis.runtime.node.families import FAMILIES
from australis.runtime.node.links import pack
from australis.runtime.node.server import ask
from australis.runtime.node.transport import REQUEST, NodeConnection, Refused, sentence_of
from australis.runtime.node.wire import Wire
from australis.runtime.token import read_token

pytestmark = pytest.mark.timeout(120)


def events(c: SmallCluster, node: str, event: str = "") -> list[dict[str, Any]]:
    """What a node has told of one kind, or of all."""
    text = (c.base / c.cluster.state / node / FILE).read_text()
    found = [json.loads(line) for line in text.splitlines()]
    return [line for line in found if event in ("", line["event"])]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    with SmallCluster(tmp_path_factory.mktemp("cluster"), max_delay="10 s") as c:
        c.until(lambda: len(c.stable()) > 3)
        yield c
        check(c)
        assert c.tentative == 0
        assert not c.errors


def goes_on(c: SmallCluster, buckets: int = 5) -> None:
    before = c.stable_upto
    c.until(lambda: c.stable_upto >= before + buckets)
    assert not c.errors


def client_of(c: SmallCluster, node: str = "a") -> NodeConnection:
    """A connection to a node of somebody who knows the token."""
    place = c.cluster.nodes[node]
    return NodeConnection(place.host, place.port, node, read_token(c.base / c.cluster.state))


# --- calls that are wrong ----------------------------------------------------------------------


def post(c: SmallCluster, node: str, *messages: bytes) -> str:
    """What a node says to messages that it does not like."""
    with client_of(c, node) as client:
        with pytest.raises(Refused) as error:
            list(client.call("post", pack(list(messages))))
        return sentence_of(error.value)


def say(sender: str, message: Message, *, to: str = "counts@a", cluster: str = "small") -> bytes:
    return Wire(cluster, FAMILIES).encode(sender, to, message)


HEARTBEAT = Heartbeat(1, 1, ())
WRONG: dict[str, tuple[bytes, str]] = {
    "another cluster": (
        say("reader", HEARTBEAT, cluster="big"),
        "a message for cluster 'big', not for 'small'",
    ),
    "a stranger": (say("stranger", HEARTBEAT), "'stranger' is not of this cluster"),
    "to somebody else": (
        say("counts@a", HEARTBEAT, to="s1"),
        "'s1' does not run on 'a'",
    ),
    "tuples from a client": (
        say("reader", StableData("s1", 0, 0, ())),
        "'reader' may not send StableData to 'counts@a'",
    ),
    "a replica that is a source": (
        say("s1", ReconcileRequest(1)),
        "'s1' may not send ReconcileRequest to 'counts@a'",
    ),
    "a snapshot from a client": (
        say("reader", Snapshot("counts", 1, 0, "reader")),
        "'reader' may not send Snapshot to 'counts@a'",
    ),
    "an unknown stream": (
        say("reader", Heartbeat(1, 1, (SubscriptionState("x", True, True, True, 1, 1, 1, 1),))),
        "of an unknown stream 'x'",
    ),
    "tuples of another schema": (
        say("s1", TentativeData("s1", 1, Bucket(7, 1, pa.record_batch({"x": [1]})))),
        "not a message: ",
    ),
    "a status for a source": (
        say("reader", HeartbeatReply(1, 1, (), 1)),
        "'reader' may not send HeartbeatReply to 'counts@a'",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_message(cluster: SmallCluster, kind: str) -> None:
    data, sentence = WRONG[kind]
    before = cluster.nodes["a"].status()["refused"].get("WireError", 0)
    assert sentence in post(cluster, "a", data)
    assert cluster.nodes["a"].status()["refused"]["WireError"] == before + 1
    if before < 10:
        line = events(cluster, "a", "refused")[-1]
        assert sentence in line["why"]
        assert line["reason"] == "WireError"
        assert line["level"] == "warning"
        assert line["peer"].startswith("127.0.0.1:")


def test_a_newer_version_is_told_and_is_no_attack(cluster: SmallCluster) -> None:
    before = cluster.nodes["a"].status()["refused"]
    newer = [
        msgspec.msgpack.encode([version, "small", "reader", "counts@a", "", None])
        for version in range(9, 1009)
    ]
    sentence = "version 9 of the protocol; this node speaks 2"
    assert post(cluster, "a", *newer) == sentence
    assert cluster.nodes["a"].status()["refused"] == before
    told = events(cluster, "a", "not_spoken")
    assert told[0]["why"] == sentence
    assert told[0]["level"] == "warning"
    assert len(told) < 20
    goes_on(cluster)


def test_a_flood_of_wrong_messages_fills_no_disk(cluster: SmallCluster) -> None:
    before = len(events(cluster, "b", "refused"))
    with client_of(cluster, "b") as client:
        for _ in range(600):
            with suppress(Refused):
                list(client.call("post", b"\x01\x00\x00\x00x"))
    assert cluster.nodes["b"].status()["refused"]["WireError"] >= 600
    told = events(cluster, "b", "refused")[before:]
    assert 10 <= len(told) <= 20
    assert told[-1]["count"] == 512
    goes_on(cluster)


def test_wrong_questions(cluster: SmallCluster) -> None:
    questions = [
        ("reboot", None, "unknown action 'reboot'"),
        ("snapshot", ("counts@b", "counts"), "'counts@b' does not run on 'a'"),
        ("snapshot", ("counts@a", "s1"), "'counts@a' has no output 's1'"),
        ("fault", {"kind": "cut", "node": "moon"}, "'moon' is not another node of this cluster"),
        ("fault", {"kind": "explode", "node": "b"}, "'explode' is not a failure of the network"),
        ("fault", {"kind": "slow", "node": "b"}, "'seconds' should be from 0 to 3600"),
        ("fault", {"kind": "slow", "node": "b", "seconds": float("nan")}, "'seconds' should be"),
        ("fault", {"kind": "slow", "node": "b", "seconds": float("inf")}, "'seconds' should be"),
    ]
    with client_of(cluster) as client:
        for kind, what, sentence in questions:
            with pytest.raises(Refused, match=sentence):
                ask(client, kind, what)
    goes_on(cluster)


# --- bytes that are no call --------------------------------------------------------------------

CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + b"\x07" * 190
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
CHANCE = random.Random(7)
RAW: dict[str, bytes] = {
    "zeros": b"\x00" * 100_000,
    "HTTP/1": b"GET /status HTTP/1.1\r\nHost: a\r\n\r\n" * 100,
    "TLS": CLIENT_HELLO,
    "random": CHANCE.randbytes(100_000),
    "HTTP/2 and then random": PREFACE + SETTINGS + CHANCE.randbytes(50_000),
    "a frame of 16 MB": PREFACE + SETTINGS + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + b"x" * 70_000,
    "headers without end": PREFACE + SETTINGS + (b"\x00\x40\x00\x01\x00\x00\x00\x00\x01" + b"\x40" * 0x4000) * 20,
    "a flood of pings": PREFACE + SETTINGS + (b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + b"x" * 8) * 5_000,
    "a flood of resets": PREFACE + SETTINGS + b"".join(
        b"\x00\x00\x04\x03\x00" + n.to_bytes(4, "big") + b"\x00\x00\x00\x08" for n in range(1, 5000, 2)
    ),
}  # fmt: skip


def throw(c: SmallCluster, node: str, data: bytes) -> None:
    """Send bytes and hang up, whatever the other side makes of them."""
    place = c.cluster.nodes[node]
    with suppress(OSError), socket.create_connection((place.host, place.port), 2) as one:
        one.settimeout(2)
        one.sendall(data)
        one.shutdown(socket.SHUT_WR)
        while one.recv(65536):
            pass


def test_bytes_that_are_no_call(cluster: SmallCluster) -> None:
    for data in RAW.values():
        for node in ("a", "e1"):
            throw(cluster, node, data)
            throw(cluster, node, data[: len(data) // 2])
    for _ in range(100):
        throw(cluster, "b", CHANCE.choice([b"", PREFACE]) + CHANCE.randbytes(CHANCE.randrange(300)))
    goes_on(cluster)


def test_connections_that_say_nothing(cluster: SmallCluster) -> None:
    place = cluster.cluster.nodes["a"]
    held = [socket.create_connection((place.host, place.port), 2) for _ in range(300)]
    for one in held[::2]:
        one.sendall(PREFACE[:10])
    goes_on(cluster)
    for one in held:
        one.close()


def test_calls_that_are_begun_and_given_up(cluster: SmallCluster) -> None:
    ticket = msgspec.msgpack.encode(("guest of nobody", 1))
    for number in range(50):
        with client_of(cluster) as client:
            if number % 2:
                client.call("inbox", ticket)
            else:
                client._socket.sendall((REQUEST.pack(4, 1000) + b"postxxxx")[: number + 1])
    goes_on(cluster)


# --- readers -----------------------------------------------------------------------------------


def test_a_reader_that_never_reads(cluster: SmallCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest fetches nothing of what it asked for; nobody else notices."""
    node = cluster.nodes["a"]
    client = client_of(cluster)
    reading = client_of(cluster)
    stream = reading.call("inbox", msgspec.msgpack.encode(("guest who sleeps", 1)))
    trimmed_upto = node.output("counts").trimmed_upto
    for number in range(1, 100):
        want = SubscriptionState(
            "counts",
            True,
            True,
            True,
            trimmed_upto,
            trimmed_upto,
            trimmed_upto,
            trimmed_upto + 1000,
        )
        beat = say("guest who sleeps", Heartbeat(1, number, (want,)))
        list(client.call("post", pack([beat])))
    goes_on(cluster)
    guest = node._home.router._guests._all["guest who sleeps"].mailbox
    assert guest._bytes <= mailbox.MAX_QUEUED_BYTES
    assert next(stream) is not None
    reading.close()
    client.close()


def follows(next_one: Callable[[float], Change | None], count: int) -> None:
    """It is told what it will not get; behind that, stable tuples come without a gap."""
    first = next_one(20)
    before = (ChangeKind.TENTATIVE, ChangeKind.UNDO)  # where a busy machine is late
    while first is not None and first.kind in before:
        first = next_one(20)
    assert first is not None
    assert first.kind is ChangeKind.SKIPPED
    at, stable = first.bucket, 0
    while stable < count:
        change = next_one(20)
        assert change is not None
        if change.kind is ChangeKind.INSERTION:
            assert change.bucket == at + 1
            stable += 1
        if change.kind in (ChangeKind.INSERTION, ChangeKind.SKIPPED):
            at = change.bucket


def test_a_guest_that_asks_for_what_is_gone(cluster: SmallCluster) -> None:
    c = cluster
    c.until(lambda: c.nodes["a"].output("counts").trimmed_upto > c.nodes["a"].base_bucket + 5)
    with connect(c.path) as connection:
        follows(connection.subscribe("counts", guest=True, after=0).next, 10)


@pytest.mark.parametrize("after", [-2, -(2**70), 1 << 39, 2**70])
def test_a_client_that_asks_for_what_is_no_bucket(cluster: SmallCluster, after: int) -> None:
    with connect(cluster.path) as connection, pytest.raises(UserError, match="is not a bucket"):
        connection.subscribe("counts", after=after)


def test_a_client_that_asks_for_what_is_gone(tmp_path: Path) -> None:
    """Also one whose name stands in the file: logs are kept from where it has been."""
    with SmallCluster(tmp_path, max_delay="10 s") as c:
        c.until(lambda: c.nodes["a"].output("counts").trimmed_upto > c.nodes["a"].base_bucket + 5)
        assert c._subscription is not None
        c._subscription.close()
        with connect(c.path) as connection:
            follows(connection.subscribe("counts", after=0).next, 10)


def test_a_client_that_stops_reading_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it does not take waits in the logs, not in memory, and nothing is lost."""
    monkeypatch.setattr(client_module, "MAX_QUEUED_CHANGES", 3)
    with SmallCluster(tmp_path, max_delay="10 s") as c:
        c.until(lambda: len(c.stable()) > 3)
        heard = c.changes
        c.changes = Stuck(heard)
        waiting = c.nodes["a"].output("counts")
        c.until(lambda: waiting.end - waiting.trimmed_upto > 20)  # its log is kept
        for node in ("a", "b"):
            assert c.nodes[node]._home.router.mailboxes["reader"]._bytes < 1 << 20
            assert c.nodes[node]._driver.overflowed == 0
        assert c._subscription is not None
        assert len(c._subscription._driver._events) < 200
        c.changes.release()
        check(c)
        assert c.tentative == 0


class Stuck(list[Change]):
    """What a client remembers, while it cannot remember more."""

    def __init__(self, before: list[Change]) -> None:
        super().__init__(before)
        self._free = False

    def append(self, change: Change) -> None:
        while not self._free:
            time.sleep(0.01)
        super().append(change)

    def release(self) -> None:
        self._free = True
