"""A source with a standby in a small cluster: nodes go and come back, and nothing is lost."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from runtime.node.small_cluster import free_ports

from australis.cli.status import _sources
from australis.kernel.errors import AustralisError, UserError
from australis.runtime.admin import AdminClient
from australis.runtime.client import Change, ChangeKind, connect, load_cluster
from australis.runtime.node.process import Node
from australis.runtime.overview import overview

pytestmark = pytest.mark.timeout(120)

DIAGRAM = """
diagram: small
bucket: 100 ms
sources:
  s: {push: true, time: arrival, schema: "k int"}
operators:
  kept: {filter: s, where: k >= 0}
"""
CLUSTER = """
cluster: small
diagram: diagram.yaml
state: state
max_delay: 20 s
heartbeat: 50 ms
hop: 50 ms
nodes:
  a: {{address: "127.0.0.1:{a}", engine: reference}}
  e1: {{address: "127.0.0.1:{e1}", engine: reference}}
  e2: {{address: "127.0.0.1:{e2}", engine: reference, metrics: {metrics}}}
replicas: {{kept: [a]}}
sources:
  s: {source}
clients: {{reader: {{stream: kept}}}}
epoch: {epoch}
faults: allowed
"""


class Paired:
    """Three nodes in this process, a producer that pushes to the node that leads, and a client."""

    def __init__(self, directory: Path) -> None:
        (directory / "diagram.yaml").write_text(DIAGRAM)
        self.path = directory / "cluster.yaml"
        self.said = dict(zip(("a", "e1", "e2", "metrics"), free_ports(4), strict=True)) | {
            "epoch": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        }
        self.write("{node: e1, standby: e2}")
        self.nodes: dict[str, Node] = {}
        self.errors: list[BaseException] = []
        self.acknowledged = 0
        self.changes: list[Change] = []
        self._stopping = threading.Event()

    def write(self, source: str) -> None:
        """Write the cluster file, with this for the source."""
        self.path.write_text(CLUSTER.format(**self.said, source=source))

    def start(self, name: str) -> None:
        cluster, diagram, base = load_cluster(self.path)
        node = Node(cluster, diagram, name, base=base, on_error=self.errors.append)
        self.nodes[name] = node.start()

    def stop(self, name: str) -> None:
        self.nodes.pop(name).stop()

    def roles(self) -> dict[str, str]:
        found = {n: self.nodes[n].status()["sources"]["s"] for n in ("e1", "e2") if n in self.nodes}
        return {name: str(one["role"]) for name, one in found.items()}

    def push(self) -> None:
        """Give rows, each until it is acknowledged."""
        while not self._stopping.wait(0.03):
            rows = [{"k": self.acknowledged + i} for i in range(5)]
            for node in list(self.nodes.values()):
                with suppress(AustralisError):
                    node.push("s", rows)
                    self.acknowledged += len(rows)
                    break

    def until(self, what: Callable[[], bool], timeout_s: float = 30.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not what():
            assert not self.errors, self.errors
            assert time.monotonic() < deadline, {n: o.status() for n, o in self.nodes.items()}
            time.sleep(0.02)

    def more(self, rows: int = 50) -> None:
        """Wait until more rows are acknowledged."""
        before = self.acknowledged
        self.until(lambda: self.acknowledged >= before + rows)

    @property
    def numbers(self) -> list[int]:
        batches = [
            c.batch for c in self.changes if c.kind is ChangeKind.INSERTION and c.batch is not None
        ]
        return [row["k"] for batch in batches for row in batch.to_pylist()]

    def check(self) -> None:
        """Every row that was acknowledged has come out, in order; few came twice."""
        self._stopping.set()
        last = self.acknowledged - 1
        self.until(lambda: last in self.numbers)
        numbers = self.numbers
        first_times = list(dict.fromkeys(numbers))
        assert first_times[: last + 1] == list(range(last + 1))
        assert not any(c.kind is ChangeKind.TENTATIVE for c in self.changes)

    def events(self, node: str, event: str) -> list[dict[str, Any]]:
        lines = (self.path.parent / "state" / node / "events.jsonl").read_text().splitlines()
        return [told for line in lines if (told := json.loads(line))["event"] == event]

    def close(self) -> None:
        self._stopping.set()
        for node in self.nodes.values():
            node.stop()


@contextmanager
def running(directory: Path) -> Iterator[Paired]:
    paired = Paired(directory)
    try:
        for name in ("a", "e1", "e2"):
            paired.start(name)
        paired.until(lambda: paired.roles() == {"e1": "leads", "e2": "standby"})
        with connect(paired.path) as connection:
            subscription = connection.subscribe("kept")

            def listen() -> None:
                with suppress(AustralisError):
                    paired.changes.extend(subscription)

            for target in (paired.push, listen):
                threading.Thread(target=target, daemon=True).start()
            yield paired
    finally:
        paired.close()


def test_a_standby_takes_over_and_the_first_node_becomes_its_standby(tmp_path: Path) -> None:
    with running(tmp_path) as c:
        c.more()
        with pytest.raises(UserError, match="is led by e1"):
            c.nodes["e2"].push("s", [{"k": -1}])
        c.stop("e1")
        c.until(lambda: c.roles() == {"e2": "leads alone"})
        c.more()
        c.start("e1")
        c.until(lambda: c.roles() == {"e1": "standby", "e2": "leads"})
        c.more()
        c.stop("e2")
        c.until(lambda: c.roles() == {"e1": "leads alone"})
        c.more()
        c.check()
        assert len(c.events("e2", "source_leads")) == 1
        assert [e["leader"] for e in c.events("e1", "source_view")][-1] == "s@e1"
        c.stop("e1")
        c.write("e2")
        with pytest.raises(UserError, match=r"'s' had a standby, which may have gone on"):
            c.start("e2")


def test_status_and_metrics_say_which_node_leads(tmp_path: Path) -> None:
    with running(tmp_path) as c:
        c.more()
        cluster, diagram, base = load_cluster(c.path)
        nodes = overview(AdminClient(cluster, base), diagram)["nodes"]
        told = {name: nodes[name]["sources"]["s"] for name in ("e1", "e2")}
        assert {name: one["role"] for name, one in told.items()} == c.roles()
        assert {one["leader"] for one in told.values()} == {"e1"}
        assert all(one["behind_s"] < 5 for one in told.values())
        rows = [row[:2] for name in told for row in _sources(nodes[name])]
        assert [(name, said.partition(", ")[2]) for name, said in rows] == [
            ("source s", "leads"),
            ("source s", "standby"),
        ]
        with urllib.request.urlopen(f"http://127.0.0.1:{c.said['metrics']}/metrics") as answer:
            assert 'australis_source_leads{source="s"} 0.0' in answer.read().decode()


def test_a_leader_without_its_standby_waits_for_the_witness(tmp_path: Path) -> None:
    with running(tmp_path) as c:
        c.more()
        for node in ("e1", "e2"):
            c.nodes[node].fault({"kind": "cut", "node": "a"})
        c.stop("e2")
        c.until(lambda: c.roles() == {"e1": "leads"})
        time.sleep(0.5)
        before = c.acknowledged
        time.sleep(1.0)
        assert c.acknowledged == before, "nothing is acknowledged by one node alone"
        c.nodes["e1"].fault({"kind": "heal", "node": "a"})
        c.until(lambda: c.roles() == {"e1": "leads alone"})
        c.more()
        c.start("e2")
        c.until(lambda: c.roles() == {"e1": "leads", "e2": "standby"})
        c.check()
