"""Replicas, sources and a client over real ports and files; only the engine is small."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from runtime.node.small_cluster import SmallCluster, check, write_cluster

from australis.kernel.errors import UserError
from australis.runtime.client import ChangeKind, load_cluster
from australis.runtime.node.process import Node

pytestmark = pytest.mark.timeout(120)


def test_a_result_through_the_network(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c:
        c.until(lambda: len(c.stable()) > 10)
        check(c)


def test_a_replica_that_goes_and_comes_back(tmp_path: Path) -> None:
    with SmallCluster(tmp_path, max_delay="10 s") as c:
        c.until(lambda: len(c.stable()) > 3)
        for name in ("a", "b", "a"):
            c.stop(name)
            before = c.stable_upto
            c.until(lambda before=before: c.stable_upto > before + 10)  # type: ignore[misc]
            c.start(name)
            c.until(lambda name=name: c.nodes[name].output("counts").state.name == "STABLE")  # type: ignore[misc]
        check(c)
        assert c.tentative == 0


def test_a_client_that_follows_two_replicas_at_once(tmp_path: Path) -> None:
    with SmallCluster(tmp_path, hedge=2, max_delay="10 s") as c:
        c.until(lambda: len(c.stable()) > 3)
        c.stop("a")
        before = c.stable_upto
        c.until(lambda: c.stable_upto > before + 10)
        c.start("a")
        check(c)
        assert c.tentative == 0


def test_the_state_of_another_diagram_is_refused(tmp_path: Path) -> None:
    path = write_cluster(tmp_path)
    for _ in range(2):
        cluster, diagram, base = load_cluster(path)
        Node(cluster, diagram, "a", base=base).start().stop()
    written = (tmp_path / "diagram.yaml").read_text()
    (tmp_path / "diagram.yaml").write_text(written.replace("sum(v)", "max(v)"))
    cluster, diagram, base = load_cluster(path)
    with pytest.raises(UserError, match=r"'counts' has changed .* remove the state of every node"):
        Node(cluster, diagram, "a", base=base).start()


def test_a_source_out_of_reach_gives_tentative_results_and_corrections(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c:
        c.until(lambda: len(c.stable()) > 3)
        for replica in ("a", "b"):
            c.cut(replica, "e2")
        c.until(lambda: c.tentative > 5)
        said = [x for x in c.changes if x.kind is ChangeKind.TENTATIVE]
        assert {(x.missing, x.share) for x in said} == {(("s2",), 0.5)}

        def said_by(node: str) -> tuple[list[str], float]:
            output = c.nodes[node].status()["outputs"]["counts"]
            return output["missing"], output["share"]

        for replica in ("a", "b"):  # the client reads from one of them
            c.until(lambda r=replica: said_by(r) == (["s2"], 0.5))  # type: ignore[misc]
        for replica in ("a", "b"):
            c.heal(replica, "e2")
        c.until(lambda: c.changes[-1].kind is ChangeKind.INSERTION)
        check(c)
        kinds = [x.kind for x in c.changes]
        assert kinds.index(ChangeKind.UNDO) > kinds.index(ChangeKind.TENTATIVE)
        assert ChangeKind.REC_DONE in kinds


def test_a_replica_without_its_disk_gets_its_state_from_the_other(tmp_path: Path) -> None:
    with SmallCluster(tmp_path, max_delay="10 s") as c:
        c.until(lambda: c.nodes["a"].output("counts").trimmed_upto > c.nodes["a"].base_bucket + 5)
        c.stop("a")
        shutil.rmtree(tmp_path / "state" / "a")
        c.start("a")
        c.until(lambda: c.nodes["a"].output("counts").state.name == "STABLE")
        c.until(lambda: c.stable_upto >= c.nodes["a"].output("counts").trimmed_upto)
        c.stop("b")
        before = c.stable_upto
        c.until(lambda: c.stable_upto > before + 10)
        c.start("b")
        check(c)


def test_a_source_that_has_ended_holds_nobody_up(tmp_path: Path) -> None:
    with SmallCluster(tmp_path, max_delay="20 s") as c:
        c.until(lambda: len(c.stable()) > 3)
        c.pause()
        c.end("s2")
        ended = c.stable_upto
        c.until(lambda: c.stable_upto > ended + 30)
        c.stop("e2")
        time.sleep(2)
        before = c.stable_upto
        c.start("e2")
        c.until(lambda: c.stable_upto > before + 5, 5)
        behind = c.nodes["e1"].sources["s1"].closed - c.nodes["e2"].sources["s2"].closed
        assert abs(behind) <= 5, "it is as far as if it had gone on"


def test_a_replica_that_comes_back_knows_what_was_acknowledged(tmp_path: Path) -> None:
    with SmallCluster(tmp_path, max_delay="10 s") as c:
        c.until(lambda: c.nodes["b"].output("counts").trimmed_upto > c.nodes["b"].base_bucket + 20)
        c.stop("b")
        done = c.stable_upto
        c.start("b")
        c.until(lambda: c.stable_upto > done + 5)
        assert c.nodes["b"].output("counts").trimmed_upto > c.nodes["b"].base_bucket + 10
        check(c)


def test_everything_stops_and_goes_on(tmp_path: Path) -> None:
    with SmallCluster(tmp_path, max_delay="10 s") as c:
        c.until(lambda: len(c.stable()) > 3)
        for name in ("a", "b"):
            c.stop(name)
        time.sleep(0.5)
        for name in ("a", "b"):
            c.start(name)
        check(c)
