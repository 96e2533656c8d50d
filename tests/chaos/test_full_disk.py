"""The disk of one replica is full for a while."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.test_processes import Processes

from australis.runtime.testbed import Testbed
from australis.scenarios.recorded import broken_promises
from research.bench import clusters

pytestmark = pytest.mark.timeout(300)

COUNTS = """\
  merged: {union: [s1, s2]}
  counts:
    aggregate: merged
    window: 500 ms
    by: [protocol]
    compute: {n: count(*)}
"""


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A cluster whose node `a` has a disk of its own, a small one."""
    disk = tmp_path / "state" / "a"
    disk.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield clusters.write(
        tmp_path,
        operators=COUNTS,
        nodes=dict.fromkeys(("a", "b", "e1", "e2"), "reference"),
        replicas={"counts": ["a", "b"]},
        sources={"s1": "e1", "s2": "e2"},
        stream="counts",
        rate=100,
        bucket="100 ms",
        max_delay="3 s",
    )
    subprocess.run(["umount", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Take all the room that is left."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 512):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return filler


def test_a_replica_without_room_ends_and_another_goes_on(path: Path) -> None:
    disk = path.parent / "state" / "a"
    with Testbed(path, "counts") as testbed:
        testbed.wait_until_stable()
        for _ in range(2):
            filler = fill(disk)
            process = testbed.process("a")
            testbed.until(lambda p=process: p.poll() is not None, "the node did not notice")  # type: ignore[misc]
            said = (path.parent / "state" / "a.txt").read_text()
            assert "No space left on device" in said.strip().splitlines()[-1]
            assert "Traceback" not in said
            upto = testbed.stable_upto
            testbed.until(lambda upto=upto: testbed.stable_upto > upto + 20, "it does not go on")  # type: ignore[misc]
            filler.unlink()
            testbed.start("a")
            testbed.until(lambda: set(testbed.states().values()) == {"STABLE"}, "no recovery")
        assert testbed.tentative() == []
        verdict = testbed.verdict()
        assert (verdict.lost, verdict.duplicated, verdict.equal) == (0, 0, True)
    assert broken_promises(testbed) == []


def test_up_starts_a_node_again_until_its_disk_has_room(path: Path) -> None:
    """Its log.txt and events are on that disk too, and a reader holds its stream open."""
    state = path.parent / "state"
    run = Processes(path)
    try:
        run.run("up", "--detach")
        run.until(lambda: stream_states(run) == dict.fromkeys(("a", "b"), "STABLE"))
        reader = subprocess.Popen(
            [sys.executable, "-m", "australis.cli.main", "tail", str(path), "counts"],
            stdout=subprocess.DEVNULL,
        )
        run.until(lambda: run.status()["a"]["guests"] == 1)
        reader.send_signal(signal.SIGSTOP)
        filler = fill(state / "a")
        said = state / "up.txt"
        run.until(lambda: said.read_text().count("node a has ended") >= 2)
        assert "Traceback" not in said.read_text()
        run.until(lambda: stream_states(run).get("b") == "STABLE")
        shown = run.run("status", code=1) if "a" not in run.status() else run.run("status")
        assert "has ended" in " ".join(shown.split())
        filler.unlink()
        run.until(lambda: stream_states(run) == dict.fromkeys(("a", "b"), "STABLE"))
        reader.kill()
        reader.wait()
        upto = run.status()["a"]["outputs"]["counts"]["upto"]
        run.until(lambda: run.status()["a"]["outputs"]["counts"]["upto"] > upto + 20)
        assert run.status()["a"]["outputs"]["counts"]["differs"] == []
    finally:
        began = time.monotonic()
        run.run("down")
    assert time.monotonic() - began < 10


def stream_states(run: Processes) -> dict[str, str]:
    """The state of the output at each replica that answers."""
    found = run.status()
    return {n: found[n]["outputs"]["counts"]["state"] for n in ("a", "b") if n in found}
