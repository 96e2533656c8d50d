"""Several rounds at once, each in a process of its own.

A round notes the time of everything that its client hears. In a process of its own it does not wait
for the checkers of another round.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from australis.kernel.errors import Stopped
from australis.sim.harness.search import interrupts_deferred

if TYPE_CHECKING:
    from australis.scenarios.rounds import Round

Say = Callable[[int, str], None]
"""Receives the progress messages of a round, by its number."""
RunRound = Callable[[int, Say], "Round"]
"""Runs the round with this number; it is pickled."""
Results = Generator[tuple[int, "Round"]]
"""The rounds that finish, with their numbers."""


@dataclass(frozen=True)
class _Running:
    """A round that runs."""

    number: int
    process: multiprocessing.process.BaseProcess
    messages: Connection

    def hear(self) -> str | Round:
        """The next message of its process: its progress, or its result, which is the last one."""
        try:
            heard: str | Round = self.messages.recv()
        except EOFError:
            self.process.join()
            code = self.process.exitcode
            sentence = f"the process of round {self.number} has ended with exit code {code}"
            raise Stopped(sentence) from None
        if not isinstance(heard, str):
            self.process.join()
        return heard


def side_by_side(run: RunRound, numbers: Iterable[int], jobs: int, say: Say) -> Results:
    """Yield the number and result of each round as it finishes, with at most `jobs` at once.

    Rounds that still run when the caller stops, or is interrupted, are interrupted too, and have
    stopped their nodes when this ends.
    """
    todo = deque(numbers)
    running: dict[Connection, _Running] = {}
    try:
        while todo or running:
            while todo and len(running) < jobs:
                with interrupts_deferred():
                    one = _start(run, todo.popleft())
                    running[one.messages] = one
            for messages in wait([*running]):
                assert isinstance(messages, Connection)
                one = running[messages]
                heard = one.hear()
                if isinstance(heard, str):
                    say(one.number, heard)
                else:
                    del running[messages]
                    yield one.number, heard
    finally:
        for one in running.values():
            one.process.terminate()
        for one in running.values():
            one.process.join()


def _start(run: RunRound, number: int) -> _Running:
    spawn = multiprocessing.get_context("spawn")
    receiving, sending = spawn.Pipe(duplex=False)
    # Daemonic: if waiting for it is interrupted, it is still ended with this process.
    process = spawn.Process(target=_work, args=(run, number, sending), daemon=True)
    process.start()
    sending.close()
    return _Running(number, process, receiving)


def _work(run: RunRound, number: int, messages: Connection) -> None:
    """Run a round in this process."""
    try:
        _obey_only_the_parent()
        messages.send(run(number, lambda _number, said: messages.send(said)))
    except KeyboardInterrupt:
        return


def _obey_only_the_parent() -> None:
    """Interrupt this process when its parent says so or is gone; Ctrl-C is for the parent."""
    interrupted = False

    def interrupt(_signal: int, _frame: object) -> None:
        nonlocal interrupted
        if not interrupted:  # a second one would disturb the stopping of nodes
            interrupted = True
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    # Neither ignored nor blocked, as it was at the start: nodes would inherit that.
    signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
