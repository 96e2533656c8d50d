"""A small cluster in one process: real ports, real files, the reference engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from australis.kernel.errors import Stopped
from australis.reference import ReferenceEngine
from australis.runtime.certs import issue
from australis.runtime.client import (
    Change,
    ChangeKind,
    Connection,
    Subscription,
    connect,
    load_cluster,
)
from australis.runtime.node.process import Node
from australis.runtime.testbed import free_ports

DIAGRAM = """
diagram: small
bucket: 100 ms
sources:
  s1: {push: true, time: arrival, schema: "k int, v int"}
  s2: {push: true, time: arrival, schema: "k int, v int"}
operators:
  merged: {union: [s1, s2]}
  counts:
    aggregate: merged
    window: 500 ms
    by: [k]
    compute: {n: count(*), total: sum(v)}
"""


ENGINES = dict.fromkeys(("e1", "e2"), "reference")
"""Nodes that only have a source need no Spark."""
TLS = "tls: {ca: certs/ca.pem, certificates: certs}\n"
"""What a cluster file says of certificates."""


def write_cluster(
    directory: Path,
    *,
    max_delay: str = "1 s",
    extra: str = "",
    tls: bool = False,
    replicas: str = "reference",
    bucket: str = "100 ms",
    clients: str = "",
    metrics: bool = False,
    trace: bool = False,
) -> Path:
    """The files of a cluster: two replicas, and a node of its own for each source."""
    (directory / "diagram.yaml").write_text(DIAGRAM.replace("bucket: 100 ms", f"bucket: {bucket}"))
    names = ("a", "b", "e1", "e2")
    if tls:
        issue(directory / "certs", dict.fromkeys((*names, "reader", "few", "operator"), ()))
        extra += TLS
    ports = free_ports(2 * len(names))
    nodes = "\n".join(
        f'  {name}: {{address: "127.0.0.1:{port}", engine: {ENGINES.get(name, replicas)}'
        f"{f', metrics: {ports.pop()}' if metrics else ''}{', trace: true' if trace else ''}}}"
        for name, port in zip(names, ports[: len(names)], strict=True)
    )
    path = directory / "cluster.yaml"
    path.write_text(
        f"cluster: small\ndiagram: diagram.yaml\nstate: state\nmax_delay: {max_delay}\n"
        f"heartbeat: 50 ms\nhop: 50 ms\nepoch: {datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}\n"
        f"nodes:\n{nodes}\nreplicas: {{counts: [a, b]}}\nsources: {{s1: e1, s2: e2}}\n"
        f"clients:\n  reader: {{stream: counts}}\n{clients}faults: allowed\n{extra}"
    )
    return path


class SmallCluster:
    """The cluster, with rows coming in and one client that remembers what it heard."""

    def __init__(self, directory: Path, *, hedge: int = 1, **options: Any) -> None:
        self._hedge = hedge
        self.path = write_cluster(directory, **options)
        self.cluster, self.diagram, self.base = load_cluster(self.path)
        self.errors: list[BaseException] = []
        self.nodes: dict[str, Node] = {}
        self.changes: list[Change] = []
        self.stopped: Stopped | None = None
        """Why the client cannot read on."""
        self.pushed: dict[str, int] = {"s1": 0, "s2": 0}
        self._stopping = threading.Event()
        self._pushing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._connection: Connection | None = None
        self._subscription: Subscription | None = None

    def __enter__(self) -> SmallCluster:
        for name in self.cluster.nodes:
            self.start(name)
        self._connection = connect(self.path)
        self._subscription = self._connection.subscribe("counts", hedge=self._hedge)
        self._pushing.set()
        for target in (self._push, self._listen):
            thread = threading.Thread(target=target, daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def start(self, name: str) -> None:
        """Start a node, or start it again."""
        node = Node(self.cluster, self.diagram, name, base=self.base, on_error=self.errors.append)
        self.nodes[name] = node.start()

    def stop(self, name: str) -> None:
        """Stop a node; what is durable stays."""
        self.nodes.pop(name).stop()

    def _push(self) -> None:
        turn = 0
        while not self._stopping.wait(0.03):
            if not self._pushing.is_set():
                continue
            for source, node in (("s1", "e1"), ("s2", "e2")):
                if node in self.nodes:
                    rows = [{"k": i % 3, "v": turn} for i in range(5)]
                    self.nodes[node].push(source, rows)
                    self.pushed[source] += len(rows)
            turn += 1

    def _listen(self) -> None:
        assert self._subscription is not None
        try:
            for change in self._subscription:
                self.changes.append(change)
        except Stopped as error:
            self.stopped = error

    def cut(self, one: str, other: str) -> None:
        """Inject a fault of the network between two nodes."""
        self.nodes[one].fault({"kind": "cut", "node": other})

    def heal(self, one: str, other: str) -> None:
        """End it."""
        self.nodes[one].fault({"kind": "heal", "node": other})

    # --- what the client heard ------------------------------------------------------------

    @property
    def tentative(self) -> int:
        """How many tentative tuples the client was told."""
        return sum(c.rows for c in self.changes if c.kind is ChangeKind.TENTATIVE)

    @property
    def stable_upto(self) -> int:
        """The last stable bucket the client has."""
        return max((c.bucket for c in self.changes if c.kind is ChangeKind.INSERTION), default=-1)

    def stable(self) -> list[dict[str, Any]]:
        """All stable tuples the client has, in order."""
        batches = [
            c.batch for c in self.changes if c.kind is ChangeKind.INSERTION and c.batch is not None
        ]
        return pa.Table.from_batches(batches).to_pylist() if batches else []

    def until(self, what: Callable[[], bool], timeout_s: float = 30.0) -> None:
        """Wait for something to become true."""
        deadline = time.monotonic() + timeout_s
        while not what():
            assert not self.errors, self.errors
            assert time.monotonic() < deadline, self.explain()
            time.sleep(0.02)

    def explain(self) -> str:
        """What there is to say when something did not happen in time."""
        return "\n".join(f"{name}: {node.status()}" for name, node in self.nodes.items())

    def pause(self) -> None:
        """No more rows."""
        self._pushing.clear()
        time.sleep(0.3)

    def end(self, source: str) -> None:
        """There will be none of this source any more."""
        handle = self.nodes[self.cluster.sources[source]].sources[source].proxy.push_handle
        assert handle is not None
        handle.end()

    def settle(self) -> None:
        """No more rows; wait until the client has the last of them, stable."""
        self.pause()
        last = max(self.nodes[node].sources[s].closed for s, node in (("s1", "e1"), ("s2", "e2")))
        window = 500_000 // self.diagram.bucket_us + 1
        self.until(lambda: self.stable_upto >= last + window)

    def expected(self) -> list[dict[str, Any]]:
        """What one run over all rows of both sources gives, up to where the client is."""
        plan = self.nodes["e1"].topology.plans["counts"]
        schemas = {s.name: s.schema for s in self.diagram.sources}
        engine = ReferenceEngine(plan, schemas, self.diagram.buckets)
        inputs = []
        for source, node in (("s1", "e1"), ("s2", "e2")):
            log = self.nodes[node].sources[source].log(source)
            inputs.append([batch for _, batch in log.read(log.truncated_to, self.stable_upto)])
        _, made = engine.step(engine.initial, inputs, self.stable_upto)
        batches = [batch for _, batch in made]
        return pa.Table.from_batches(batches).to_pylist() if batches else []

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        if self._connection is not None:
            self._connection.close()
        for node in self.nodes.values():
            node.stop()


def check(c: SmallCluster) -> None:
    """Nothing is lost, doubled, out of order or left tentative."""
    c.settle()
    buckets = [x.bucket for x in c.changes if x.kind is ChangeKind.INSERTION]
    assert all(b == a + 1 for a, b in pairwise(buckets)), "every bucket once and in order"
    assert c.stable() == c.expected()
    assert sum(row["n"] for row in c.stable()) == sum(c.pushed.values())
    open_tentative = 0
    for change in c.changes:
        if change.kind is ChangeKind.TENTATIVE:
            open_tentative += 1
        elif change.kind is ChangeKind.UNDO:
            open_tentative = 0
    assert open_tentative == 0, "what was tentative has been taken back"
