"""Applications that are submitted to a running cluster, read, moved and withdrawn."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runtime.node.small_cluster import SmallCluster

from australis.deployment.deployed import Deployment, submitted, withdraw
from australis.diagram import diagram_file
from australis.kernel.errors import UserError
from australis.runtime.admin import AdminClient
from australis.runtime.changes import Changes
from australis.runtime.client import ChangeKind, Subscription

pytestmark = pytest.mark.live

DIAGRAM = """
diagram: sums
bucket: 200 ms
sources:
  flows: {generate: connections, rate: 200, duration: 1 h, seed: 3, speed: 1}
operators:
  totals: {aggregate: flows, window: 400 ms, by: [protocol], compute: {n: count(*), b: sum(bytes)}}
sinks:
  written: {jsonl: PATH, from: totals}
"""


class Submitted:
    """A small cluster, and what an operator does with it."""

    def __init__(self, c: SmallCluster, directory: Path) -> None:
        self.cluster, self.directory = c, directory
        self.changes = Changes(AdminClient(c.cluster, c.base), c.base)
        self.path = directory / "sums.jsonl"
        self.text = DIAGRAM.replace("PATH", str(self.path))

    def submit(self, **options: Any) -> Deployment:
        diagram = diagram_file.load(self.text, "sums.yaml")
        made = self.changes.submit(diagram, self.directory, self.text, **options)
        self.cluster.until(lambda: self.changes.is_open(made.application))
        return made

    def until(self, what: Callable[[], bool]) -> None:
        self.cluster.until(what)


def rows(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def drain(subscription: Subscription, seconds: float) -> list[Any]:
    found, deadline = [], time.monotonic() + seconds
    while time.monotonic() < deadline:
        change = subscription.next(0.1)
        if change is not None:
            found.append(change)
    return found


def test_an_application_is_submitted_read_moved_and_withdrawn(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c:
        c.until(lambda: len(c.stable()) > 3)
        s = Submitted(c, tmp_path)
        made = s.submit(on=("a", "e1"))
        assert made.nodes == {"a", "e1"}
        assert c._connection is not None
        reader = c._connection.subscribe("sums.totals", guest=True)
        first = drain(reader, 3)
        assert sum(x.rows for x in first if x.kind is ChangeKind.INSERTION) > 5
        list(s.changes.carry_out("totals", ("b",), ("a",), "sums"))
        assert {m.node for m in s.changes.newest("sums").set_of("totals").members} == {"e1", "b"}
        more = drain(reader, 3)
        buckets = [x.bucket for x in first + more if x.kind is ChangeKind.INSERTION]
        assert buckets == list(range(buckets[0], buckets[0] + len(buckets)))
        assert not [x for x in first + more if x.kind is ChangeKind.TENTATIVE]
        written = len(rows(s.path))
        assert written > 10
        s.until(lambda: len(rows(s.path)) > written)
        reader.close()
        s.changes.withdraw("sums")
        s.until(lambda: s.changes.is_gone("sums"))
        s.until(
            lambda: not any((tmp_path / "state" / n / "apps" / "sums").exists() for n in c.nodes)
        )
        assert "sums" not in s.changes.applications()
        before = c.stable_upto
        c.until(lambda: c.stable_upto > before + 3)
        assert c.tentative == 0, "the other application has not noticed"
        s.text = s.text.replace("sums.jsonl", "again.jsonl")
        again = s.submit(on=("a", "b"), name="sums")
        assert again.version > made.version


def test_an_application_outlives_the_restart_of_its_nodes(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c:
        c.until(lambda: len(c.stable()) > 3)
        s = Submitted(c, tmp_path)
        s.submit(on=("a", "b"))
        s.until(lambda: len(rows(s.path)) > 3)
        c.stop("a")
        c.stop("b")
        written = len(rows(s.path))
        c.start("b")
        c.start("a")
        s.until(lambda: len(rows(s.path)) > written + 3)
        found = rows(s.path)
        assert len(found) == len({*found}), "every tuple once"


def test_what_cannot_be_submitted_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c:
        c.until(lambda: len(c.stable()) > 1)
        s = Submitted(c, tmp_path)
        for options, sentence in (
            ({"on": ("f",)}, "'f' is not a node of this cluster"),
            ({"replicas": 9}, "can have 4 replicas at most"),
            ({"places": {"total": ("a",)}}, "is no fragment, source or sink.*totals"),
            ({"places": {"flows": ("a", "b")}}, "runs on one node"),
            ({"name": "not a name"}, "is not a name"),
            ({"name": "small"}, "is the application of the cluster file"),
        ):
            with pytest.raises(UserError, match=sentence):
                s.submit(**options)
        with pytest.raises(UserError, match="is not an application of this cluster"):
            s.changes.withdraw("sum")
        s.text = s.text.replace("sum(bytes)", "sum(byte)")
        with pytest.raises(UserError, match="byte"):
            s.submit()
        assert s.changes.applications() == {}


def test_a_node_is_drained_and_used_again(tmp_path: Path) -> None:
    with SmallCluster(tmp_path) as c:
        c.until(lambda: len(c.stable()) > 3)
        s = Submitted(c, tmp_path)
        s.submit(on=("b", "e1"), places={"flows": ("b",), "written": ("b",)})
        assert set(s.changes.drain("b")) == {"", "sums"}
        c.until(lambda: not s.changes.left_on("b").replicas, 60)
        assert s.changes.left_on("b").others == ("source sums.flows", "sink sums.written")
        with pytest.raises(UserError, match="is being drained already"):
            s.changes.drain("b")
        with pytest.raises(UserError, match="cannot run on 'b', which is being drained"):
            list(s.changes.carry_out("counts", ("b",), ()))
        assert c.tentative == 0, "nobody has noticed"
        s.text = s.text.replace("diagram: sums", "diagram: more").replace("written:", "again:")
        s.text = s.text.replace("sums.jsonl", "more.jsonl")
        assert "b" not in s.submit(replicas=3).nodes
        s.changes.drain("b", drained=False)
        with pytest.raises(UserError, match="is not being drained"):
            s.changes.drain("b", drained=False)
        steps = list(s.changes.carry_out("counts", ("b",), ()))
        assert steps[-1].phase == "done"


@pytest.mark.parametrize("name", ["..", "../up", "/etc", "a/b", "", ".hidden"])
def test_no_application_is_called_after_another_directory(tmp_path: Path, name: str) -> None:
    """A withdrawn application's directory is removed, and a hostile node chooses names."""
    with SmallCluster(tmp_path) as c:
        node = c.nodes["a"]
        (tmp_path / "state" / "a" / "up").mkdir()
        gone = withdraw(submitted(name, "d", {"f": ("a",)}, {}))
        node._applications.adopt(gone)
        c.until(lambda: "is not a name" in (tmp_path / "state/a/events.jsonl").read_text())
        assert (tmp_path / "state" / "a" / "up").exists()
        assert name not in node._applications._wanted
