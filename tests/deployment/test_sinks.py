"""Where the sinks of a diagram run in a cluster, and where they write."""

from __future__ import annotations

import pytest

from australis.deployment.check import check
from australis.deployment.cluster import Cluster
from australis.deployment.cluster_file import load
from australis.deployment.sinks import placed, readers, sink_places
from australis.diagram.diagram_file import load as load_diagram
from australis.kernel.errors import UserError

DIAGRAM = load_diagram(
    """
diagram: d
sources:
  s: {push: true, schema: v int}
operators:
  high: {filter: s, where: v > 5}
  low: {filter: s, where: v < 2}
fragments: {one: [high], two: [low]}
sinks:
  highs: {from: high, jsonl: out/high.jsonl}
  lows: {from: low, parquet: out/low}
  shown: {from: low, console: true}
""",
    "d.yaml",
)
CLUSTER = """\
cluster: c
diagram: d.yaml
nodes:
  a: {address: "localhost:1"}
  b: {address: "localhost:2"}
  e: {address: "localhost:3"}
replicas: {one: [a, b], two: [b, a]}
sources: {s: e}
clients: {me: {stream: high}}
"""


def cluster(sinks: str = "") -> Cluster:
    made = load(CLUSTER + (f"sinks: {sinks}\n" if sinks else ""), "c.yaml")
    check(made, DIAGRAM)
    return made


def test_a_sink_runs_beside_the_first_replica_of_its_stream() -> None:
    assert sink_places(cluster(), DIAGRAM) == {"highs": "a", "lows": "b", "shown": "b"}


def test_a_sink_runs_where_the_cluster_says() -> None:
    said = cluster("{highs: {node: b}}")
    assert sink_places(said, DIAGRAM) == {"highs": "b", "lows": "b", "shown": "b"}


def test_every_sink_holds_the_log_of_its_stream() -> None:
    assert readers(cluster(), DIAGRAM) == {
        "me": "high",
        "sink highs": "high",
        "sink lows": "low",
        "sink shown": "low",
    }


def test_a_sink_writes_where_the_cluster_says() -> None:
    moved = placed(cluster("{highs: {path: elsewhere.jsonl}}"), DIAGRAM)
    assert [sink.options.get("path") for sink in moved.sinks] == [
        "elsewhere.jsonl",
        "out/low",
        None,
    ]
    assert placed(cluster(), DIAGRAM) == DIAGRAM


@pytest.mark.parametrize(
    ("sinks", "sentence"),
    [
        ("{hihgs: {node: a}}", "10: 'hihgs' is not a sink of the diagram (did you mean 'highs'?)"),
        ("{highs: {node: x}}", "10: 'highs' names an unknown node 'x'"),
        ("{highs: {node: e}}", "10: 'highs' is placed on 'e', which computes nothing"),
        ("{shown: {path: x}}", "10: 'shown' is given a path, but a sink of the kind 'console' has"),
        ("{highs: {nod: a}}", "did you mean 'node'?"),
        ("{highs: a}", "c.yaml:10: 'highs'"),
    ],
)
def test_mistakes(sinks: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        cluster(sinks)
    assert sentence in str(error.value)


def test_a_sink_may_stand_beside_the_source_that_it_reads() -> None:
    raw = load_diagram(
        "diagram: d\nsources:\n  s: {push: true, schema: v int}\noperators:\n"
        "  high: {filter: s, where: v > 5}\nsinks:\n  raw: {from: s, console: true}\n"
        "  highs: {from: high, console: true}\n",
        "d.yaml",
    )
    nodes = CLUSTER.replace("{one: [a, b], two: [b, a]}", "{high: [a, b]}")
    beside = load(nodes + "sinks: {raw: {node: e}}\n", "c.yaml")
    check(beside, raw)
    assert sink_places(beside, raw)["raw"] == sink_places(load(nodes, "c.yaml"), raw)["raw"] == "e"
