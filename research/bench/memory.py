"""The memory of a process and its children, with shared pages counted once."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):  # the process has ended meanwhile
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):  # one of its threads has ended
                for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                    yield int(child)
                    yield from _children(int(child))


def proportional_mb(pid: int) -> float:
    """The proportional set size of one process in MB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def by_kind(pid: int) -> dict[str, float]:
    """MB of the Python processes and of the JVMs in a process tree."""
    total = {"python_mb": 0.0, "jvm_mb": 0.0}
    for one in [pid, *_children(pid)]:
        try:
            command = Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0")[0]
            total["jvm_mb" if b"java" in command else "python_mb"] += proportional_mb(one)
        except (OSError, ValueError):
            continue  # the process has ended meanwhile
    return total


class PeakMemory:
    """Samples this process's tree while in its context."""

    def __init__(self, every_s: float = 0.5) -> None:
        self.peak = {"python_mb": 0.0, "jvm_mb": 0.0}
        self._every_s = every_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="memory")

    def _run(self) -> None:
        while not self._done.wait(self._every_s):
            for kind, megabytes in by_kind(os.getpid()).items():
                self.peak[kind] = max(self.peak[kind], megabytes)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
