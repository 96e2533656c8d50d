"""Many seeds on all cores, and the shortest schedule for one that breaks a promise.

A run depends on its seed alone, so a search needs no memory of its runs: what comes
back from a worker is a `Verdict`, and whoever wants to know more runs the seed again
with a trace. Verdicts come in the order of the seeds, so that the first violation of
a search is the same one on any number of cores.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.errors import Stopped, UserError
from australis.protocols.dpc.states import TRANSITIONS
from australis.sim.dpc.broken import VARIANTS
from australis.sim.dpc.faults import Fault
from australis.sim.dpc.presets import draw
from australis.sim.dpc.probes import Violation
from australis.sim.dpc.run import Outcome, Run, Scenario

ROWS = tuple(range(1, 12))
"""The rows of table 4.3."""
TURNS = tuple(f"{phase.name} {turn.name}" for phase, turn in TRANSITIONS)
LIMIT_S = 120
"""A run that takes longer than this on a real clock is taken for one without end."""
ENDLESS = "endless"
TENTH_US = 100 * MILLISECOND
GRIDS_US = (10 * SECOND, 5 * SECOND, SECOND, 5 * TENTH_US, TENTH_US)
AHEAD = 4
"""So many seeds per worker are handed out before the oldest has come back."""


@dataclass(frozen=True)
class Setup:
    """Which runs to look at: a preset, and the broken variant that is to show itself."""

    preset: str
    variant: str | None = None

    def __post_init__(self) -> None:
        if self.variant is not None and self.variant not in VARIANTS:
            known = ", ".join(VARIANTS)
            raise UserError(f"is not a variant (known: {known})", name=self.variant)
        self.scenario(0)  # refuses what is not a preset

    def scenario(self, seed: int) -> Scenario:
        """What a seed stands for."""
        drawn = draw(self.preset, seed)
        return drawn if self.variant is None else VARIANTS[self.variant].apply(drawn)


@dataclass(frozen=True)
class Verdict:
    """What is left of a run when it is over; plain data that crosses processes."""

    seed: int
    checker: str
    """Whose promise was broken; empty if none was."""
    said: str
    faults: tuple[Fault, ...]
    delivered: int
    tentative: int
    rows: dict[int, int]
    turns: dict[str, int]


def judge(setup: Setup, seed: int) -> Verdict:
    """Run one seed."""
    scenario = setup.scenario(seed)
    with _limited(LIMIT_S):
        return verdict_on(Run(scenario).execute())


def verdict_on(outcome: Outcome) -> Verdict:
    """What is to be remembered of a run."""
    broken = outcome.violation
    return Verdict(
        outcome.scenario.seed,
        broken.checker if broken else "",
        broken.said if broken else "",
        outcome.scenario.faults,
        outcome.delivered,
        outcome.tentative,
        outcome.rows,
        outcome.turns,
    )


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """End a run that goes round in circles, where the system has an alarm clock to do it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(_signal: int, _frame: object) -> None:
        raise Violation(ENDLESS, f"the run has not ended after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@dataclass
class Tally:
    """What many runs have in common."""

    seeds: int = 0
    delivered: int = 0
    tentative: int = 0
    rows: Counter[int] = field(default_factory=lambda: Counter(dict.fromkeys(ROWS, 0)))
    turns: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(TURNS, 0)))

    def add(self, verdict: Verdict) -> None:
        """Count one more run."""
        self.seeds += 1
        self.delivered += verdict.delivered
        self.tentative += verdict.tentative
        self.rows.update(verdict.rows)
        self.turns.update(verdict.turns)

    def rare(self, fewer_than: int) -> dict[str, int]:
        """The rows and turns that were hardly ever taken."""
        rows = {f"row {row}": times for row, times in self.rows.items()}
        return {what: n for what, n in (rows | self.turns).items() if n < fewer_than}


# --- many seeds ------------------------------------------------------------------------


def search(setup: Setup, seeds: Iterable[int], workers: int) -> Iterator[Verdict]:
    """The verdict on each seed, in order; whoever stops listening stops the work."""
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin_work)
    todo = iter(seeds)
    try:
        with _undisturbed():
            first = islice(todo, AHEAD * workers)
            running = deque([pool.submit(judge, setup, seed) for seed in first])
        while running:
            verdict = running.popleft().result()
            running.extend(pool.submit(judge, setup, seed) for seed in islice(todo, 1))
            yield verdict
    except BrokenProcessPool:
        raise Stopped("a worker process died; was there memory enough?") from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        pool.shutdown(wait=True)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off Ctrl-C and SIGTERM while workers are started; to them Ctrl-C stays blocked."""
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
    """Do not outlive the process that hands out the work."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


# --- the shortest schedule ---------------------------------------------------------------


@dataclass(frozen=True)
class Shrunk:
    """A scenario that breaks the same promise with as little as could be found."""

    scenario: Scenario
    violation: Violation
    tries: int


def shrink(
    scenario: Scenario,
    violation: Violation,
    most_tries: int = 200,
    say: Callable[[int, int], None] = lambda tries, faults: None,
) -> Shrunk:
    """Drop faults, shorten the others and move them to round times while it still fails."""
    trials = _Trials(scenario, violation, most_tries, say)
    if violation.checker != ENDLESS and not trials.fails(()):
        trials.drop_faults()
        trials.shorten_faults()
        trials.round_times()
        trials.drop_faults()
    return Shrunk(replace(scenario, faults=trials.best), trials.violation, trials.tried)


class _Trials:
    """Schedules tried in place of the first one; the best that fails is kept."""

    def __init__(
        self,
        scenario: Scenario,
        violation: Violation,
        most_tries: int,
        say: Callable[[int, int], None],
    ) -> None:
        self._scenario = scenario
        self._wanted = _kind_of(violation)
        self._most_tries = most_tries
        self._say = say
        self._harmless: set[tuple[Fault, ...]] = set()
        self._last_us = max((f.until_us for f in scenario.faults), default=0)
        self.best = scenario.faults
        self.violation = violation
        self.tried = 0

    def fails(self, faults: tuple[Fault, ...]) -> bool:
        """Whether the same promise is broken under these faults; if so they are the best."""
        if faults in self._harmless or self.tried >= self._most_tries:
            return False
        self.tried += 1
        found = Run(replace(self._scenario, faults=faults)).execute().violation
        if found is None or _kind_of(found) != self._wanted:
            self._harmless.add(faults)
            return False
        self.best, self.violation = faults, found
        self._say(self.tried, len(faults))
        return True

    def drop_faults(self) -> None:
        """Leave out halves, then quarters, then single faults (ddmin)."""
        pieces = 2
        while len(self.best) > 1:
            if any(self.fails(rest) for rest in _without_one_piece(self.best, pieces)):
                pieces = max(2, pieces - 1)
            elif pieces >= len(self.best):
                return
            else:
                pieces = min(2 * pieces, len(self.best))

    def shorten_faults(self) -> None:
        """Make each fault as short as it may be."""
        for place in range(len(self.best)):
            for part in (0.25, 0.5, 0.75):
                while self._try_instead(place, _shortened(self.best[place], part)):
                    pass

    def round_times(self) -> None:
        """Let faults begin and last as a person would have written it down."""
        for place in range(len(self.best)):
            for grid in GRIDS_US:
                at_us = _rounded(self.best[place].at_us, grid)
                if self._try_instead(place, replace(self.best[place], at_us=at_us)):
                    break
            for grid in GRIDS_US:
                lasts_us = _rounded(self.best[place].lasts_us, grid)
                if self._try_instead(place, replace(self.best[place], lasts_us=lasts_us)):
                    break

    def _try_instead(self, place: int, new: Fault) -> bool:
        """Try another fault in one's place; whether it still fails."""
        sound = new.lasts_us > 0 and new.at_us > 0 and new.until_us <= self._last_us
        if not sound or new == self.best[place]:
            return False
        return self.fails((*self.best[:place], new, *self.best[place + 1 :]))


def _kind_of(violation: Violation) -> str:
    """The checker; when our own code failed also with which exception."""
    if violation.checker != "crash":
        return violation.checker
    return f"crash {violation.said.partition(':')[0]}"


def _without_one_piece(faults: tuple[Fault, ...], pieces: int) -> Iterator[tuple[Fault, ...]]:
    """The schedule without its first piece, without its second, and so on."""
    cuts = [len(faults) * i // pieces for i in range(pieces + 1)]
    for begin, end in pairwise(cuts):
        yield faults[:begin] + faults[end:]


def _shortened(fault: Fault, part: float) -> Fault:
    """The same fault for part of the time, in tenths of a second."""
    return replace(fault, lasts_us=int(fault.lasts_us * part) // TENTH_US * TENTH_US)


def _rounded(us: int, grid: int) -> int:
    return round(us / grid) * grid
