"""Sinks of a cluster whose nodes are killed with kill -9: each tuple is written exactly once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from australis.kernel.ids import unpack_id
from australis.runtime.admin import AdminClient
from australis.runtime.client import load_cluster
from australis.runtime.load import load
from australis.runtime.processes import named_in, number
from australis.runtime.run import Running
from australis.runtime.supervise import pid_file

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("AUSTRALIS_KILLS", "20"))
AUSTRALIS = (sys.executable, "-m", "australis.cli.main")
DIAGRAM = """
diagram: traffic
bucket: 500 ms
sources:
  site0: {{generate: connections, rate: 100, duration: "{stream_s} s", speed: {speed}, start: "2026-01-01T00:00:00Z"}}
operators:
  per_protocol: {{aggregate: site0, window: 2 s, slide: 1 s, by: [protocol], compute: {{n: count(*)}}}}
  big: {{filter: site0, where: bytes > 20000}}
sinks:
  counts: {{from: per_protocol, jsonl: {out}/counts.jsonl}}
  large: {{from: big, parquet: {out}/large}}
"""
CLUSTER = """
cluster: sinks
diagram: up.yaml
max_delay: 30 s
nodes:
  a: {{address: "127.0.0.1:{port0}", engine: {engine}, memory: 512m}}
  b: {{address: "127.0.0.1:{port1}", engine: {engine}, memory: 512m}}
  e: {{address: "127.0.0.1:{port2}", engine: reference}}
replicas: {{per_protocol: [a, b], big: [b, a]}}
sources: {{site0: e}}
sinks: {{counts: {{node: b}}}}
"""


def rows_of(out: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What both sinks have written, in the order in which it stands in the files."""
    path = out / "counts.jsonl"
    counts = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    parts = sorted((out / "large").glob("part-*.parquet"))
    return counts, [row for part in parts for row in pq.read_table(part).to_pylist()]


@contextmanager
def up(cluster: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (cluster.parent / "up.log").open("wb") as log:
        process = subprocess.Popen([*AUSTRALIS, "up", str(cluster)], stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(120)


def kill(state: Path, node: str) -> bool:
    """Kill -9 a node, if it runs."""
    found = named_in(pid_file(state, node))
    if found is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(number(found), signal.SIGKILL)
    return True


def taken(admin: AdminClient) -> int:
    """The last bucket that both sinks have taken; -1 while one is not there."""
    answers = admin.ask_all(admin.cluster.nodes, "status").values()
    sinks = [sink for answer in answers if answer for sink in answer["sinks"].values()]
    return min((sink["taken"] for sink in sinks), default=-1) if len(sinks) == 2 else -1


@pytest.mark.parametrize(
    ("engine", "stream_s", "speed", "pause_s"),
    [("reference", 240, 3, (1.0, 3.0)), ("spark", 720, 1.5, (16.0, 26.0))],
)
def test_files_are_those_of_an_undisturbed_run(
    tmp_path: Path, engine: str, stream_s: int, speed: float, pause_s: tuple[float, float]
) -> None:
    from runtime.node.small_cluster import free_ports

    whole = {"stream_s": stream_s, "speed": speed}
    (tmp_path / "run.yaml").write_text(DIAGRAM.format(out="alone", **whole | {"speed": "max"}))
    (tmp_path / "up.yaml").write_text(DIAGRAM.format(out="cluster", **whole))
    ports = dict(zip(("port0", "port1", "port2"), free_ports(3), strict=True))
    (tmp_path / "cluster.yaml").write_text(CLUSTER.format(engine=engine, **ports))
    with Running(load(tmp_path / "run.yaml"), tmp_path / "state", base=tmp_path) as running:
        running.start()
        running.wait()
    wanted = rows_of(tmp_path / "alone")
    assert min(map(len, wanted)) > 100

    cluster, _, base = load_cluster(tmp_path / "cluster.yaml", needs_epoch=False)
    state, chance = base / cluster.state, random.Random(stream_s)
    killed: list[str] = []
    with up(tmp_path / "cluster.yaml") as process:
        while len(killed) < KILLS:
            time.sleep(chance.uniform(*pause_s))
            node = chance.choice(["a", "b", "e"])
            if kill(state, node):
                killed.append(node)
        deadline, last = time.monotonic() + 900, [unpack_id(rows[-1]["_id"])[0] for rows in wanted]
        admin = AdminClient(cluster, base)
        while taken(admin) < max(last):
            assert process.poll() is None, (tmp_path / "up.log").read_text()
            assert time.monotonic() < deadline, (killed, taken(admin), last)
            time.sleep(1)
    assert rows_of(tmp_path / "cluster") == wanted
    assert len(killed) == KILLS
    assert {*killed} == {"a", "b", "e"}
