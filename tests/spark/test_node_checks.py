"""A node refuses what a run refuses, in the same words, and its state stays free."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from australis.kernel.errors import UserError
from australis.runtime.client import load_cluster
from australis.runtime.load import load
from australis.runtime.node import spark_home
from australis.runtime.node.process import Node
from australis.runtime.run import Running
from australis.runtime.testbed import free_ports

FUNCTIONS = """
from pyspark.sql import functions as F

def no_window(frame):
    return frame.groupBy("k").agg(F.max("_stime").alias("_stime"))

def ordered(frame):
    return frame.orderBy("k")

def fine(frame):
    return frame.where("v > 1")
"""
DIAGRAM = """
diagram: refused
sources:
  a: {push: true, time: t, schema: "t timestamp, k string, v int"}
operators:
"""
CLUSTER = """
cluster: refused
diagram: diagram.yaml
state: state
epoch: 2026-01-01T00:00:00Z
nodes:
"""
MISTAKES = [
    ('mine: {spark: a, function: "mine.py:no_window"}', "cannot run as a stream"),
    ('mine: {spark: a, function: "mine.py:ordered"}', "orders rows"),
    ('mine: {spark: a, function: "mine.py:none"}', "which mine.py does not have"),
    ('mine: {filter: a, where: "nosuch > 1"}', "nosuch"),
]


@pytest.fixture
def here(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory whose nodes all use the session of the tests, and leave it running."""
    monkeypatch.setattr(spark_home, "open_session", lambda *_args, **_options: spark)
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    return tmp_path


def written(here: Path, operator: str) -> Path:
    (here / "diagram.yaml").write_text(f"{DIAGRAM}  {operator}\n")
    (port,) = free_ports(1)
    path = here / "cluster.yaml"
    node = f'  n: {{address: "127.0.0.1:{port}"}}'
    path.write_text(f"{CLUSTER}{node}\nreplicas: {{mine: [n]}}\nsources: {{a: n}}\n")
    return path


@pytest.mark.parametrize(("operator", "reason"), MISTAKES)
def test_a_node_says_what_a_run_says(
    spark: SparkSession, here: Path, operator: str, reason: str
) -> None:
    cluster, diagram, base = load_cluster(written(here, operator))
    with pytest.raises(UserError, match=reason) as of_node:
        Node(cluster, diagram, "n", base=base).start()
    with pytest.raises(UserError) as of_run:
        Running(load(here / "diagram.yaml"), here / "run", spark=spark, base=here).start()
    assert str(of_node.value) == str(of_run.value)


def test_the_state_of_a_refused_diagram_is_taken_by_the_mended_one(here: Path) -> None:
    cluster, diagram, base = load_cluster(written(here, MISTAKES[0][0]))
    with pytest.raises(UserError):
        Node(cluster, diagram, "n", base=base).start()
    mended = written(here, 'mine: {spark: a, function: "mine.py:fine"}')
    cluster, diagram, base = load_cluster(mended)
    Node(cluster, diagram, "n", base=base).start().stop()
    assert (here / "state" / "n" / "diagram.json").exists()
