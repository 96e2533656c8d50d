"""The mistakes between a cluster and its diagram, and what a right pair becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from australis.catalog.check import check
from australis.catalog.cluster import Cluster
from australis.catalog.text import load
from australis.diagram.model import Diagram
from australis.diagram.text import load as load_diagram
from australis.kernel.errors import UserError
from australis.protocols.dpc.topology import ClientConfig, Topology, deploy

EXAMPLES = Path(__file__).parents[2] / "examples"
DIAGRAM = load_diagram(
    """
diagram: d
sources:
  s1: {push: true, schema: v int}
  s2: {push: true, schema: v int}
operators:
  merged: {union: [s1, s2]}
  high: {filter: merged, where: v > 5}
  low: {filter: merged, where: v < 2}
outputs: [high, low]
fragments:
  merge: [merged]
  parts: [high, low]
""",
    "d.yaml",
)
CLUSTER = """\
cluster: c
diagram: d.yaml
nodes:
  a: {address: "localhost:1"}
  b: {address: "localhost:2"}
replicas:
  merge: [a, b]
  parts: [b]
sources:
  s1: a
  s2: b
clients:
  me: {stream: high}
  you: {stream: high}
"""


def placed(cluster: Cluster, diagram: Diagram) -> Topology:
    """What runs where, once nothing is wrong."""
    check(cluster, diagram)
    return deploy(diagram, cluster.machines, cluster.readers)


def example() -> tuple[Cluster, Diagram]:
    """The cluster file of the examples with its diagram."""
    path = EXAMPLES / "cluster.yaml"
    cluster = load(path.read_text(encoding="utf-8"), str(path))
    of_diagram = EXAMPLES / cluster.diagram_path
    return cluster, load_diagram(of_diagram.read_text(encoding="utf-8"), str(of_diagram))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("  merge: [a, b]\n", "", "6: 'merge' is a fragment of the diagram but on no node"),
        ("parts: ", "part: ", "8: 'part' is not a fragment of the diagram (did you mean 'parts'?)"),
        ("parts: ", "high: ", "8: 'high' is not a fragment of the diagram (known: merge, parts)"),
        ("  s2: b\n", "", "9: 's2' is a source of the diagram but on no node"),
        ("s2: b", "s22: b", "11: 's22' is not a source of the diagram (did you mean 's2'?)"),
        ("s2: b", "merge: b", "11: 'merge' is not a source of the diagram (known: s1, s2)"),
        (
            "me: {stream: high}",
            "me: {stream: hgh}",
            "13: 'me' reads 'hgh', which is not a result of the diagram (did you mean 'high'?)",
        ),
        (
            "you: {stream: high}",
            "you: {stream: merged}",
            "14: 'you' reads 'merged', which is not a result of the diagram (known: high, low)",
        ),
        (
            "you: {stream: high}",
            "you: {stream: s1}",
            "14: 'you' reads 's1', which is not a result of the diagram (known: high, low)",
        ),
    ],
)
def test_mistakes_against_the_diagram(old: str, new: str, sentence: str) -> None:
    assert old in CLUSTER
    cluster = load(CLUSTER.replace(old, new), "c.yaml")
    with pytest.raises(UserError) as caught:
        check(cluster, DIAGRAM)
    assert str(caught.value) == f"c.yaml:{sentence}"


def test_machines_are_called_by_fragment_and_node() -> None:
    topology = placed(load(CLUSTER, "c.yaml"), DIAGRAM)
    assert [r.name for r in topology.replicas] == ["merge@a", "merge@b", "parts@b"]
    merge, other, parts = topology.replicas
    assert (merge.peers, other.peers, parts.peers) == (("merge@b",), ("merge@a",), ())
    assert parts.producers == {"merged": ("merge@a", "merge@b")}
    assert topology.sources == {"s1": ("merge@a", "merge@b"), "s2": ("merge@a", "merge@b")}
    assert merge.outputs[0].consumers == ("parts@b for high", "parts@b for low")


def test_a_result_has_as_many_clients_as_are_named() -> None:
    topology = placed(load(CLUSTER, "c.yaml"), DIAGRAM)
    assert topology.clients == (
        ClientConfig("me", "high", ("parts@b",)),
        ClientConfig("you", "high", ("parts@b",)),
    )
    consumers = {o.stream: o.consumers for o in topology.replicas[-1].outputs}
    assert consumers == {"high": ("me", "you"), "low": ()}


def test_the_example_runs_on_its_nodes() -> None:
    topology = placed(*example())
    assert [r.name for r in topology.replicas] == ["suspects@a", "suspects@b"]
    assert topology.sources == dict.fromkeys(
        ("site0", "site1", "site2"), ("suspects@a", "suspects@b")
    )
    assert topology.clients == (
        ClientConfig("dashboard", "suspects", ("suspects@a", "suspects@b")),
    )
