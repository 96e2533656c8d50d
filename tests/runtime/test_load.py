"""Diagrams that stand in another directory than the cluster file that names them."""

from __future__ import annotations

from pathlib import Path

from australis.runtime.client import load_cluster
from australis.runtime.sources import check_options

DIAGRAM = """
diagram: d
sources:
  s: {csv: in.csv, schema: "t timestamp, v int", time: t}
  several: {csv: [in.csv, /data/more.csv], schema: "t timestamp, v int", time: t}
operators:
  own: {spark: s, function: "fn.py:big"}
  other: {spark: several, function: "package.module:big"}
sinks:
  shown: {from: own, jsonl: out.jsonl}
  moved: {from: other, jsonl: out2.jsonl}
"""
CLUSTER = """
cluster: c
diagram: below/d.yaml
epoch: 2026-01-01T00:00:00Z
nodes:
  a: {address: "localhost:1"}
replicas: {own: [a], other: [a]}
sources: {s: a, several: a}
sinks: {moved: {path: there.jsonl}}
"""


def test_paths_of_a_diagram_begin_at_its_own_directory(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "d.yaml").write_text(DIAGRAM)
    (tmp_path / "below" / "in.csv").write_text("t,v\n")
    (tmp_path / "c.yaml").write_text(CLUSTER)
    _, diagram, base = load_cluster(tmp_path / "c.yaml")
    source, several = diagram.sources
    assert source.options["path"] == "below/in.csv"
    check_options(source, base)
    assert several.options["path"] == ["below/in.csv", "/data/more.csv"]
    assert [o.settings()["function"] for o in diagram.operators] == [
        "below/fn.py:big",
        "package.module:big",
    ]
    assert {s.name: s.options["path"] for s in diagram.sinks} == {
        "shown": "below/out.jsonl",
        "moved": "there.jsonl",  # the cluster file says so, and its paths begin at its own directory
    }
