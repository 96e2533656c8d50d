"""The disk of one replica is full for a while."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

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
