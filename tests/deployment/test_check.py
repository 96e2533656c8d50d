"""The mistakes between a cluster and its diagram, and what a right pair becomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from australis.deployment.check import check
from australis.deployment.cluster import Cluster
from australis.deployment.cluster_file import load
from australis.diagram.diagram_file import load as load_diagram
from australis.diagram.model import Diagram
from australis.kernel.durations import SECOND
from australis.kernel.errors import UserError
from australis.protocols.dpc.options import Lease, LogBounds, Policy, WhenFull
from australis.protocols.dpc.topology import ClientConfig, Topology, deploy, dpc_options

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
    return deploy(diagram, cluster.machines, cluster.readers, hedged=cluster.hedged)


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
        (
            "clients:\n  me: {stream: high}",
            "clients:\n  me: {stream: high, hedge: 2}",
            "13: 'me' follows two replicas of 'high', which has one only",
        ),
        (
            "clients:",
            "results:\n  merged: {max_delay: 2 s}\nclients:",
            "13: 'merged' is not a result of the diagram (known: high, low)",
        ),
        (
            "clients:",
            "policies: {up_failure: suspend}\nresults:\n  low: {tentative: never}\nclients:",
            "14: 'low' is promised something of its own, but with 'up_failure: suspend' no result is"
            " ever tentative",
        ),
        (
            "clients:",
            "log:\n  max: 1 GB\n  streams: {hihg: {max: 2 GB}}\nclients:",
            "14: 'log' has an unknown stream 'hihg' (did you mean 'high'?)",
        ),
        (
            "  merge: [a, b]\n  parts: [b]",
            "  merge: [a]\n  parts: [b]\npolicies: {staggered: true}",
            "9: 'policies' has 'staggered' without effect: no fragment has two replicas",
        ),
        (
            "merge: [a, b]\n  parts: [b]",
            "merge: [a]\n  parts: [a, b]\npolicies: {hedged: true}",
            "9: 'policies' has 'hedged' without effect: no fragment reads from another one with two"
            " replicas",
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


def test_choices_become_options() -> None:
    text = CLUSTER.replace("parts: [b]", "parts: [a, b]").replace(
        "me: {stream: high", "me: {stream: high, hedge: 2"
    )
    text += """\
policies: {up_failure: delay, stabilization: suspend, staggered: true, hedged: true}
results: {high: {max_delay: 1 s}, low: {tentative: never}}
"""
    cluster = load(text, "c.yaml")
    topology = placed(cluster, DIAGRAM)
    assert [client.hedged for client in topology.clients] == [True, False]
    options = dpc_options(cluster, DIAGRAM)
    assert (options.up_failure, options.stabilization) == (Policy.DELAY, Policy.SUSPEND)
    assert (options.staggered, options.hedged) == (True, True)
    assert [options.delay_of(r) for r in ("high", "low", "other")] == [SECOND, None, 3 * SECOND]
    merge, *_, parts = topology.replicas
    high, low = parts.outputs
    assert merge.outputs[0].results == {"high": 2, "low": 2}
    patience = [o.patience_us(options) for o in (merge.outputs[0], high, low)]
    assert patience == [SECOND - 2 * options.hop_us, SECOND - options.hop_us, None]
    assert options.hop_us == SECOND // 4, "two hops take half of the shortest delay"


def test_bounds_of_logs_become_options() -> None:
    text = (
        CLUSTER
        + """\
log:
  keep: 1 min
  max: 2 GB
  full: skip
  streams: {high: {max: 20 buckets}, s1: {keep: 0 s, full: wait}}
leases: {clients: 2 d, replicas: 1 h}
"""
    )
    cluster = load(text, "c.yaml")
    check(cluster, DIAGRAM)
    options = dpc_options(cluster, DIAGRAM)
    minute_us, skip = 60 * SECOND, WhenFull.SKIP
    assert options.bounds_of("low") == LogBounds(minute_us, None, 2 * 10**9, skip)
    assert options.bounds_of("high") == LogBounds(minute_us, 20, None, skip)
    assert options.bounds_of("s1") == LogBounds(0, None, 2 * 10**9, WhenFull.WAIT)
    assert options.leases["me"] == Lease(2 * 86_400 * SECOND)
    assert options.leases["merge@a"] == Lease(3600 * SECOND, ("merge@b",))


def test_by_default_logs_have_no_bounds_and_clients_a_day() -> None:
    options = dpc_options(load(CLUSTER, "c.yaml"), DIAGRAM)
    assert not options.bounded
    assert options.leases["you"] == Lease(86_400 * SECOND)
    assert options.leases["parts@b"] == Lease(None, ()), "nobody else has its state"


def test_a_delay_of_a_result_that_is_too_short() -> None:
    cluster = load(CLUSTER + "results:\n  high: {max_delay: 700 ms}\n", "c.yaml")
    with pytest.raises(UserError) as caught:
        dpc_options(cluster, DIAGRAM)
    assert str(caught.value).startswith("c.yaml:16: 'a delay of 700 ms' is too short for the heart")


def test_the_example_runs_on_its_nodes() -> None:
    topology = placed(*example())
    assert [r.name for r in topology.replicas] == ["suspects@a", "suspects@b"]
    assert topology.sources == dict.fromkeys(
        ("site0", "site1", "site2"), ("suspects@a", "suspects@b")
    )
    assert topology.clients == (
        ClientConfig("dashboard", "suspects", ("suspects@a", "suspects@b")),
    )
