"""Two replicas on Spark, each a process of its own, through all that may happen to them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from australis.runtime.processes import runs
from australis.runtime.testbed import Testbed
from australis.scenarios.recorded import broken_promises
from research.bench import clusters

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(1200)]

REPLICAS = ("a", "b")
COUNTS = """\
  merged: {union: [s1, s2]}
  counts:
    aggregate: merged
    window: 1 s
    by: [protocol]
    compute: {n: count(*)}
"""


def written(directory: Path) -> Path:
    return clusters.write(
        directory,
        operators=COUNTS,
        nodes={"a": "spark", "b": "spark", "e1": "reference", "e2": "reference"},
        replicas={"counts": REPLICAS},
        sources={"s1": "e1", "s2": "e2"},
        stream="counts",
        rate=100,
        bucket="500 ms",
        max_delay="6 s",
    )


@pytest.fixture(scope="module")
def testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    with Testbed(written(tmp_path_factory.mktemp("spark")), "counts") as one:
        one.wait_until_stable()
        yield one
    assert broken_promises(one) == [], "the simulated world's checkers over all of it"


def goes_on(testbed: Testbed, buckets: int = 10, timeout_s: float = 120) -> None:
    before = testbed.stable_upto
    testbed.until(lambda: testbed.stable_upto >= before + buckets, "it does not go on", timeout_s)


def recovers(testbed: Testbed) -> None:
    testbed.until(lambda: set(testbed.states().values()) == {"STABLE"}, "not stable again", 240)


def right(testbed: Testbed) -> None:
    goes_on(testbed, 4)
    testbed.until(lambda: not testbed.uncorrected, "not everything was corrected", 120)
    verdict = testbed.verdict()
    assert (verdict.lost, verdict.duplicated, verdict.equal) == (0, 0, True)


def java_of(testbed: Testbed, node: str) -> int:
    """The Java process of a node."""
    found = subprocess.run(
        ["pgrep", "-g", str(testbed.process(node).pid), "java"],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(found.stdout.split()[0])


def test_each_replica_is_killed_in_turn(testbed: Testbed) -> None:
    for node in REPLICAS:
        testbed.kill(node)
        goes_on(testbed)
        testbed.start(node)
        recovers(testbed)
    right(testbed)


def test_a_replica_is_killed_again_while_it_catches_up(testbed: Testbed) -> None:
    node = testbed.followed()
    testbed.kill(node)
    goes_on(testbed, 20)
    for seconds in (6, 12):
        testbed.start(node)
        testbed.wait(seconds)
        testbed.kill(node)
    testbed.start(node)
    recovers(testbed)
    right(testbed)


def test_java_alone_is_killed(testbed: Testbed) -> None:
    node = testbed.followed()
    os.kill(java_of(testbed, node), signal.SIGKILL)
    process = testbed.process(node)
    testbed.until(lambda: process.poll() is not None, "the node did not notice", 60)
    goes_on(testbed)
    testbed.start(node)
    recovers(testbed)
    right(testbed)


def test_a_replica_stands_still_for_a_while(testbed: Testbed) -> None:
    node = testbed.followed()
    testbed.pause(node)
    goes_on(testbed, 20)
    testbed.resume(node)
    recovers(testbed)
    right(testbed)


def test_a_source_is_cut_off_and_a_replica_killed_meanwhile(testbed: Testbed) -> None:
    told = len(testbed.tentative())
    testbed.cut(REPLICAS, "e2")
    testbed.until(lambda: len(testbed.tentative()) > told, "nothing tentative came", 60)
    node = testbed.followed()
    testbed.kill(node)
    told = len(testbed.tentative())
    testbed.until(lambda: len(testbed.tentative()) > told + 2, "the other one says nothing", 60)
    testbed.heal(REPLICAS, "e2")
    testbed.start(node)
    recovers(testbed)
    right(testbed)


def test_a_replica_loses_its_disk(testbed: Testbed) -> None:
    node = testbed.followed()
    testbed.kill(node)
    shutil.rmtree(testbed.base / testbed.cluster.state / node)
    testbed.start(node)
    recovers(testbed)
    testbed.kill(next(n for n in REPLICAS if n != node))
    goes_on(testbed)
    testbed.start(next(n for n in REPLICAS if n != node))
    recovers(testbed)
    right(testbed)


def test_all_are_killed_at_once(testbed: Testbed) -> None:
    for node in testbed.cluster.nodes:
        testbed.kill(node)
    for node in testbed.cluster.nodes:
        testbed.start(node)
    goes_on(testbed, 10, 240)
    recovers(testbed)
    right(testbed)


def test_a_replica_stops_within_ten_seconds_and_its_jvm_with_it(testbed: Testbed) -> None:
    """While its lanes work; the other replica goes on."""
    named = testbed.base / testbed.cluster.state / "a" / "spark.pid"
    jvm = named.read_text().strip()
    assert runs(jvm)
    began = time.monotonic()
    testbed.process("a").send_signal(signal.SIGTERM)
    testbed.process("a").wait(30)
    assert time.monotonic() - began < 10
    assert not runs(jvm)
    goes_on(testbed)
    testbed.start("a")
    recovers(testbed)
