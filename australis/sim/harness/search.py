"""Many seeds on all cores, each under a time limit.

A run depends on its seed alone, so a search keeps no runs: a worker returns a `SeedResult`, and a
caller that needs details runs the seed again with a trace. Results come in the order of the seeds,
so that the first violation of a search is the same one on any number of cores.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from typing import Any

from australis.kernel.errors import Stopped
from australis.sim.harness.model import CRASH, TIMEOUT, SeedResult, Setup, Simulation, Violation

LIMIT_S = 120.0
"""A run that takes longer than this on one core counts as a run without end."""
SEEDS_AHEAD_PER_WORKER = 4
"""The number of seeds per worker that are handed out before the oldest result is back."""


class _TooLong(BaseException):
    """Raised at the time limit; not an `Exception`, so that no machine catches it."""


def run_guarded(simulation: Simulation, limit_s: float = LIMIT_S) -> tuple[Violation, ...]:
    """The promises that a simulation breaks; exceptions and runs without end are violations."""
    try:
        with _limited(limit_s):
            return tuple(simulation.run())
    except _TooLong:
        return (Violation(TIMEOUT, f"the run has not ended after {limit_s:g} s of work"),)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(last.filename)}:{last.lineno}"
        return (Violation(CRASH, f"{type(error).__name__}: {error} ({where})"),)


def judge(setup: Setup[Any], seed: int, limit_s: float = LIMIT_S) -> SeedResult:
    """Run one seed."""
    return judge_scenario(setup, setup.scenario(seed), limit_s)


def judge_scenario(setup: Setup[Any], scenario: Any, limit_s: float = LIMIT_S) -> SeedResult:
    """Run one scenario."""
    simulation = setup.model.build(scenario)
    violations = run_guarded(simulation, limit_s)
    planned = len(setup.model.schedule(scenario))
    return SeedResult(scenario.seed, violations, Counter(simulation.counts), planned)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Interrupt a run that exceeds this processor time; without effect outside the main thread."""
    if threading.current_thread() is not threading.main_thread() or seconds <= 0:
        yield
        return

    def too_long(_signal: int, _frame: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGVTALRM, too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def search(
    setup: Setup[Any],
    seeds: Iterable[int],
    workers: int,
    limit_s: float = LIMIT_S,
    total_s: float | None = None,
) -> Iterator[SeedResult]:
    """Yield the result of each seed, in order, until the total time is over; stop when the caller
    does.
    """
    until = None if total_s is None else time.monotonic() + total_s
    results = _in_process if workers == 1 else _in_pool
    for result in results(setup, seeds, workers, limit_s):
        yield result
        if until is not None and time.monotonic() >= until:
            return


def _in_process(
    setup: Setup[Any], seeds: Iterable[int], workers: int, limit_s: float
) -> Iterator[SeedResult]:
    return (judge(setup, seed, limit_s) for seed in seeds)


def _in_pool(
    setup: Setup[Any], seeds: Iterable[int], workers: int, limit_s: float
) -> Iterator[SeedResult]:
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin_work)
    todo = iter(seeds)

    def submit(number: int) -> list[Future[SeedResult]]:
        return [pool.submit(judge, setup, seed, limit_s) for seed in islice(todo, number)]

    try:
        with interrupts_deferred():
            running = deque(submit(SEEDS_AHEAD_PER_WORKER * workers))
        while running:
            result = running.popleft().result()
            running.extend(submit(1))
            yield result
    except BrokenProcessPool:
        raise Stopped("a worker process died; was there memory enough?") from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        pool.shutdown(wait=True)


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Defer Ctrl-C and SIGTERM while processes start; those keep Ctrl-C blocked."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    late: list[int] = []
    ends = (signal.SIGINT, signal.SIGTERM)
    before = {s: signal.signal(s, lambda number, _frame: late.append(number)) for s in ends}
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        for which, handler in before.items():
            signal.signal(which, handler)
        for number in late:
            signal.raise_signal(number)


def _begin_work() -> None:
    """Make a worker end with the process that started it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
