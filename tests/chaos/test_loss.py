"""All replicas of a fragment are killed and their disks are gone, as it happens to people."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from chaos.test_processes import Processes, written

from australis.runtime.client import ChangeKind

pytestmark = pytest.mark.timeout(300)


@contextmanager
def running(directory: Path, window: str) -> Iterator[tuple[Processes, subprocess.Popen[str]]]:
    """A cluster under `australis up`, whose replicas have acknowledged something."""
    path = written(directory)
    diagram = directory / "diagram.yaml"
    diagram.write_text(diagram.read_text().replace("500 ms", window))
    command = [sys.executable, "-m", "australis.cli.main", "up", str(path)]
    up = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    one = Processes(path)
    try:
        one.until(lambda: len(one.status()) == 4)
        threading.Thread(target=one.listen, daemon=True).start()
        one.until(lambda: one.is_stable("a") and one.is_stable("b"))
        one.goes_on()
        known = sources(one, "end")
        one.until(lambda: sources(one, "trimmed_upto") >= known)
        yield one, up
    finally:
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=60)


def sources(one: Processes, what: str) -> int:
    """The smaller one of what both sources say of their logs."""
    told = one.status()
    return min(told[node]["sources"][source][what] for node, source in (("e1", "s1"), ("e2", "s2")))


def lose(one: Processes, up: subprocess.Popen[str]) -> None:
    """Kill both replicas and delete their state; `up` starts them again."""
    pids = {node: one.pid(node) for node in "ab"}
    os.kill(up.pid, signal.SIGSTOP)
    for pid in pids.values():
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    for node in "ab":
        shutil.rmtree(one.state / node)
    os.kill(up.pid, signal.SIGCONT)


def test_a_bounded_state_is_built_anew(tmp_path: Path) -> None:
    with running(tmp_path, "3 s") as (one, up):
        lose(one, up)
        known = len(one.changes)
        one.until(lambda: any(c.kind is ChangeKind.SKIPPED for c in one.changes[known:]))
        one.goes_on(40)
        one.until(lambda: one.is_stable("a") and one.is_stable("b"))
        stable = (ChangeKind.INSERTION, ChangeKind.SKIPPED)
        told = [c for c in one.changes if c.kind in stable]
        jumps = [b.kind for a, b in pairwise(told) if b.bucket != a.bucket + 1]
        assert jumps == [ChangeKind.SKIPPED]


def test_a_state_that_may_rest_on_everything_ends_the_cluster(tmp_path: Path) -> None:
    with running(tmp_path, "7 tuples") as (one, up):
        lose(one, up)
        assert up.wait(120) == 1
        assert up.stderr is not None
        said = up.stderr.read()
        assert "no replica has the state of 'counts' any more" in said
        assert "remove the state of every node to begin anew" in said
        assert [one.pid(node) for node in ("a", "b", "e1", "e2")] == [None] * 4
