"""All replicas of a fragment lose their disks on live nodes."""

from __future__ import annotations

import json
import shutil
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from runtime.node import small_cluster
from runtime.node.small_cluster import DIAGRAM, SmallCluster

from australis.kernel.errors import Stopped
from australis.kernel.ids import unpack_id
from australis.runtime.client import ChangeKind
from australis.runtime.overview import troubles

pytestmark = pytest.mark.timeout(120)


def events(c: SmallCluster, node: str, name: str) -> list[dict[str, Any]]:
    path: Path = c.base / c.cluster.state / node / "events.jsonl"
    return [e for line in path.read_text().splitlines() if (e := json.loads(line))["event"] == name]


def stop_both(c: SmallCluster) -> None:
    """Stop both replicas once the sources' logs have forgotten what they have read."""
    logs = [c.nodes[e].find_log(s, s) for e, s in (("e1", "s1"), ("e2", "s2"))]
    c.until(lambda: all(log.trimmed_upto > c.nodes["a"].base_bucket + 5 for log in logs))
    for node in "ab":
        c.stop(node)


def lose(c: SmallCluster) -> None:
    """Both replicas are without their disks."""
    stop_both(c)
    for node in "ab":
        shutil.rmtree(c.base / c.cluster.state / node)
    for node in "ab":
        c.start(node)


def test_a_bounded_state_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is told what is gone, and gets nothing that is wrong; the logs are equal."""
    monkeypatch.setattr(small_cluster, "DIAGRAM", DIAGRAM.replace("500 ms", "3 s"))
    with SmallCluster(tmp_path, max_delay="10 s") as c:
        c.until(lambda: len(c.stable()) > 3)
        lose(c)
        c.until(lambda: any(x.kind is ChangeKind.SKIPPED for x in c.changes[1:]))
        gone = c.changes[-1].bucket
        c.until(lambda: all(c.nodes[n].output("counts").state.name == "STABLE" for n in "ab"))
        assert any("has begun anew" in text for text in troubles(c.nodes["a"].status()))
        c.until(lambda: c.stable_upto > gone + 60)
        c.settle()
        told = [x for x in c.changes if x.kind in (ChangeKind.INSERTION, ChangeKind.SKIPPED)]
        jumps = [b.kind for a, b in pairwise(told) if b.bucket != a.bucket + 1]
        assert jumps == [ChangeKind.SKIPPED], "only what it was told of is missing"
        wanted = [row for row in c.expected() if unpack_id(row["_id"])[0] > gone]
        assert [row for row in c.stable() if unpack_id(row["_id"])[0] > gone] == wanted != []
        earlier = [row for row in c.stable() if unpack_id(row["_id"])[0] <= gone]
        assert earlier == c.expected()[: len(earlier)] != []
        logs = [c.nodes[n].engines[f"counts@{n}"].log("counts") for n in "ab"]
        assert {log.digest_base for log in logs} == {gone}, "both begin at the same bucket"
        for node in "ab":
            assert c.nodes[node].status()["outputs"]["counts"]["lost"] is None
            assert not events(c, node, "replicas_differ")


def test_a_state_that_may_rest_on_everything_is_lost_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_cluster, "DIAGRAM", DIAGRAM.replace("500 ms", "7 tuples"))
    with SmallCluster(tmp_path, max_delay="10 s") as c:
        c.until(lambda: len(c.stable()) > 3)
        lose(c)
        deadline = time.monotonic() + 30
        while not (events(c, "a", "state_lost") and events(c, "b", "state_lost")):
            assert time.monotonic() < deadline, c.explain()
            time.sleep(0.1)
        assert all(isinstance(error, Stopped) for error in c.errors)
        for node in "ab":
            (event,) = events(c, node, "state_lost")
            assert (event["output"], set(event["gone"])) == ("counts", {"s1", "s2"})
            status = c.nodes[node].status()
            assert status["outputs"]["counts"]["lost"]["for_good"]
            assert "counts has lost its state for good" in troubles(status)
            with pytest.raises(Stopped, match="remove the state of every node to begin anew"):
                c.nodes[node].check()
        c.errors.clear()


def test_a_replica_that_is_away_is_waited_for(tmp_path: Path) -> None:
    """It may have the state that the other one has lost."""
    with SmallCluster(tmp_path, max_delay="10 s") as c:
        stop_both(c)
        shutil.rmtree(tmp_path / "state" / "a")
        c.start("a")
        text = "counts has lost its state; counts@b may have it"
        c.until(lambda: text in troubles(c.nodes["a"].status()))
        c.start("b")
        c.until(lambda: c.nodes["a"].output("counts").state.name == "STABLE")
        c.settle()
        assert c.stable() == c.expected()
