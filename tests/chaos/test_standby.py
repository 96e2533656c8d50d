"""A node with a source is killed for good, and the stream goes on from the standby."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from australis.runtime.admin import AdminClient
from australis.runtime.testbed import Testbed, free_ports, rows_of

pytestmark = pytest.mark.timeout(300)

DIAGRAM = """
diagram: small
bucket: 100 ms
sources:
  s1: {{{source}}}
operators:
  {operator}
"""
CLUSTER = """
cluster: small
diagram: diagram.yaml
state: state
max_delay: 20 s
heartbeat: 100 ms
nodes:
{nodes}
replicas: {{{result}: [a, b]}}
sources: {{s1: {{node: e1, standby: e2}}}}
clients: {{client: {{stream: {result}}}}}
faults: allowed
"""


def written(directory: Path, source: str, operator: str) -> Path:
    """The files of a cluster whose source has a standby; `a` is the witness."""
    text = DIAGRAM.format(source=source, operator=operator)
    (directory / "diagram.yaml").write_text(text)
    nodes = "\n".join(
        f'  {name}: {{address: "127.0.0.1:{port}", engine: reference}}'
        for name, port in zip(("a", "b", "e1", "e2"), free_ports(4), strict=True)
    )
    path = directory / "cluster.yaml"
    path.write_text(CLUSTER.format(nodes=nodes, result=operator.partition(":")[0]))
    return path


def leader(testbed: Testbed) -> str | None:
    """The node that leads `s1`, once the other one is its standby, or it leads alone."""
    answers = AdminClient(testbed.cluster, testbed.base).ask_all(("e1", "e2"), "status")
    told = {n: a["sources"]["s1"]["role"] for n, a in answers.items() if a is not None}
    for node, role in told.items():
        others = [r for n, r in told.items() if n != node]
        if (role, others) in (("leads", ["standby"]), ("leads alone", [])):
            return node
    return None


def events(testbed: Testbed, node: str) -> list[dict[str, Any]]:
    path = testbed.base / testbed.cluster.state / node / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def goes_on(testbed: Testbed, buckets: int = 30) -> None:
    upto = testbed.stable_upto
    testbed.until(lambda: testbed.stable_upto > upto + buckets, "it does not go on")


def test_rows_that_can_be_asked_for_again_come_out_the_same(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    rows = [
        {"at": (now + timedelta(milliseconds=25 * i)).isoformat(), "k": i % 7} for i in range(4000)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    source = 'jsonl: rows.jsonl, time: at, schema: "at timestamp, k int", speed: 1'
    counts = "counts: {aggregate: s1, window: 500 ms, by: [k], compute: {n: count(*)}}"
    with Testbed(written(tmp_path, source, counts), "counts") as testbed:
        testbed.wait_until_stable()
        testbed.until(lambda: leader(testbed) == "e1", "no standby")
        killed_at = time.monotonic()
        testbed.kill("e1")
        testbed.until(lambda: leader(testbed) == "e2", "nobody takes over")
        goes_on(testbed, buckets=50)
        silence_s = testbed.silence(killed_at, time.monotonic())
        print(f"nothing new for {silence_s:.1f} s")
        assert silence_s < 10
        assert testbed.tentative() == []
        verdict = testbed.verdict()
        assert (verdict.lost, verdict.duplicated, verdict.equal) == (0, 0, True)
        assert [e["event"] for e in events(testbed, "e2")].count("source_leads") == 1


class Producer:
    """Sends numbered rows to an address until it is told that they are durable."""

    def __init__(self, port: int) -> None:
        self.acknowledged = 0
        """The rows before this one were acknowledged."""
        self._port = port
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(0.05):
            with suppress(OSError):
                self._send()

    def _send(self) -> None:
        with socket.create_connection(("127.0.0.1", self._port), timeout=5) as connection:
            told = connection.makefile("r")
            base, sent = self.acknowledged, 0
            while not self._stopping.wait(0.02):
                lines = [json.dumps({"k": base + sent + i}) for i in range(3)]
                connection.sendall("".join(f"{line}\n" for line in lines).encode())
                sent += len(lines)
                while self.acknowledged < base + sent:
                    line = told.readline()
                    if not line:
                        return
                    self.acknowledged = base + int(line)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(10)


@pytest.mark.parametrize("lost", ["e1", "e2"])
def test_rows_that_cannot_are_not_lost_once_they_were_acknowledged(
    tmp_path: Path, lost: str
) -> None:
    (port,) = free_ports(1)
    source = f'tcp: "127.0.0.1:{port}", ack: true, schema: "k int"'
    path = written(tmp_path, source, 'kept: {filter: s1, where: "k >= 0"}')
    with Testbed(path, "kept") as testbed:
        testbed.wait_until_stable()
        testbed.until(lambda: leader(testbed) == "e1", "no standby")
        producer = Producer(port)
        testbed.until(lambda: producer.acknowledged > 150, "nothing is acknowledged")
        before = producer.acknowledged
        testbed.kill(lost)
        stays = "e2" if lost == "e1" else "e1"
        testbed.until(lambda: leader(testbed) == stays, "nobody goes on")
        testbed.until(lambda: producer.acknowledged > before + 150, "nothing more is acknowledged")
        producer.stop()
        goes_on(testbed)
        changes = [h.change for h in testbed.heard if h.change.kind.name == "INSERTION"]
        numbers = [row["k"] for row in rows_of(changes)]
        assert set(range(producer.acknowledged)) <= set(numbers), "what was acknowledged is lost"
        twice = len(numbers) - len(set(numbers))
        assert twice <= 3, "only what was sent again for want of an answer"
