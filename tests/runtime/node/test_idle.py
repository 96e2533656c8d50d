"""A source with times of its own that gives no rows, on real nodes with the reference engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from runtime.node.small_cluster import write_cluster

from australis.cli.main import cli
from australis.runtime.admin import AdminClient
from australis.runtime.client import Change, ChangeKind, connect, load_cluster
from australis.runtime.node.process import Node
from australis.runtime.overview import overview

DIAGRAM = """
diagram: small
bucket: 100 ms
sources:
  s1: {{push: true, time: t, schema: "t bigint, k int"}}
  s2: {{push: true, time: t, schema: "t bigint, k int"{idle}}}
operators:
  merged: {{union: [s1, s2]}}
  counts: {{filter: merged, where: k >= 0}}
"""


class Timed:
    """A cluster whose source s1 always gives rows, and s2 only when a test gives some."""

    def __init__(self, directory: Path, idle: str) -> None:
        self.path = write_cluster(directory, max_delay="3 s")
        (directory / "diagram.yaml").write_text(DIAGRAM.format(idle=idle))
        self.cluster, self.diagram, self.base = load_cluster(self.path)
        self.nodes: dict[str, Node] = {}
        self.changes: list[Change] = []
        self._stopping = threading.Event()
        for name in self.cluster.nodes:
            self.start(name)
        for target in (self._push, self._listen):
            threading.Thread(target=target, daemon=True).start()

    def start(self, name: str) -> None:
        node = Node(self.cluster, self.diagram, name, base=self.base)
        self.nodes[name] = node.start()

    def give(self, node: str, source: str, ago_us: int = 0) -> None:
        self.nodes[node].push(source, [{"t": time.time_ns() // 1000 - ago_us, "k": 1}])

    def _push(self) -> None:
        while not self._stopping.wait(0.03):
            self.give("e1", "s1")

    def _listen(self) -> None:
        with connect(self.path) as connection:
            for change in connection.subscribe("counts"):
                self.changes.append(change)

    def status(self) -> dict[str, Any]:
        return overview(AdminClient(self.cluster, self.base), self.diagram)["nodes"]

    def rows(self, kind: ChangeKind) -> int:
        return sum(c.rows for c in list(self.changes) if c.kind is kind)

    def until(self, what: Callable[[], bool], timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not what():
            assert time.monotonic() < deadline, self.status()
            time.sleep(0.05)

    def close(self) -> None:
        self._stopping.set()
        time.sleep(0.1)
        for node in self.nodes.values():
            node.stop()


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[str], Timed]]:
    open_ones: list[Timed] = []

    def make(idle: str) -> Timed:
        open_ones.append(Timed(tmp_path, idle))
        return open_ones[-1]

    yield make
    for one in open_ones:
        one.close()


def test_results_go_on_stable_without_rows_of_an_idle_source(made: Callable[[str], Timed]) -> None:
    small = made(", idle: 500 ms")
    small.until(lambda: small.rows(ChangeKind.INSERTION) > 30)
    small.give("e2", "s2")
    known = small.rows(ChangeKind.INSERTION)
    small.until(lambda: small.rows(ChangeKind.INSERTION) > known + 60)
    assert small.status()["e2"]["sources"]["s2"]["idle"]
    assert small.rows(ChangeKind.TENTATIVE) == 0
    boundary = small.nodes["e2"].sources["s2"].closed
    small.nodes.pop("e2").stop()
    small.start("e2")
    assert small.nodes["e2"].sources["s2"].closed >= boundary
    small.give("e2", "s2", ago_us=5_000_000)
    small.until(lambda: small.status()["e2"]["sources"]["s2"]["late"] == 1)
    (late,) = (small.base / "state" / "e2").rglob("late/s2.jsonl")
    small.until(lambda: late.read_text().count("\n") == 1)


def test_the_source_that_all_wait_for_is_named(made: Callable[[str], Timed]) -> None:
    small = made("")
    small.give("e2", "s2")
    small.until(lambda: small.rows(ChangeKind.TENTATIVE) > 0)

    def waits() -> dict[str, Any]:
        return small.status()["a"]["outputs"]["counts"]["waits_for"]

    small.until(lambda: waits()["long"])
    wait = waits()
    assert (wait["stream"], wait["source"]) == ("s2", "s2")
    assert wait["waits_s"] > 1.0
    assert "counts waits for s2" in CliRunner().invoke(cli, ["status", str(small.path)]).output
