"""What the holder of a certificate may ask and read."""

from __future__ import annotations

import pytest

from australis.deployment.cluster_file import load
from australis.node.rights import REQUESTS, Rights
from australis.runtime.node.transport import MAX_KIND_BYTES

FILE = """
cluster: c
diagram: d.yaml
nodes: {a: {address: "127.0.0.1:7001"}, b: {address: "127.0.0.1:7002"}}
replicas: {f: [a, b]}
sources: {s: a}
clients:
  all: {stream: f}
  few: {stream: f, reads: [s]}
"""


ANY = ("hello", "status", "post", "inbox", "definition")


def rights(more: str = "") -> Rights:
    return Rights(load(FILE + more, "c.yaml"))


@pytest.mark.parametrize("request_", REQUESTS)
def test_who_knows_the_token_may_do_everything(request_: str) -> None:
    assert rights().why_not(None, request_) == ""
    assert len(request_) <= MAX_KIND_BYTES


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("a", {*ANY, "snapshot", "define"}),
        ("all", {*ANY}),
        ("operator", {*ANY, "fault", "change", "drain", "submit", "withdraw"}),
        ("stranger", set()),
    ],
)
def test_what_each_role_may_ask(name: str, allowed: set[str]) -> None:
    found = rights()
    assert {r for r in REQUESTS if not found.why_not(name, r)} == allowed
    assert found.knows(name) is bool(allowed)


def test_operators_are_those_of_the_file() -> None:
    named = rights("operators: [ann, b]\n")
    assert not named.why_not("ann", "fault")
    assert not named.why_not("b", "fault")
    assert not named.why_not("b", "snapshot"), "it is a node all the same"
    assert named.why_not("operator", "fault") == (
        "'operator' may not ask for 'fault': it is not an operator of this cluster"
    )
    assert rights("operators: []\n").why_not("operator", "fault")


def test_a_node_that_is_called_operator_is_none() -> None:
    text = FILE.replace("b: {", "operator: {").replace("[a, b]", "[a, operator]")
    assert Rights(load(text, "c.yaml")).why_not("operator", "fault")


def test_a_client_reads_the_streams_of_its_list() -> None:
    found = rights()
    for name in ("all", "a", "operator", None):
        assert found.may_read(name, "s")
        assert found.may_read(name, "f")
        assert found.may_read(name, "x")
    assert found.may_read("few", "s")
    assert found.may_read("few", "f")
    assert not found.may_read("few", "x")
    assert found.may_read("all", "x", "app")
    assert not found.may_read("few", "s", "app"), "that is app.s"


def test_unknown_requests() -> None:
    assert rights().why_not(None, "reboot") == "unknown action 'reboot'"
