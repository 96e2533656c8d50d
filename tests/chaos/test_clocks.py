"""Clocks that disagree: the accepted delay holds on a node whose clock is seconds off."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from chaos.small import write_diagram
from click.testing import CliRunner
from runtime.node.small_cluster import free_ports

from australis.cli.main import cli
from australis.runtime.client import ChangeKind
from australis.runtime.testbed import Testbed

pytestmark = pytest.mark.timeout(300)

X_S = 3.0
SLACK_S = 0.6
"""What a bucket of 100 ms, the network and a busy machine add to X."""
CLOCKS_S = 0.005
"""How far the wall clocks of two processes on one machine may differ when each has read its own."""
CLUSTER = """
cluster: clocks
diagram: diagram.yaml
state: state
max_delay: {x:g} s
nodes:
{nodes}
replicas: {{counts: [a]}}
sources: {{s1: e1, s2: e2}}
clients: {{reader: {{stream: counts}}}}
faults: allowed
"""


def written(directory: Path) -> Path:
    """A cluster whose only replica runs on node `a`."""
    write_diagram(directory)
    nodes = "\n".join(
        f'  {name}: {{address: "127.0.0.1:{port}", engine: reference}}'
        for name, port in zip(("a", "e1", "e2"), free_ports(3), strict=True)
    )
    path = directory / "cluster.yaml"
    path.write_text(CLUSTER.format(x=X_S, nodes=nodes))
    return path


def worst_delay_s(testbed: Testbed, since: float) -> float:
    """The longest time from the end of a bucket at its source to its first arrival, of those that
    ended since a moment."""
    wall = time.time() - time.monotonic()
    buckets, epoch_us, began_us = (
        testbed.diagram.buckets,
        testbed.cluster.epoch_us,
        testbed.began_us,
    )
    assert epoch_us is not None
    first: dict[int, float] = {}
    for heard in list(testbed.heard):
        if heard.change.kind in (ChangeKind.INSERTION, ChangeKind.TENTATIVE):
            first.setdefault(heard.change.bucket, heard.at)
    delays = []
    for number, at in first.items():
        ended = (began_us + buckets.end(number) - epoch_us) / 1e6 - wall
        if ended >= since:
            delays.append(at - ended)
    return max(delays)


def status_of(path: Path) -> dict[str, Any]:
    """What `australis status --json` says."""
    result = CliRunner().invoke(cli, ["status", str(path), "--json"])
    found: dict[str, Any] = json.loads(result.output)
    return found


@pytest.mark.parametrize("shift_s", [-2.0, 2.0], ids=["slow", "fast"])
def test_the_accepted_delay_holds_on_a_node_whose_clock_is_off(
    tmp_path: Path, shift_s: float
) -> None:
    path = written(tmp_path)
    with Testbed(path, "counts", clocks={"a": shift_s}) as testbed:
        testbed.wait_until_stable()
        cut = time.monotonic()
        testbed.cut(["a"], "e2")
        testbed.wait(3 * X_S)
        delay_s = worst_delay_s(testbed, cut)
        seen = status_of(path)["nodes"]["a"]["clocks"]
        print(f"clock {shift_s:+g} s, X {X_S:g} s: at most {delay_s:.2f} s late")
        said = testbed.tentative(cut)
        assert delay_s < X_S + SLACK_S
        assert said[0].at - cut > X_S / 2, "results are tentative only when X requires it"
        for peer in ("e1", "e2"):
            off_s = abs(seen[peer]["offset_s"] + shift_s)
            assert off_s <= seen[peer]["error_s"] + CLOCKS_S
            assert seen[peer]["beyond"]
            assert seen[peer]["sources"] == [peer.replace("e", "s")]
        lines = (path.parent / "state" / "a" / "events.jsonl").read_text().splitlines()
        told = [one for line in lines if (one := json.loads(line))["event"] == "clock_off"]
        assert sorted(one["peer"] for one in told) == ["e1", "e2"], "each is told once"
        shown = CliRunner().invoke(cli, ["status", str(path)]).output
        assert f"clocks seen from a: e1 {-shift_s:+.1f}" in shown.replace("\n", "")
