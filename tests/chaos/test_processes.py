"""A cluster as people run it: real processes, started, killed, paused, cut off and stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from chaos.small import write_diagram
from click.testing import CliRunner
from runtime.node.small_cluster import free_ports

from australis.cli.main import cli
from australis.runtime.admin import AdminClient
from australis.runtime.client import Change, ChangeKind, connect, load_cluster
from australis.runtime.overview import overview
from australis.runtime.processes import identity, named_in, number

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(300)]

NODES = ("a", "b", "e1", "e2")
CLUSTER = """
cluster: small
diagram: diagram.yaml
state: state
max_delay: 2 s
heartbeat: 100 ms
nodes:
{nodes}
replicas: {{counts: [a, b]}}
sources: {{s1: e1, s2: e2}}
clients: {{reader: {{stream: counts}}}}
faults: allowed
"""


def written(directory: Path) -> Path:
    """The files of a cluster whose sources give rows by themselves, from now on."""
    write_diagram(directory)
    nodes = "\n".join(
        f'  {name}: {{address: "127.0.0.1:{port}", engine: reference}}'
        for name, port in zip(NODES, free_ports(4), strict=True)
    )
    path = directory / "cluster.yaml"
    path.write_text(CLUSTER.format(nodes=nodes))
    return path


class Processes:
    """The cluster, and one client that remembers what it heard."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.state = path.parent / "state"
        self.changes: list[Change] = []
        cluster, self._diagram, base = load_cluster(path, needs_epoch=False)
        self._operator = AdminClient(cluster, base)

    def run(self, command: str, *arguments: str, code: int = 0) -> str:
        """A command as a person gives it; what it prints."""
        result = CliRunner().invoke(cli, [*command.split(), str(self.path), *arguments])
        assert result.exit_code == code, f"{result.output}{result.exception}{self.explain()}"
        return result.stdout

    def status(self) -> dict[str, Any]:
        """What all nodes say, those that are not there left out."""
        nodes = overview(self._operator, self._diagram)["nodes"]
        return {name: node for name, node in nodes.items() if node["answers"]}

    def is_stable(self, node: str) -> bool:
        found = self.status().get(node)
        return found is not None and found["outputs"]["counts"]["state"] == "STABLE"

    def pid(self, node: str) -> int | None:
        process = named_in(self.state / node / "pid")
        return None if process is None else number(process)

    @property
    def pids(self) -> list[int | None]:
        return [self.pid(node) for node in NODES]

    def listen(self) -> None:
        """Remember what the client hears."""
        with connect(self.path) as connection:
            for change in connection.subscribe("counts"):
                self.changes.append(change)

    @property
    def stable_upto(self) -> int:
        return max((c.bucket for c in self.changes if c.kind is ChangeKind.INSERTION), default=-1)

    def goes_on(self, buckets: int = 20) -> None:
        """Wait until the client has so many stable buckets more."""
        before = self.stable_upto
        self.until(lambda: self.stable_upto >= before + buckets)

    def until(self, what: Callable[[], bool], timeout_s: float = 120.0) -> None:
        """Wait for something to become true."""
        deadline = time.monotonic() + timeout_s
        while not what():
            assert time.monotonic() < deadline, self.explain()
            time.sleep(0.05)

    def explain(self) -> str:
        """What there is to say when something did not happen in time."""
        logs = [self.state / "up.txt", *self.state.glob("*/log.txt")]
        return "\n".join(f"{log}:\n{log.read_text()}" for log in logs if log.exists())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    one = Processes(written(tmp_path_factory.mktemp("processes")))
    try:
        told = json.loads(one.run("up", "--detach", "--json"))
        assert list(told["nodes"]) == list(NODES)
        threading.Thread(target=one.listen, daemon=True).start()
        one.until(lambda: one.stable_upto > 0)
        yield one
    finally:
        one.run("down")


def test_all_nodes_run(small: Processes) -> None:
    assert "epoch" not in small.path.read_text()
    assert (small.state / "epoch").exists()
    small.until(lambda: small.is_stable("a") and small.is_stable("b"))
    found = small.status()
    assert list(found) == list(NODES)
    assert found["a"]["outputs"]["counts"]["reads"] == {"s1": "s1", "s2": "s2"}
    assert found["e1"]["sources"]["s1"]["rows"] > 0
    assert len({pid for pid in small.pids if pid is not None}) == 4
    for arguments in (["up", small.path], ["node", "a", "--cluster", small.path]):
        assert "runs already" in _refused(*arguments)


def _refused(*arguments: str | Path) -> str:
    """What a command says that ends with exit code 2."""
    command = [sys.executable, "-m", "australis.cli.main", *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (2, "", 1), ran
    return ran.stderr


def test_a_stream_is_printed(small: Processes) -> None:
    lines = small.run("tail", "counts", "--rows", "4", "--stable", "--json").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["_type"] for row in rows if row["_type"] != "SKIPPED"] == ["INSERTION"] * 4
    assert rows[-1]["n"] > 0
    assert "INSERTION" in small.run("tail", "s2", "--rows", "1", "--stable")


def test_a_killed_replica_is_started_again_and_the_output_goes_on(small: Processes) -> None:
    for node in ("a", "b"):
        before = small.pid(node)
        assert f"killed node {node} (pid {before})" in small.run("fault kill", node)
        small.goes_on()
        small.until(lambda: small.pid(node) not in (None, before))  # noqa: B023
        small.until(lambda: small.is_stable(node))  # noqa: B023
    said = (small.state / "up.txt").read_text()
    assert "node a has ended (killed by signal 9): it is started again in " in said


def test_a_paused_replica_is_not_waited_for(small: Processes) -> None:
    before = small.pid("a")
    small.run("fault pause", "a")
    small.goes_on()
    assert "a" not in small.status()
    assert "does not answer at" in small.run("status", code=1)
    small.run("fault resume", "a")
    small.until(lambda: small.is_stable("a"))
    assert small.pid("a") == before, "nobody has started another one"


def test_a_cut_gives_tentative_tuples_and_healing_corrections(small: Processes) -> None:
    begin = len(small.changes)
    for replica in ("a", "b"):
        small.run("fault cut", replica, "e2")
    small.until(
        lambda: any(c.rows for c in small.changes[begin:] if c.kind is ChangeKind.TENTATIVE)
    )
    assert "cut off from e2" in small.run("status")
    for replica in ("a", "b"):
        small.run("fault heal", replica)
    small.until(lambda: small.is_stable("a") and small.is_stable("b"))
    small.goes_on()
    kinds = [c.kind for c in small.changes[begin:]]
    first = kinds.index(ChangeKind.TENTATIVE)
    assert ChangeKind.UNDO in kinds[first:]
    assert ChangeKind.REC_DONE in kinds[first:]


def test_nodes_outlive_whoever_looks_after_them(small: Processes) -> None:
    supervisor = named_in(small.state / "up.pid")
    assert supervisor is not None
    before = small.pids
    os.kill(number(supervisor), signal.SIGKILL)
    small.goes_on(5)
    small.run("up", "--detach")
    assert small.pids == before
    small.run("fault kill", "e1")
    small.until(lambda: small.pid("e1") not in (None, before[2]))
    small.goes_on()


def test_the_client_was_told_every_bucket_once(small: Processes) -> None:
    small.goes_on(1)
    buckets = [c.bucket for c in small.changes if c.kind is ChangeKind.INSERTION]
    assert all(b == a + 1 for a, b in pairwise(buckets))


def test_down_leaves_nothing_behind_and_up_goes_on(small: Processes) -> None:
    supervisor = named_in(small.state / "up.pid")
    pids = [*small.pids, number(supervisor or "0")]
    small.run("fault pause", "b")
    said = json.loads(small.run("down", "--json"))
    assert said["stopped"] == dict(zip(NODES, pids, strict=False))
    assert [identity(pid) for pid in pids if pid] == [""] * 5
    assert small.run("down") == "small does not run on this machine\n"
    small.run("up", "--detach")
    small.goes_on()
