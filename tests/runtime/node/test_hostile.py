"""A flood of connections, readers that never read and a mad guest: nobody else notices."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from runtime.node import attacker
from runtime.node.small_cluster import SmallCluster
from runtime.node.test_bad_input import events
from runtime.node.test_cluster import check

from australis.node.admission import MAX_UNKNOWN
from australis.runtime.client import ChangeKind, connect
from australis.runtime.node.metrics import MAX_CONNECTIONS

pytestmark = [pytest.mark.timeout(120), pytest.mark.long]
MAX_DELAY_S = 3.0
ATTACK_S = 10.0
FEW = "  few: {stream: counts}\n"


class Watch:
    """How late each stable bucket came to a reader, and what was tentative."""

    def __init__(self, cluster: SmallCluster) -> None:
        self.late_s: list[float] = []
        self.tentative = 0
        self._buckets = cluster.diagram.buckets
        self._connection = connect(cluster.path, identity="reader")
        self._subscription = self._connection.subscribe("counts", guest=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for change in self._subscription:
            if change.kind is ChangeKind.INSERTION:
                end_us = self._buckets.end(change.bucket)
                self.late_s.append(time.time() - end_us / 1e6)
            elif change.kind is ChangeKind.TENTATIVE:
                self.tentative += change.rows

    def close(self) -> None:
        self._connection.close()
        self._thread.join(5)


def test_an_attack_delays_nothing_and_makes_nothing_tentative(tmp_path: Path) -> None:
    with SmallCluster(
        tmp_path, max_delay=f"{MAX_DELAY_S:g} s", tls=True, metrics=True, clients=FEW
    ) as c:
        c.until(lambda: len(c.stable()) > 20)
        watch = Watch(c)
        c.until(lambda: len(watch.late_s) > 5)
        command = [sys.executable, attacker.__file__, str(c.path), str(ATTACK_S), "few"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        did = json.loads(done.stdout)
        assert did["connections"] > 1100
        assert did["sleepers"] == 4
        assert did["heartbeats"] > 200
        node = c.nodes["a"]
        status = node.status()
        assert node._server is not None
        assert len(node._server.listener) <= MAX_UNKNOWN + 32
        assert node._metrics is not None
        assert len(node._metrics.listener) <= MAX_CONNECTIONS
        assert status["refused_connections"]["unidentified"] > 100
        assert status["over_budget"]["guest"] > 0
        assert status["over_budget"]["peer"] == 0
        assert 0 < len(events(c, "a", "connection_refused")) < 100
        assert "few" in {e["by"] for e in events(c, "a", "over_budget")}
        assert len(watch.late_s) > 5 + ATTACK_S * 5
        watch.close()
        assert max(watch.late_s) < MAX_DELAY_S
        assert watch.tentative == c.tentative == 0
        check(c)
