"""The port of a node in a process of its own gets what nobody should send: it neither ends nor grows.

AUSTRALIS_FUZZ_S=600 fuzzes for ten minutes; AUSTRALIS_FUZZ_SEED chooses other bytes.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from runtime.node.small_cluster import write_cluster
from runtime.node.test_bad_input import say

from australis.deployment.cluster import NodePlace
from australis.kernel.machine import Message
from australis.node.admission import MAX_UNKNOWN
from australis.node.rights import REQUESTS
from australis.protocols.dpc.messages import (
    Heartbeat,
    HeartbeatReply,
    ReconcileRequest,
    Snapshot,
    StableData,
    SubscriptionState,
)
from australis.runtime.client import load_nodes
from australis.runtime.node.links import pack
from australis.runtime.node.server import ask
from australis.runtime.node.transport import NETWORK_ERRORS, REQUEST, NodeConnection, Refused
from australis.runtime.testbed import NODE
from australis.runtime.token import Token, read_token

pytestmark = pytest.mark.timeout(240 + float(os.environ.get("AUSTRALIS_FUZZ_S", "0")))
FUZZ_S = float(os.environ.get("AUSTRALIS_FUZZ_S", "5"))
SEED = int(os.environ.get("AUSTRALIS_FUZZ_SEED", "7"))
MAX_GROWTH_BYTES = 64 << 20
"""How much the process may grow: it keeps what guests asked for, for a while."""
WANT = SubscriptionState("counts", True, True, True, 1, 1, 1, 1000)
MESSAGES: list[tuple[str, Message]] = [
    ("reader", Heartbeat(1, 1, (WANT,))),
    ("guest 1", Heartbeat(1, 1, (WANT,))),
    ("s1", HeartbeatReply(1, 1, (), 1)),
    ("s1", StableData("s1", 0, 0, ())),
    ("counts@b", ReconcileRequest(1)),
    ("counts@b", Snapshot("counts", 1, 0, "counts@b")),
]


class Target:
    """A node in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], place: NodePlace, token: Token) -> None:
        self.process = process
        self.place = place
        self._token = token

    def connect(self) -> NodeConnection:
        return NodeConnection(self.place.host, self.place.port, "a", self._token)

    def answers(self) -> bool:
        """Whether it lives, and says who it is."""
        assert self.process.poll() is None
        with suppress(*NETWORK_ERRORS), self.connect() as client:
            return bool(ask(client, "hello")["node"] == "a")
        return False

    @property
    def memory(self) -> int:
        """The bytes that it has in memory."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def descriptors(self) -> int:
        """The descriptors that it has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    directory = tmp_path_factory.mktemp("node")
    file = write_cluster(directory)
    cluster, base = load_nodes(file)
    with started(file, directory / "said.txt") as process:
        deadline = time.monotonic() + 150
        while not (base / cluster.state / "token").exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        made = Target(process, cluster.nodes["a"], read_token(base / cluster.state))
        while not made.answers():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield made


@contextmanager
def started(file: Path, said: Path) -> Iterator[subprocess.Popen[bytes]]:
    with said.open("wb") as out:
        process = subprocess.Popen([*NODE, "a", "--cluster", str(file)], stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def changed(chance: random.Random, data: bytes) -> bytes:
    """The bytes with something wrong in them."""
    found = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(found) + 1)
        match chance.randrange(5):
            case 0:
                found[at:at] = chance.randbytes(chance.choice([1, 4, 100]))
            case 1:
                del found[at : at + chance.choice([1, 4, 100])]
            case 2:
                found[at : at + 1] = bytes([chance.randrange(256)])
            case 3:
                found[at : at + 4] = chance.choice([b"\xff" * 4, b"\0" * 4, b"\x91" * 4])
            case 4:
                found += found[at:]
    return bytes(found)


def body(chance: random.Random, kind: str) -> bytes:
    """What belongs to a request, or nearly."""
    match kind:
        case "post":
            some = chance.choices(MESSAGES, k=chance.choice([1, 1, 10]))
            messages = [say(sender, message) for sender, message in some]
            return pack([changed(chance, m) if chance.random() < 0.7 else m for m in messages])
        case "inbox":
            return msgspec.msgpack.encode((chance.choice(["reader", "guest 1", "x"]), 1))
        case "snapshot":
            return msgspec.msgpack.encode(("counts@a", "counts"))
        case "fault":
            return msgspec.msgpack.encode({"kind": chance.choice(["heal", "x"]), "node": "b"})
    return b""


def attempt(chance: random.Random, target: Target) -> None:
    """One connection with some requests, most of them wrong."""
    if chance.random() < 0.2:
        with socket.create_connection((target.place.host, target.place.port), 5) as raw:
            raw.sendall(chance.randbytes(chance.choice([0, 1, 31, 32, 64, 300, 10_000])))
        return
    with target.connect() as client:
        for _ in range(chance.choice([1, 5, 20])):
            kind = chance.choice([*REQUESTS, "x"])
            what = body(chance, kind)
            if chance.random() < 0.3:
                what = changed(chance, what)
            if chance.random() < 0.2:
                name = kind.encode()
                head = changed(chance, REQUEST.pack(len(name), len(what)) + name)
                client._socket.sendall(head + what)
                return
            answer = client.call(kind, what, 2.0)
            if kind == "inbox":
                return
            for _ in answer:
                pass


def test_a_node_neither_ends_nor_grows(target: Target) -> None:
    chance, until = random.Random(SEED), time.monotonic() + FUZZ_S

    def some(until: float, most: int) -> int:
        count = 0
        while time.monotonic() < until and count < most:
            with suppress(*NETWORK_ERRORS):
                attempt(chance, target)
            count += 1
            if count % 100 == 0:
                assert target.answers()
        return count

    some(until, 200)  # what is allocated once, is
    memory, descriptors = target.memory, target.descriptors
    tried = some(max(until, time.monotonic() + 1), 1 << 40)
    assert tried > 0
    time.sleep(0.5)
    assert target.answers()
    assert target.memory - memory < MAX_GROWTH_BYTES
    assert target.descriptors - descriptors < 64
    print(f"{tried} connections, {(target.memory - memory) >> 20} MB more")


def test_silent_connections_take_no_more_descriptors_than_they_may(target: Target) -> None:
    before = target.descriptors
    held = [
        socket.create_connection((target.place.host, target.place.port), 10) for _ in range(600)
    ]
    assert target.descriptors - before <= MAX_UNKNOWN + 8
    assert target.answers()
    for one in held:
        one.close()


def test_nothing_of_a_body_that_is_too_long_is_read(target: Target) -> None:
    assert target.answers()
    before = target.memory
    with (
        target.connect() as client,
        pytest.raises(Refused, match="300,000,000 bytes are more than"),
    ):
        client.call("post", b"x" * 300_000_000)
    assert target.memory - before < 16 << 20
