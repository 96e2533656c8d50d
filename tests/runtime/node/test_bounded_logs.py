"""Disks are bounded by the cluster file, whoever is absent and for how long."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from australis.runtime.client import Change, ChangeKind, Subscription, connect, load_cluster
from australis.runtime.node.process import Node
from australis.runtime.overview import troubles
from australis.runtime.testbed import free_ports

pytestmark = pytest.mark.timeout(180)

MAX_BYTES = 1_000_000
RELEASE_BYTES = 2_500_000
"""What a log may have beyond its bound here: a release of 50 s of the stream or of 16,384 rows, a
segment that is not yet all unneeded, and its commit file."""
ROWS = 300_000

DIAGRAM = """
diagram: long
bucket: 500 ms
sources:
  s: {generate: connections, rate: 200, duration: 1500 s, scans: 0, floods: 0, speed: max}
operators:
  some: {filter: s, where: port > 0}
outputs: [some]
"""


class BoundedCluster:
    """A source at full speed, one fragment on two nodes, and clients of which one may be absent."""

    def __init__(self, directory: Path, log: str, more: str = "") -> None:
        (directory / "diagram.yaml").write_text(DIAGRAM)
        names = ("a", "b", "e")
        nodes = "\n".join(
            f'  {name}: {{address: "127.0.0.1:{port}", engine: reference}}'
            for name, port in zip(names, free_ports(len(names)), strict=True)
        )
        self.path = directory / "cluster.yaml"
        self.path.write_text(
            "cluster: long\ndiagram: diagram.yaml\nstate: state\nmax_delay: 5 s\n"
            f"epoch: 2026-01-01T00:00:00Z\nnodes:\n{nodes}\nreplicas: {{some: [a, b]}}\n"
            "sources: {s: e}\nclients:\n  reader: {stream: some}\n  absent: {stream: some}\n"
            f"log: {log}\n{more}"
        )
        self.cluster, self.diagram, self.base = load_cluster(self.path)
        self.errors: list[BaseException] = []
        self.nodes: dict[str, Node] = {}
        self.most = 0
        """The largest size of the state directory that was seen."""

    def __enter__(self) -> BoundedCluster:
        for name in self.cluster.nodes:
            node = Node(
                self.cluster, self.diagram, name, base=self.base, on_error=self.errors.append
            )
            self.nodes[name] = node.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self.nodes.values():
            node.stop()

    def disk(self) -> int:
        """What `du` says of the state of all nodes."""
        told = subprocess.run(
            ["du", "-sb", self.base / "state"], capture_output=True, text=True, check=False
        )  # files may go meanwhile
        found = int(told.stdout.split()[0])
        self.most = max(self.most, found)
        return found

    def logs(self, name: str) -> dict[str, Any]:
        """What a node says of its logs."""
        status = self.nodes[name].status()
        found: dict[str, Any] = status["outputs"] | status["sources"]
        return found

    def log_bytes(self) -> dict[str, int]:
        """The sizes of all logs."""
        return {
            f"{stream} at {name}": status["log_bytes"]
            for name in self.nodes
            for stream, status in self.logs(name).items()
        }

    def until(self, what: Callable[[], bool], timeout_s: float = 120.0) -> None:
        """Wait until something is true, and look at the disk meanwhile."""
        deadline = time.monotonic() + timeout_s
        while not what():
            assert not self.errors, self.errors
            assert time.monotonic() < deadline, [n.status() for n in self.nodes.values()]
            self.disk()
            for name, size in self.log_bytes().items():
                assert size <= MAX_BYTES + RELEASE_BYTES, f"{name} has {size} bytes"
            time.sleep(0.1)

    def events(self, name: str, event: str) -> list[dict[str, Any]]:
        """The events of a kind that a node has told."""
        lines = (self.base / "state" / name / "events.jsonl").read_text().splitlines()
        return [told for told in map(json.loads, lines) if told["event"] == event]


class Reader:
    """A client that has read whatever has come whenever it is asked how much that is."""

    def __init__(self, subscription: Subscription, *, holds: bool = False) -> None:
        self._subscription = subscription
        self._holds = holds
        self.changes: list[Change] = []

    @property
    def rows(self) -> int:
        """How many tuples it has."""
        while (change := self._subscription.next(0)) is not None:
            self.changes.append(change)
            if change.kind is ChangeKind.INSERTION and self._holds:
                self._subscription.acknowledge(change.bucket)
        return sum(c.rows for c in self.changes if c.kind is ChangeKind.INSERTION)

    @property
    def skipped(self) -> list[Change]:
        return [c for c in self.changes if c.kind is ChangeKind.SKIPPED]


def test_a_full_log_waits_says_so_and_goes_on_when_its_consumer_acknowledges(
    tmp_path: Path,
) -> None:
    with BoundedCluster(tmp_path, "{max: 1 MB}") as c, connect(c.path) as connection:
        reader = Reader(connection.subscribe("some", client="reader"))
        stats = c.nodes["e"].sources["s"].proxy.stats
        since, read = time.monotonic(), 0

        def stands_still() -> bool:
            nonlocal since, read
            if reader.rows < 0 or stats.rows != read:
                since, read = time.monotonic(), stats.rows
            return read > 0 and time.monotonic() - since > 12

        c.until(stands_still)
        assert read < ROWS // 2
        assert c.logs("e")["s"]["full"]
        output = c.logs("a")["some"]
        assert output["full"]
        assert output["log_waits_for"] == ["absent"]
        assert output["consumers"]["absent"]["silent_s"] > 10
        said = troubles(c.nodes["a"].status())
        assert any("the log of some is full and waits for absent" in text for text in said)
        late = Reader(connection.subscribe("some", client="absent", hold=True), holds=True)
        c.until(lambda: min(late.rows, reader.rows) >= ROWS)
        assert (late.rows, reader.rows) == (ROWS, ROWS), "nothing is lost"
        assert late.skipped + reader.skipped == []
        print(f"at most {c.most:,} bytes on disk; the source stood still after {read:,} rows")


def test_a_full_log_skips_who_is_absent_and_says_so_when_it_comes_back(tmp_path: Path) -> None:
    with BoundedCluster(tmp_path, "{max: 1 MB, full: skip}") as c, connect(c.path) as connection:
        absent = connection.subscribe("some", client="absent", hold=True)
        first = absent.next(60)
        assert first is not None
        absent.close()
        reader = Reader(connection.subscribe("some", client="reader"))
        c.until(lambda: reader.rows >= ROWS)
        assert reader.rows == ROWS, "who is there gets everything"
        assert reader.skipped == []
        assert c.logs("a")["some"]["consumers"]["absent"]["lapsed"]
        lapsed = c.events("a", "lease_lapsed")
        assert [(e["stream"], e["consumer"]) for e in lapsed] == [("some", "absent")]
        back = connection.subscribe("some", client="absent", after=first.bucket)
        change = back.next(30)
        before = (ChangeKind.TENTATIVE, ChangeKind.UNDO)  # where a busy machine is late
        while change is not None and change.kind in before:
            change = back.next(30)
        assert change is not None
        assert change.kind is ChangeKind.SKIPPED
        assert change.bucket > first.bucket
        assert [e["consumer"] for e in c.events("a", "lease_renewed")] == ["absent"]
        print(f"at most {c.most:,} bytes on disk")


def test_a_lease_ends_the_wait_for_who_never_comes(tmp_path: Path) -> None:
    leases = "leases: {clients: 3 s}\n"
    with BoundedCluster(tmp_path, "{max: 1 MB}", leases) as c, connect(c.path) as connection:
        reader = Reader(connection.subscribe("some", client="reader"))
        c.until(lambda: reader.rows >= ROWS)
        assert reader.rows == ROWS
        assert [e["consumer"] for e in c.events("a", "lease_lapsed")] == ["absent"]
        print(f"at most {c.most:,} bytes on disk")
