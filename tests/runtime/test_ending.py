"""A process that runs a node ends within its allowance, whatever its threads and readers do."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from runtime.node.small_cluster import write_cluster

from australis.runtime import ending
from australis.runtime.admin import AdminClient
from australis.runtime.client import load_cluster
from australis.runtime.processes import end, identity

pytestmark = pytest.mark.timeout(120)

AUSTRALIS = (sys.executable, "-m", "australis.cli.main")
LATEST_S = 10.0
"""Every stop ends within it."""


def ends(code: str) -> tuple[int, str, float]:
    """The exit code of a process with this code, its words, and how long it took to end."""
    began = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    return ran.returncode, ran.stderr, time.monotonic() - began


HANGS = """
import threading, time
from australis.runtime import ending
ending.begin(lambda: "cannot write x: No space left on device")
{before}
threading.Thread(target=time.sleep, args=(600,), name="flush of x").start()
"""


def test_a_thread_that_never_ends_is_named_and_does_not_keep_the_process() -> None:
    code, said, took_s = ends(HANGS.format(before=""))
    assert code == 1
    assert took_s < LATEST_S
    assert said.splitlines()[-1] == (
        "australis: stopped: cannot write x: No space left on device; it did not stop within"
        f" {ending.ALLOWANCE_S:g} s and was ended by force (still running: flush of x)"
    )
    assert "most recent call first" in said, "the stacks of the threads"


def test_a_thread_that_never_gives_the_interpreter_lock_does_not_keep_it_either() -> None:
    never = "import ctypes; ctypes.PyDLL(None).sleep(600)"
    code, said, took_s = ends(HANGS.format(before=never))
    assert code == 1
    assert took_s < LATEST_S
    assert "Timeout" in said


def test_its_child_processes_end_with_it_even_stubborn_ones(tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1); time.sleep(600)"
    code, said, took_s = ends(
        "import subprocess, sys\n"
        "from australis.runtime import ending\n"
        f"command = [sys.executable, '-u', '-c', {stubborn!r}]\n"
        "child = subprocess.Popen(command, stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, file=sys.stderr)\n"
        "ending.leave(3)\n"
    )
    assert code == 3
    assert took_s < LATEST_S
    assert identity(int(said)) == ""


def test_a_process_that_hangs_tells_what_its_threads_do_when_it_is_asked(tmp_path: Path) -> None:
    code = (
        "import ctypes; from australis.runtime import ending; ending.prepare()\n"
        "print(1, flush=True)\n"
        "ctypes.PyDLL(None).pause()\n"
        "ctypes.PyDLL(None).pause()\n"
    )
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    end([identity(process.pid)], 1.0, ending.TELL_STACKS)
    assert process.wait(10) == -signal.SIGKILL
    assert "most recent call first" in process.stderr.read()


# --- a node with readers that do not read ---------------------------------------------------------


class Readers:
    """One node with a source that gives much, and readers that stand still."""

    def __init__(self, directory: Path) -> None:
        self.path = write_cluster(directory)
        start = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        diagram = directory / "diagram.yaml"
        busy = f'{{generate: connections, rate: 20000, speed: 1, seed: 7, start: "{start}"}}'
        diagram.write_text(
            f"diagram: small\nbucket: 100 ms\nsources:\n  s1: {busy}\n  s2: {busy}\n"
            "operators:\n  merged: {union: [s1, s2]}\n"
            "  counts: {aggregate: merged, window: 500 ms, compute: {n: count(*)}}\n"
        )
        self._admin = AdminClient(*load_cluster(self.path)[::2])
        self.log = directory / "log.txt"
        self.node: subprocess.Popen[bytes] | None = None
        self._readers: list[subprocess.Popen[bytes]] = []

    def start(self, readers: int = 2) -> None:
        """Start the node, and readers that stop reading once their streams are open."""
        self.node = self._started("node", "e1", "--cluster", str(self.path))
        self._wait(lambda: self._admin.says_hello("e1"))
        self._readers = [self._started("tail", str(self.path), "s1") for _ in range(readers)]
        self._wait(lambda: self._guests == readers)
        time.sleep(0.5)
        for reader in self._readers:
            reader.send_signal(signal.SIGSTOP)
        time.sleep(1.5)  # what is sent to them fills the buffers of their connections

    @property
    def _guests(self) -> int:
        answer = self._admin.ask_all(["e1"], "status")["e1"]
        return 0 if answer is None else int(answer["guests"])

    def _started(self, *arguments: str) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            out = log if arguments[0] == "node" else subprocess.DEVNULL
            return subprocess.Popen([*AUSTRALIS, *arguments], stdout=out, stderr=log)

    def _wait(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not what():
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def stop(self, *signals: signal.Signals) -> float:
        """Signal the node; the time until it has ended."""
        assert self.node is not None
        began = time.monotonic()
        for what in signals:
            self.node.send_signal(what)
            time.sleep(0.02)
        self.node.wait(30)
        took_s = time.monotonic() - began
        self.close()
        return took_s

    def close(self) -> None:
        for process in (*self._readers, self.node):
            if process is not None:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
                process.wait()
        self._readers = []


@pytest.fixture
def readers(tmp_path: Path) -> Iterator[Readers]:
    one = Readers(tmp_path)
    yield one
    one.close()


def test_a_node_whose_readers_stand_still_stops(readers: Readers) -> None:
    readers.start()
    assert readers.stop(signal.SIGTERM) < LATEST_S
    assert readers.node is not None
    assert readers.node.returncode == 0
    assert re.search(r"^node e1 has stopped$", readers.log.read_text(), re.MULTILINE)


IMPATIENT = (signal.SIGTERM, signal.SIGTERM, signal.SIGINT)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_ten_stops_with_readers_that_stand_still(tmp_path: Path) -> None:
    took_s = []
    for number, signals in enumerate(5 * ((signal.SIGINT,), IMPATIENT)):
        (tmp_path / str(number)).mkdir()
        with closing(Readers(tmp_path / str(number))) as readers:
            readers.start()
            took_s.append(readers.stop(*signals))
    print(f"at most {max(took_s):.2f} s: {', '.join(f'{s:.2f}' for s in took_s)}")
    assert max(took_s) < LATEST_S
