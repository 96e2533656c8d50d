"""A cluster with certificates: it works, and who has none, or another's, gets nothing."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from runtime.node.small_cluster import SmallCluster
from runtime.node.test_bad_input import events, goes_on, say
from runtime.node.test_cluster import check

from australis.deployment.cluster_file import load as load_cluster_text
from australis.kernel.errors import AustralisError, Stopped, UserError
from australis.protocols.dpc.messages import (
    Heartbeat,
    ReconcileRequest,
    StableData,
    SubscriptionState,
)
from australis.runtime import client as client_module
from australis.runtime.certs import Credentials, issue, load
from australis.runtime.client import connect
from australis.runtime.node.links import connect as connect_to
from australis.runtime.node.links import pack
from australis.runtime.node.process import Node
from australis.runtime.node.server import ask
from australis.runtime.node.snapshots import fetch
from australis.runtime.node.transport import NodeConnection, Refused, sentence_of
from australis.runtime.sockets import Access
from australis.runtime.token import Token, Unproven

pytestmark = pytest.mark.timeout(120)
HEARTBEAT = Heartbeat(1, 1, ())
FEW = "  few: {stream: counts, reads: [s2]}\n"
"""A client that may read some streams only."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallCluster]:
    with SmallCluster(tmp_path_factory.mktemp("tls"), max_delay="10 s", tls=True, clients=FEW) as c:
        c.until(lambda: len(c.stable()) > 3)
        yield c
        check(c)
        assert c.tentative == 0
        assert not c.errors


def credentials(c: SmallCluster, name: str) -> Credentials:
    return load(c.base / "certs", c.base / "certs" / "ca.pem", name)


def client_of(c: SmallCluster, name: str, node: str = "a") -> NodeConnection:
    """A connection to a node with somebody's certificate."""
    return connect_to(c.cluster, node, credentials(c, name))


def refused(c: SmallCluster, call: Callable[[], object], node: str = "a") -> str:
    """What a node says, once; it has counted it."""
    before = c.nodes[node].status()["refused"].get("WireError", 0)
    with pytest.raises(Refused) as error:
        call()
    assert c.nodes[node].status()["refused"]["WireError"] == before + 1
    return sentence_of(error.value)


def test_it_works(cluster: SmallCluster) -> None:
    goes_on(cluster)
    started = events(cluster, "a", "started")
    assert started[0]["tls"] is True
    assert {e["peer"] for e in events(cluster, "a", "link_up")} >= {"e1", "e2"}
    with client_of(cluster, "reader") as client:
        assert ask(client, "status")["node"] == "a"


# --- somebody of the cluster, in another's name ----------------------------------------------


@pytest.mark.parametrize(
    ("name", "sender", "sentence"),
    [
        ("a", "counts@b", "'a' may not speak for 'counts@b'"),
        ("e1", "s2", "'e1' may not speak for 's2'"),
        ("reader", "counts@b", "'reader' may not speak for 'counts@b'"),
        ("e1", "reader", "'e1' may not speak for 'reader'"),
    ],
)
def test_nobody_speaks_for_another(
    cluster: SmallCluster, name: str, sender: str, sentence: str
) -> None:
    message = say(sender, ReconcileRequest(1) if "@" in sender else HEARTBEAT)
    with client_of(cluster, name) as client:
        body = pack([message])
        said = refused(cluster, lambda: list(client.call("post", body)))
    assert said == sentence
    assert events(cluster, "a", "refused")[-1]["why"] == sentence
    goes_on(cluster, 1)


def test_a_client_says_only_what_clients_say(cluster: SmallCluster) -> None:
    with client_of(cluster, "reader") as client:
        body = pack([say("reader", StableData("s1", 0, 0, ()))])
        said = refused(cluster, lambda: list(client.call("post", body)))
    assert said == "'reader' may not send StableData to 'counts@a'"


def test_nobody_reads_what_is_for_another(cluster: SmallCluster) -> None:
    ticket = msgspec.msgpack.encode(("reader", 1))
    with client_of(cluster, "e1") as client:
        said = refused(cluster, lambda: next(client.call("inbox", ticket)))
    assert said == "'e1' may not read what is for 'reader'"
    goes_on(cluster, 1)


def test_the_state_of_a_replica_is_for_replicas(cluster: SmallCluster, tmp_path: Path) -> None:
    what = ("counts@a", "counts")
    for name, sentence in (
        ("reader", "'reader' may not ask for 'snapshot': it is not a node of this cluster"),
        ("operator", "'operator' may not ask for 'snapshot': it is not a node of this cluster"),
        ("e1", "'e1' may not have the state of 'counts@a'"),
    ):
        with client_of(cluster, name) as client:
            said = refused(cluster, lambda client=client: ask(client, "snapshot", what))  # type: ignore[misc]
            assert said == sentence
    with client_of(cluster, "b") as client:
        assert fetch(client, *what, tmp_path / "fetched", 10) > 0
    assert list((tmp_path / "fetched").iterdir())


def test_a_process_that_leaves_its_subscription_open_ends_well(cluster: SmallCluster) -> None:
    program = (
        "import sys; import australis as au\n"
        "s = au.connect(sys.argv[1], identity='b').subscribe('counts', guest=True)\n"
        "assert s.next(20) is not None\n"
    )
    command = [sys.executable, "-c", program, str(cluster.path)]
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_subscription_with_another_name_is_told_why(cluster: SmallCluster) -> None:
    with connect(cluster.path, identity="e1") as connection:
        subscription = connection.subscribe("counts")
        with pytest.raises(Stopped, match=r"'e1' may not (read what is|speak) for 'reader'"):
            subscription.next(20)
        with pytest.raises(Stopped, match="refuses"):
            subscription.next()
    goes_on(cluster, 1)


# --- somebody else ---------------------------------------------------------------------------


def test_a_certificate_of_this_authority_for_a_name_not_in_the_file(
    cluster: SmallCluster, tmp_path: Path
) -> None:
    issue(cluster.base / "certs", {"stranger": ()})
    with pytest.raises(Refused, match="'stranger' is not of this cluster"):
        client_of(cluster, "stranger")
    assert "'stranger' is" in events(cluster, "a", "connection_refused")[-1]["why"]
    goes_on(cluster, 1)


def fails(cluster: SmallCluster, access: Access, node: str = "a") -> str:
    """Why no connection with this certificate to a node comes about."""
    place = cluster.cluster.nodes["a"]
    with pytest.raises((OSError, Unproven)) as error:
        NodeConnection(place.host, place.port, node, access)
    return str(error.value)


def test_a_certificate_of_another_authority(cluster: SmallCluster, tmp_path: Path) -> None:
    issue(tmp_path, {"reader": ()})
    other = load(tmp_path, tmp_path / "ca.pem", "reader")
    # It does not believe the node ...
    assert "certificate verify failed" in fails(cluster, other)
    # ... and if it does, the node does not believe it.
    right = credentials(cluster, "reader")
    mixed = Credentials("reader", right.ca_pem, other.certificate_pem, other.key_pem)
    assert "unknown ca" in fails(cluster, mixed)
    assert "certificate verify failed" in events(cluster, "a", "connection_refused")[-1]["why"]
    goes_on(cluster, 1)


class Bare:
    """TLS of a client that shows no certificate."""

    def __init__(self, ca_pem: bytes) -> None:
        self._context = ssl.create_default_context(cadata=ca_pem.decode())

    def wrap(self, connection: socket.socket, node: str | None) -> socket.socket:
        return self._context.wrap_socket(connection, server_hostname=node)

    def connect(self, connection: socket.socket, node: str, deadline: float) -> None:
        pass

    def accept(self, connection: socket.socket, deadline: float) -> str | None:
        raise NotImplementedError


def test_no_certificate_at_all(cluster: SmallCluster) -> None:
    bare = Bare(credentials(cluster, "reader").ca_pem)
    assert "certificate required" in fails(cluster, bare)
    assert fails(cluster, Token(b"x" * 32))
    goes_on(cluster, 1)


def test_a_node_in_the_place_of_another(cluster: SmallCluster) -> None:
    """A client, or a node, that wants b does not talk to a, whatever the address says."""
    said = fails(cluster, credentials(cluster, "reader"), "b")
    assert "Hostname mismatch, certificate is not valid for 'b'" in said


# --- who may do what -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reader", "e1", "b"])
def test_only_operators_inject_faults(cluster: SmallCluster, name: str) -> None:
    what = {"kind": "cut", "node": "reader"}
    with client_of(cluster, name) as client:
        said = refused(cluster, lambda: ask(client, "fault", what))
    assert said == f"'{name}' may not ask for 'fault': it is not an operator of this cluster"
    goes_on(cluster, 1)


def test_a_fault_says_who_injected_it(cluster: SmallCluster) -> None:
    with client_of(cluster, "operator") as client:
        ask(client, "fault", {"kind": "heal", "node": "b"})
    assert events(cluster, "a", "fault")[-1]["by"] == "operator"


def test_a_client_reads_the_streams_of_its_list_only(cluster: SmallCluster) -> None:
    def wants(stream: str, to: str) -> bytes:
        want = SubscriptionState(stream, True, True, False, 1, 1, 1, 1000)
        return pack([say("guest of few", Heartbeat(1, 1, (want,)), to=to)])

    with client_of(cluster, "few", "e1") as client:
        body = wants("s1", "s1")
        said = refused(cluster, lambda: list(client.call("post", body)), "e1")
    assert said == "'few' may not read 's1' ('reads' of the client)"
    with client_of(cluster, "few", "e2") as client:
        assert list(client.call("post", wants("s2", "s2"))) == []
    with client_of(cluster, "few", "a") as client:
        assert list(client.call("post", wants("counts", "counts@a"))) == [], "its own stream"
    with connect(cluster.path, identity="few") as connection:
        subscription = connection.subscribe("s1", guest=True)
        with pytest.raises(Stopped, match="'few' may not read 's1'"):
            subscription.next(20)


def test_bytes_that_are_no_handshake(cluster: SmallCluster) -> None:
    place = cluster.cluster.nodes["a"]
    hello = ssl.create_default_context()
    for data in (
        b"\x00" * 10_000,
        b"GET / HTTP/1.1\r\n\r\n",
        bytes.fromhex("1603010200") * 99,
        b"",
    ):
        with suppress(OSError), socket.create_connection((place.host, place.port), 2) as one:
            one.settimeout(1)
            one.sendall(data)
            one.shutdown(socket.SHUT_WR)
            one.recv(1000)
    with (
        suppress(OSError),
        socket.create_connection((place.host, place.port), 2) as one,
        hello.wrap_socket(one, server_hostname="a"),
    ):
        pytest.fail("a client that trusts the world's authorities trusts this one")
    goes_on(cluster, 1)


def test_a_subscription_that_nobody_answers_says_why(
    cluster: SmallCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "START_TIMEOUT_S", 0.5)
    issue(tmp_path / "certs", {"reader": ()})
    for file in ("cluster.yaml", "diagram.yaml"):
        (tmp_path / file).write_bytes((cluster.base / file).read_bytes())
    with connect(tmp_path / "cluster.yaml") as connection:
        with pytest.raises(UserError, match=r"none of its nodes answers .*certificate") as error:
            connection.subscribe("counts")
        assert "\n" not in str(error.value)


# --- at the start ------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> SmallCluster:
    """A cluster that has not been started."""
    return SmallCluster(tmp_path, tls=True)


def start(c: SmallCluster, name: str = "a") -> str:
    """Why a node does not start, in one sentence."""
    node = Node(c.cluster, c.diagram, name, base=c.base)
    with pytest.raises(AustralisError) as error:
        node.start()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_an_expired_certificate_is_refused_at_the_start(files: SmallCluster) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=800)
    for path in (files.base / "certs").iterdir():
        path.unlink()
    issue(files.base / "certs", {"a": (), "reader": ()}, now=long_ago)
    assert "a.pem' expired at " in start(files)
    assert start(files).endswith("make another with `australis certs --renew`")
    with connect(files.path) as connection, pytest.raises(UserError, match=r"reader.pem' expired"):
        connection.subscribe("counts")


def test_a_certificate_of_another_authority_is_refused_at_the_start(
    files: SmallCluster, tmp_path: Path
) -> None:
    issue(tmp_path / "other", {"a": ()})
    for file in ("a.pem", "a.key"):
        (files.base / "certs" / file).write_bytes((tmp_path / "other" / file).read_bytes())
    assert "a.pem' is not signed by " in start(files)


def test_a_missing_certificate_is_refused_at_the_start(files: SmallCluster) -> None:
    (files.base / "certs" / "a.key").unlink()
    assert "a.key' does not exist; see `australis certs --help`" in start(files)


def test_without_certificates_only_this_machine_is_served(files: SmallCluster) -> None:
    text = files.path.read_text().replace("127.0.0.1", "10.0.0.1", 1)
    assert load_cluster_text(text, "c.yaml").nodes["a"].host == "10.0.0.1"
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("tls:"))
    with pytest.raises(UserError, match="without 'tls' only loopback addresses are allowed"):
        load_cluster_text(plain, "c.yaml")
