"""Replicas whose logs differ on live nodes: they stop, say so, and go on once one was replaced."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
from runtime.node.small_cluster import SmallCluster

from australis.runtime.node.metrics import metrics
from australis.runtime.overview import troubles


class LosesRows:
    """An engine that leaves out the last row of each bucket from some moment on."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def step(self, *args: Any) -> tuple[Any, list[tuple[int, pa.RecordBatch]]]:
        state, made = self._engine.step(*args)
        return state, [(n, b.slice(0, b.num_rows - 1)) for n, b in made if b.num_rows > 1]


def events(c: SmallCluster, node: str, name: str) -> list[dict[str, Any]]:
    path: Path = c.base / c.cluster.state / node / "events.jsonl"
    return [e for line in path.read_text().splitlines() if (e := json.loads(line))["event"] == name]


def states(c: SmallCluster) -> dict[str, str]:
    return {n: c.nodes[n].status()["outputs"]["counts"]["state"] for n in "ab"}


def test_replicas_that_differ_stop_until_one_is_replaced(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c:
        c.until(lambda: len(c.stable()) > 5)
        lane = c.nodes["a"].engines["counts@a"].lanes._lanes["counts"]  # type: ignore[attr-defined]
        lane.engine = LosesRows(lane.engine)
        c.until(lambda: states(c) == {"a": "FAILURE", "b": "FAILURE"})
        told = {n: c.nodes[n].status() for n in "ab"}
        (found,) = told["b"]["outputs"]["counts"]["differs"]
        (other,) = told["a"]["outputs"]["counts"]["differs"]
        assert found["replica"] == "counts@a"
        assert (found["mine"], found["theirs"]) == (other["theirs"], other["mine"])
        assert any("counts differs from counts@a" in text for text in troubles(told["b"]))
        for node in "ab":
            event = events(c, node, "replicas_differ")[0]
            assert (event["stream"], event["operators"]) == ("counts", ["merged", "counts"])
            assert event["stops"]
            assert 0 <= event["after"] < event["bucket"] <= event["after"] + 5
        (differing,) = [
            m
            for m in metrics(told["b"], 0, c.diagram.buckets)
            if m.name == "australis_output_differing_replicas"
        ]
        assert [s.value for s in differing.samples] == [1]

        c.until(lambda: c.stopped is not None)
        assert "the replicas of 'counts' differ" in str(c.stopped)

        c.stop("a")
        shutil.rmtree(c.base / c.cluster.state / "a")
        c.start("a")
        c.until(lambda: states(c) == {"a": "STABLE", "b": "STABLE"})
        assert events(c, "b", "replicas_agree")
        end = c.nodes["a"].status()["outputs"]["counts"]["end"]
        c.until(lambda: c.nodes["a"].status()["outputs"]["counts"]["end"] > end + 10)
        assert states(c) == {"a": "STABLE", "b": "STABLE"}
