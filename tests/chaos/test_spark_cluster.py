"""Two replicas on Spark, each a process of its own: killed, cut off, healed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow.flight as fl
import pytest
from live.node.small_cluster import SmallCluster
from live.node.test_cluster import check

from australis.live.client import Kind
from australis.live.node.process import connect
from australis.live.node.server import ask

pytestmark = pytest.mark.timeout(600)
REPLICAS = ("a", "b")


class SparkCluster(SmallCluster):
    """A small cluster whose replicas run on Spark."""

    def __init__(self, directory: Path, **options: str) -> None:
        super().__init__(directory, replicas="spark", bucket="500 ms", **options)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        if name not in REPLICAS:
            super().start(name)
            return
        command = [sys.executable, "-m", "australis", "node", name, "--cluster", str(self.path)]
        with (self.path.parent / f"{name}.txt").open("ab") as said:
            self.processes[name] = subprocess.Popen(command, stdout=said, stderr=said)

    def kill(self, name: str) -> None:
        """kill -9."""
        self.processes[name].send_signal(signal.SIGKILL)
        self.processes[name].wait()

    def state(self, name: str) -> str:
        """What a replica says of its output."""
        return str(self.status(name).get("outputs", {}).get("counts", {}).get("state"))

    def status(self, name: str) -> dict[str, Any]:
        """What a node says of itself; nothing if it does not answer."""
        try:
            with connect(self.cluster, name, None) as client:
                answer: dict[str, Any] = ask(client, "status", timeout_s=2)
                return answer
        except fl.FlightError:
            return {}

    def cut(self, one: str, other: str) -> None:
        self.nodes[other].fault({"kind": "cut", "node": one})

    def heal(self, one: str, other: str) -> None:
        self.nodes[other].fault({"kind": "heal", "node": one})

    def explain(self) -> str:
        said = [(self.path.parent / f"{r}.txt").read_text()[-2000:] for r in REPLICAS]
        return "\n".join([super().explain(), *(str(self.status(r)) for r in REPLICAS), *said])

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)


def test_killed_cut_off_and_healed(tmp_path: Path) -> None:
    with SparkCluster(tmp_path, max_delay="5 s") as c:
        c.until(lambda: len(c.stable()) > 6, 180)
        c.until(lambda: all(c.state(r) == "STABLE" for r in REPLICAS), 120)
        for name in REPLICAS:
            c.kill(name)
            before = c.stable_upto
            c.until(lambda before=before: c.stable_upto > before + 8, 60)  # type: ignore[misc]
            c.start(name)
            c.until(lambda name=name: c.state(name) == "STABLE", 120)  # type: ignore[misc]
        for replica in REPLICAS:
            c.cut(replica, "e2")
        told = c.tentative
        c.until(lambda: c.tentative > told + 5, 60)
        for replica in REPLICAS:
            c.heal(replica, "e2")
        c.until(lambda: c.changes[-1].kind is Kind.STABLE, 60)
        check(c)
