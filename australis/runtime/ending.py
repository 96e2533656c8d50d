"""The end of a process that runs a node: in order if it can, by force after an allowance.

An orderly stop can wait for ever. Flight's server waits for calls whose readers do not read, a
thread may be inside of gRPC, and Python's own end waits for both. What was acknowledged is durable
at any moment (`docs/design/crash-safety.md`), so a process loses nothing by ending at once.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from australis.runtime.processes import end, identity

ALLOWANCE_S = 5.0
"""The time that an orderly stop may take; then the process ends by force."""
CHILDREN_S = 1.5
"""The time that child processes, such as a JVM, may take to end before they are killed."""
LAST_S = ALLOWANCE_S + CHILDREN_S + 0.5
"""The time after which the process ends even if Python can run no thread any more."""
STANDARD_ERROR = 2
OWN = ("MainThread", "last resort")
"""The threads that are not worth naming: they always run."""

TELL_STACKS = signal.SIGUSR2
"""The signal that asks a node for the stacks of its threads, even if it hangs."""

_begun: list[bool] = []


def prepare() -> None:
    """Write the stacks of all threads to standard error on a crash, and when asked for them."""
    faulthandler.enable(STANDARD_ERROR)
    faulthandler.register(TELL_STACKS, STANDARD_ERROR)


def begun() -> bool:
    """Whether this process has begun to end."""
    return bool(_begun)


def begin(why: Callable[[], str] = lambda: "") -> None:
    """End this process within the allowance, whatever its threads do; `why` is told in that case.

    The threads that still run are then named on standard error, after their stacks.
    """
    if _begun:
        return
    _begun.append(True)
    # The second one is no Python thread: it needs no interpreter lock, which one may never give.
    faulthandler.dump_traceback_later(LAST_S, exit=True, file=STANDARD_ERROR)
    threading.Thread(target=_force, args=(why,), name="last resort", daemon=True).start()


def _force(why: Callable[[], str]) -> None:
    time.sleep(ALLOWANCE_S)
    running = ", ".join(t.name for t in threading.enumerate() if t.name not in OWN)
    with suppress(OSError, ValueError):
        faulthandler.dump_traceback(STANDARD_ERROR)
        reason = f"{said}; " if (said := why()) else ""
        sys.stderr.write(
            f"australis: stopped: {reason}it did not stop within {ALLOWANCE_S:g} s and was ended by"
            f" force (still running: {running or 'nothing but its last step'})\n"
        )
    leave(1)


def leave(code: int) -> NoReturn:
    """End this process and all that it has started now, without waiting for any thread."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    with suppress(OSError):
        end(list(children()), CHILDREN_S)
    os._exit(code)


def side_by_side(steps: Iterable[Callable[[], None]]) -> list[Exception]:
    """Carry out all steps, each on a thread of its own; returns the errors of those that failed."""
    failed: list[Exception] = []

    def carry_out(step: Callable[[], None]) -> None:
        try:
            step()
        except Exception as error:
            failed.append(error)

    threads = [
        threading.Thread(target=carry_out, args=(step,), name=f"stop {number}", daemon=True)
        for number, step in enumerate(steps)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def children() -> Iterator[str]:
    """The identities of the processes that this one has started and that still run."""
    mine = str(os.getpid())
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            parent = path.read_text().rpartition(")")[2].split()[1]
            if parent == mine and (who := identity(int(path.parent.name))):
                yield who
