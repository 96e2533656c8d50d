"""Processes are known by more than their number, and end when they are asked to or later."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from australis.kernel.errors import UserError
from australis.runtime.processes import PidFile, end, identity, named_in, number, runs, send

STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"


def started(code: str = "print(1, flush=True)") -> subprocess.Popen[bytes]:
    """A process that waits for long, once it is ready."""
    command = [sys.executable, "-c", f"{code}; import time; time.sleep(600)"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    one = started()
    yield one
    one.kill()
    one.wait()


def test_a_process_and_its_end(process: subprocess.Popen[bytes]) -> None:
    who = identity(process.pid)
    assert number(who) == process.pid
    assert runs(who)
    process.kill()
    end([who], 10)
    assert identity(process.pid) == "", "it has not been waited for, but it is gone"
    process.wait()
    assert not runs(who)
    assert not send(who, signal.SIGTERM)


def test_another_process_with_the_same_number_is_left_alone(
    process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    pid, began, boot = identity(process.pid).split()
    before = f"{pid} {int(began) - 1} {boot}"
    assert not send(before, signal.SIGKILL)
    end([before])
    path = tmp_path / "pid"
    path.write_text(before)
    assert named_in(path) is None
    assert process.poll() is None


def test_a_process_that_stands_still_is_asked_to_end_too(
    process: subprocess.Popen[bytes],
) -> None:
    process.send_signal(signal.SIGSTOP)
    end([identity(process.pid)], 30)
    assert process.wait() == -signal.SIGTERM


def test_a_process_that_does_not_end_is_killed() -> None:
    process = started(STUBBORN)
    end([identity(process.pid)], 0.2)
    assert process.wait() == -signal.SIGKILL


def test_a_file_names_its_process_while_it_is_held(tmp_path: Path) -> None:
    path = tmp_path / "below" / "pid"
    assert named_in(path) is None
    with PidFile(path, "a"):
        assert named_in(path) == identity(os.getpid())
        with pytest.raises(UserError, match=rf"'a' runs already \(pid {os.getpid()}\)"):
            PidFile(path, "a").__enter__()
    assert named_in(path) is None
    with PidFile(path, "a"):
        pass


@pytest.mark.parametrize("content", ["", "nonsense", "1", "0 0 0", "99999999 5 x"])
def test_a_file_that_names_nobody(tmp_path: Path, content: str) -> None:
    path = tmp_path / "pid"
    path.write_text(content)
    assert named_in(path) is None


def test_a_process_that_was_killed_holds_no_file(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    code = (
        "from pathlib import Path; from australis.runtime.processes import PidFile;"
        f"held = PidFile(Path({str(path)!r}), 'a').__enter__(); print(1, flush=True)"
    )
    process = started(code)
    assert named_in(path) == identity(process.pid)
    process.kill()
    process.wait()
    assert named_in(path) is None
    with PidFile(path, "a"):
        pass
