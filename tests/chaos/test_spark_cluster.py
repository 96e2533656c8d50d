"""Two replicas on Spark, each a process of its own, through all that may happen to them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

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
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    with Testbed(written(tmp_path_factory.mktemp("spark")), "counts") as one:
        one.wait_until_stable()
        yield one
    assert broken_promises(one) == [], "the simulated world's checkers over all of it"


def goes_on(trial: Testbed, buckets: int = 10, timeout_s: float = 120) -> None:
    before = trial.stable_upto
    trial.until(lambda: trial.stable_upto >= before + buckets, "it does not go on", timeout_s)


def recovers(trial: Testbed) -> None:
    trial.until(lambda: set(trial.states().values()) == {"STABLE"}, "not stable again", 240)


def right(trial: Testbed) -> None:
    goes_on(trial, 4)
    trial.until(lambda: not trial.uncorrected, "not everything was corrected", 120)
    verdict = trial.verdict()
    assert (verdict.lost, verdict.duplicated, verdict.equal) == (0, 0, True)


def java_of(trial: Testbed, node: str) -> int:
    """The Java process of a node."""
    found = subprocess.run(
        ["pgrep", "-g", str(trial.process(node).pid), "java"],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(found.stdout.split()[0])


def test_each_replica_is_killed_in_turn(trial: Testbed) -> None:
    for node in REPLICAS:
        trial.kill(node)
        goes_on(trial)
        trial.start(node)
        recovers(trial)
    right(trial)


def test_a_replica_is_killed_again_while_it_catches_up(trial: Testbed) -> None:
    node = trial.followed()
    trial.kill(node)
    goes_on(trial, 20)
    for seconds in (6, 12):
        trial.start(node)
        trial.wait(seconds)
        trial.kill(node)
    trial.start(node)
    recovers(trial)
    right(trial)


def test_java_alone_is_killed(trial: Testbed) -> None:
    node = trial.followed()
    os.kill(java_of(trial, node), signal.SIGKILL)
    process = trial.process(node)
    trial.until(lambda: process.poll() is not None, "the node did not notice", 60)
    goes_on(trial)
    trial.start(node)
    recovers(trial)
    right(trial)


def test_a_replica_stands_still_for_a_while(trial: Testbed) -> None:
    node = trial.followed()
    trial.pause(node)
    goes_on(trial, 20)
    trial.resume(node)
    recovers(trial)
    right(trial)


def test_a_source_is_cut_off_and_a_replica_killed_meanwhile(trial: Testbed) -> None:
    told = len(trial.tentative())
    trial.cut(REPLICAS, "e2")
    trial.until(lambda: len(trial.tentative()) > told, "nothing tentative came", 60)
    node = trial.followed()
    trial.kill(node)
    told = len(trial.tentative())
    trial.until(lambda: len(trial.tentative()) > told + 2, "the other one says nothing", 60)
    trial.heal(REPLICAS, "e2")
    trial.start(node)
    recovers(trial)
    right(trial)


def test_a_replica_loses_its_disk(trial: Testbed) -> None:
    node = trial.followed()
    trial.kill(node)
    shutil.rmtree(trial.base / trial.cluster.state / node)
    trial.start(node)
    recovers(trial)
    trial.kill(next(n for n in REPLICAS if n != node))
    goes_on(trial)
    trial.start(next(n for n in REPLICAS if n != node))
    recovers(trial)
    right(trial)


def test_all_are_killed_at_once(trial: Testbed) -> None:
    for node in trial.cluster.nodes:
        trial.kill(node)
    for node in trial.cluster.nodes:
        trial.start(node)
    goes_on(trial, 10, 240)
    recovers(trial)
    right(trial)
