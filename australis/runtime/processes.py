"""Processes by their identity, so that no other process with a reused id is ever signalled."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from australis.kernel.errors import UserError
from australis.runtime.files import lock_file, name_holder, unlock_file

EXIT_TIMEOUT_S = 7.5
"""The time after which a process that was asked to end is killed; a node ends by itself before
(`ending.LAST_S`)."""
POLL_S = 0.05


def identity(pid: int) -> str:
    """The id, start time and boot of a process, unique over reused ids; empty if it is gone."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        gone, started = stat[0] in "ZX", stat[19]
    except (OSError, IndexError):
        return ""
    return "" if gone else f"{pid} {started} {boot}"


def number(process: str) -> int:
    """The process id in an identity."""
    return int(process.split()[0])


def runs(process: str) -> bool:
    """Whether exactly this process still runs."""
    return identity(number(process)) == process


def send(process: str, what: signal.Signals) -> bool:
    """Signal exactly this process; returns whether it still ran."""
    try:
        fd = os.pidfd_open(number(process))
    except OSError:
        return False
    try:
        if not runs(process):
            return False
        signal.pidfd_send_signal(fd, what)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def end(
    processes: Collection[str],
    patience_s: float = EXIT_TIMEOUT_S,
    ask: signal.Signals = signal.SIGTERM,
) -> None:
    """Ask processes to end, even paused ones, and kill them after `patience_s`."""
    for process in processes:
        for what in (ask, signal.SIGCONT):
            send(process, what)
    if not _all_gone(processes, patience_s):
        for process in processes:
            send(process, signal.SIGKILL)
        _all_gone(processes, patience_s)


def _all_gone(processes: Collection[str], patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while any(runs(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def is_paused(process: str) -> bool:
    """Whether a process was stopped by a signal (SIGSTOP) and not continued since."""
    with suppress(OSError, IndexError):
        path = Path(f"/proc/{number(process)}/stat")
        return path.read_text().rpartition(")")[2].split()[0] == "T"
    return False


def named_in(path: Path) -> str | None:
    """The process that a `PidFile` names, if it runs."""
    with suppress(OSError, ValueError, IndexError):
        process = path.read_text().strip()
        return process if runs(process) else None
    return None


def outlive(path: Path, patience_s: float = EXIT_TIMEOUT_S) -> None:
    """Wait for the process named here, which ends by itself, and kill it after `patience_s`.

    A Spark whose driver was killed is one: it must not outlive the next start.
    """
    process = named_in(path)
    if process is not None and not _all_gone([process], patience_s):
        send(process, signal.SIGKILL)
        _all_gone([process], patience_s)
    path.unlink(missing_ok=True)


class PidFile:
    """A file that names the one process with a certain task, for as long as it runs."""

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self._what = what
        self._fd: int | None = None

    def __enter__(self) -> PidFile:
        fd = lock_file(self.path)
        if fd is None:
            process = named_in(self.path)
            by = f" (pid {number(process)})" if process else ""
            raise UserError(f"runs already{by}", name=self._what)
        self._fd = fd
        name_holder(fd, self.path, identity(os.getpid()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._fd is not None:
            unlock_file(self._fd)
            self._fd = None
