"""Nodes that are kept running; the processes here are no nodes, only their lives are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from runtime.node.small_cluster import write_cluster

from australis.kernel.errors import Stopped, UserError
from australis.runtime import supervise
from australis.runtime.admin import AdminClient
from australis.runtime.client import load_cluster
from australis.runtime.processes import PidFile, identity, is_paused, named_in, number
from australis.runtime.supervise import Supervisor, last_line, pid_file

STAYS = """
import sys, time
from pathlib import Path
from australis.runtime.processes import PidFile
with PidFile(Path("state") / sys.argv[2] / "pid", sys.argv[2]):
    time.sleep(600)
"""


class Watched:
    """A supervisor whose clock is ours."""

    def __init__(self, path: Path) -> None:
        self.said: list[dict[str, Any]] = []
        self.now = 100.0
        self.cluster, _, self.base = load_cluster(path)
        self.supervisor = Supervisor(path, self.cluster, self.base, self._say, lambda: self.now)

    def _say(self, sentence: str, **about: object) -> None:
        self.said.append({"sentence": sentence} | about)

    def pid(self, node: str) -> int | None:
        process = named_in(pid_file(self.base / self.cluster.state, node))
        return None if process is None else number(process)

    @property
    def waits(self) -> list[float]:
        """How long each node that died has to wait."""
        return [about["again_s"] for about in self.said if about["event"] == "ended"]

    def all_run(self) -> bool:
        return all(self.pid(node) is not None for node in self.cluster.nodes)

    def die(self, node: str) -> None:
        """Kill a node, and look until that is noticed."""
        pid, known = self.pid(node), len(self.waits)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: len(self.waits) > known)

    def until(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not what():
            assert time.monotonic() < deadline, self.said
            self.supervisor.look()
            time.sleep(0.02)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    (tmp_path / "stays.py").write_text(STAYS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(supervise, "COMMAND", (sys.executable, "stays.py"))
    monkeypatch.setattr(AdminClient, "says_hello", lambda self, node, timeout_s=1.0: True)
    one = Watched(write_cluster(tmp_path))
    yield one
    one.supervisor.stop()


def test_all_nodes_are_started_and_stopped(watched: Watched) -> None:
    watched.until(watched.all_run)
    pids = [watched.pid(node) for node in watched.cluster.nodes]
    watched.until(lambda: watched.supervisor.ready)
    assert [(a["event"], a["node"]) for a in watched.said] == [
        ("listens", node) for node in ("a", "b", "e1", "e2")
    ]
    address = watched.cluster.nodes["a"].address
    assert watched.said[0]["sentence"] == f"node a listens at {address} (pid {pids[0]})"
    watched.supervisor.stop()
    assert [identity(pid) for pid in pids if pid] == [""] * 4


def test_a_node_that_dies_again_and_again_waits_ever_longer(watched: Watched) -> None:
    watched.until(watched.all_run)
    for times in range(1, 7):
        watched.die("b")
        watched.supervisor.look()
        assert watched.pid("b") is None, "not yet"
        watched.now += watched.waits[-1]
        watched.until(watched.all_run)
        assert len(watched.waits) == times
    assert watched.waits == [0.5, 1, 2, 4, 8, 10]
    assert watched.said[4]["sentence"] == (
        "node b has ended (killed by signal 9): it is started again in 0.5 s"
    )
    watched.now += 61
    watched.die("b")
    assert watched.waits[-1] == 0.5, "it was well for a while"


def test_a_node_that_runs_already_is_looked_after(watched: Watched) -> None:
    watched.until(watched.all_run)
    before = [watched.pid(node) for node in watched.cluster.nodes]
    other = Watched(watched.base / "cluster.yaml")
    other.until(lambda: other.supervisor.ready)
    assert [other.pid(node) for node in other.cluster.nodes] == before
    other.die("a")
    assert "the reason is unknown" in other.said[-1]["sentence"]
    other.now += 1
    other.until(other.all_run)
    other.supervisor.stop()


def test_a_mistake_is_told_and_not_repeated(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AdminClient, "says_hello", lambda self, node, timeout_s=1.0: False)
    Path("stays.py").write_text("import sys; print('australis: no such thing'); sys.exit(2)")
    with pytest.raises(UserError, match=r"'\w+' cannot start: no such thing"):
        watched.until(lambda: False)


REFUSES_WHEN_TOLD = """
import sys, time
from pathlib import Path
from australis.runtime.processes import PidFile
with PidFile(Path("state") / sys.argv[2] / "pid", sys.argv[2]):
    while not Path("refuse").exists():
        time.sleep(0.01)
print("australis: Spark does not start")
sys.exit(2)
"""


def test_a_mistake_that_shows_after_a_node_has_answered(watched: Watched) -> None:
    """Its Spark starts after it has begun to listen."""
    Path("stays.py").write_text(REFUSES_WHEN_TOLD)
    watched.until(lambda: watched.supervisor.ready)
    Path("refuse").touch()
    with pytest.raises(UserError, match=r"^'\w+' cannot go on: Spark does not start$"):
        watched.until(lambda: False)


@pytest.mark.parametrize("spark", [False, True])
def test_a_node_that_has_worked_is_started_again_whatever_it_says(
    watched: Watched, spark: bool
) -> None:
    """The input that it worked with is no mistake; a Spark that never started shows none."""
    Path("stays.py").write_text(REFUSES_WHEN_TOLD)
    nodes = watched.cluster.nodes
    if spark:
        nodes |= {name: replace(node, engine="spark") for name, node in nodes.items()}
    watched.until(lambda: watched.supervisor.ready)
    watched.now += 61
    watched.supervisor.look()
    Path("refuse").touch()
    if spark:
        with pytest.raises(UserError, match=r"^'[ab]' cannot go on: Spark does not start$"):
            watched.until(lambda: False)
    else:
        watched.until(lambda: len(watched.waits) == 4)


def test_a_node_that_fails_says_why(watched: Watched) -> None:
    Path("stays.py").write_text("import sys; print('australis: stopped: disk full'); sys.exit(1)")
    watched.until(lambda: len(watched.waits) == 4)
    assert watched.said[-1]["why"] == "exit code 1: disk full"


def test_the_last_line_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    assert last_line(log) == ""
    log.write_text("one\naustralis: two\n\n")
    assert last_line(log) == "two"
    assert last_line(log, since=log.stat().st_size) == ""


def test_replicas_that_differ_are_told_once(watched: Watched) -> None:
    told = {"machine": "counts@a", "stream": "counts", "replica": "counts@b", "after": 6}
    line = json.dumps(told | {"event": "replicas_differ", "bucket": 7, "stops": True}) + "\n"
    path = pid_file(watched.base / watched.cluster.state, "a").with_name("events.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"event": "phase"}\n' + line[:40])
    watched.supervisor.look()
    watched.supervisor.look()
    with path.open("a") as file:
        file.write(line[40:])
    watched.supervisor.look()
    watched.supervisor.look()
    (said,) = [s["sentence"] for s in watched.said if s["event"] == "replicas_differ"]
    assert said.startswith(
        "counts@a finds that counts differs from counts@b (first in bucket 7..7)"
    )


def test_a_state_that_is_lost_for_good_ends_it_with_what_to_do(watched: Watched) -> None:
    watched.supervisor.look()
    path = pid_file(watched.base / watched.cluster.state, "a").with_name("events.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    why = "no replica has the state of 'counts' any more: remove the state of every node"
    path.write_text(json.dumps({"event": "state_lost", "output": "counts", "why": why}) + "\n")
    with pytest.raises(Stopped, match="node a cannot go on: no replica has the state of 'counts'"):
        watched.supervisor.look()


def test_events_that_are_deleted_do_not_matter(watched: Watched) -> None:
    path = pid_file(watched.base / watched.cluster.state, "a").with_name("events.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"event": "phase"}\n')
    watched.supervisor.look()
    path.unlink()
    watched.supervisor.look()


@pytest.fixture
def silent(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The nodes that do not answer."""
    names: set[str] = set()
    monkeypatch.setattr(
        AdminClient, "says_hello", lambda self, node, timeout_s=1.0: node not in names
    )
    watched.until(watched.all_run)
    watched.until(lambda: watched.supervisor.ready)
    return names


def test_a_paused_node_is_told_and_left_alone_for_long(watched: Watched, silent: set[str]) -> None:
    pid = watched.pid("b")
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    watched.until(lambda: is_paused(identity(pid)))
    silent.add("b")
    for _ in range(50):
        watched.now += 2
        watched.supervisor.look()
    told = [a["sentence"] for a in watched.said if a["event"] == "silent"]
    assert told == [
        f"node b does not answer for 10 s (its process is paused: `kill -CONT {pid}` lets it go"
        " on); after 120 s it is killed and started again"
    ]
    assert watched.pid("b") == pid
    os.kill(pid, signal.SIGCONT)
    silent.clear()
    watched.now += 2
    watched.supervisor.look()
    assert watched.said[-1]["sentence"] == "node b answers again, after 102 s"
    assert not watched.waits


def test_a_node_that_does_not_answer_is_killed_and_started_again(
    watched: Watched, silent: set[str]
) -> None:
    before = watched.pid("b")
    silent.add("b")
    for _ in range(61):
        watched.now += 2
        watched.supervisor.look()
    assert watched.said[-1]["sentence"] == (
        "node b has ended (it did not answer for 120 s and was killed): it is started again in 0.5 s"
    )
    known = supervise.supervised(watched.base / watched.cluster.state)
    assert known == {}, "no supervisor runs that could know"
    path = supervise.supervisor_file(watched.base / watched.cluster.state)
    with PidFile(path, "small"):
        known = supervise.supervised(watched.base / watched.cluster.state)
    assert (known["a"].ended, known["b"].ended) == (0, 1)
    assert known["b"].why == "it did not answer for 120 s and was killed"
    silent.clear()
    watched.now += 1
    watched.until(watched.all_run)
    assert watched.pid("b") != before


def test_the_jvm_of_a_node_ends_with_it(watched: Watched, silent: set[str]) -> None:
    jvm = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    named = pid_file(watched.base / watched.cluster.state, "b").with_name("spark.pid")
    named.write_text(identity(jvm.pid))
    watched.die("b")
    assert jvm.wait(10) == -signal.SIGKILL


def test_an_event_that_was_cut_short_by_a_full_disk_does_not_matter(watched: Watched) -> None:
    path = pid_file(watched.base / watched.cluster.state, "a").with_name("events.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    stuck = json.dumps({"event": "stuck", "why": "the disk has not returned for 60 s"})
    path.write_text('{"event": "pha{"event": "phase"}\n[1]\n' + stuck + "\n")
    watched.supervisor.look()
    (said,) = [s["sentence"] for s in watched.said if s["event"] == "stuck"]
    assert said == "node a: the disk has not returned for 60 s"


def test_a_node_whose_operator_fails_on_the_same_tuples_again_is_left_alone(
    watched: Watched,
) -> None:
    def fails(bucket: int) -> None:
        event = {"event": "operator_failed", "output": "x", "where": f"behind bucket {bucket}"}
        event["why"] = (
            f"the operator 'f' fails on tuples behind bucket {bucket} of 'x': ValueError: v"
        )
        with (watched.base / watched.cluster.state / "b" / "events.jsonl").open("a") as file:
            file.write(json.dumps(event) + "\n")

    watched.until(watched.all_run)
    for bucket in (7, 8):  # another bucket each time, so that there is progress
        fails(bucket)
        watched.die("b")
        watched.now += watched.waits[-1]
        watched.until(watched.all_run)
    fails(8)
    pid = watched.pid("b")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    watched.until(lambda: watched.pid("b") is None)
    for _ in range(5):
        watched.now += 1_000
        watched.supervisor.look()
    assert watched.pid("b") is None
    assert watched.pid("a") is not None
    assert watched.said[-1]["sentence"] == (
        "node b is not started again, because it fails each time: the operator 'f' fails on tuples"
        " behind bucket 8 of 'x': ValueError: v"
    )
