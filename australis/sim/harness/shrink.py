"""Finds a short schedule for a scenario that breaks a promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from australis.kernel.durations import MILLISECOND, SECOND
from australis.sim.faults import Planned
from australis.sim.harness.model import TIMEOUT, Setup, Violation
from australis.sim.harness.search import LIMIT_S, judge_scenario

TENTH_US = 100 * MILLISECOND
GRIDS_US = (10 * SECOND, 5 * SECOND, SECOND, 5 * TENTH_US, TENTH_US)
Schedule = tuple[Planned, ...]


@dataclass(frozen=True)
class Shrunk:
    """A scenario that breaks the same promise with the smallest schedule found."""

    scenario: Any
    violation: Violation
    tries: int


def shrink(
    setup: Setup[Any],
    scenario: Any,
    violation: Violation,
    most_tries: int = 200,
    say: Callable[[int, int], None] = lambda tries, planned: None,
    limit_s: float = LIMIT_S,
) -> Shrunk:
    """Drop, shorten and round entries of the schedule while the promise stays broken."""
    trials = _Trials(setup, scenario, violation, most_tries, say, limit_s)
    if violation.checker != TIMEOUT and not trials.fails(()):
        trials.leave_out()
        trials.shorten()
        trials.round_times()
        trials.leave_out()
    return Shrunk(setup.model.with_schedule(scenario, trials.best), trials.violation, trials.tried)


class _Trials:
    """Tries schedules in place of the first one, and keeps the best that fails."""

    def __init__(
        self,
        setup: Setup[Any],
        scenario: Any,
        violation: Violation,
        most_tries: int,
        say: Callable[[int, int], None],
        limit_s: float,
    ) -> None:
        self._setup = setup
        self._scenario = scenario
        self._most_tries = most_tries
        self._say = say
        self._limit_s = limit_s
        self._harmless: set[Schedule] = set()
        self.best = setup.model.schedule(scenario)
        self._last_us = max((planned.until_us for planned in self.best), default=0)
        self.violation = violation
        self.tried = 0

    def fails(self, schedule: Schedule) -> bool:
        """Whether the same promise is broken under this schedule; if so it becomes the best."""
        if schedule in self._harmless or self.tried >= self._most_tries:
            return False
        self.tried += 1
        smaller = self._setup.model.with_schedule(self._scenario, schedule)
        violations = judge_scenario(self._setup, smaller, self._limit_s).violations
        found = next((one for one in violations if one.kind == self.violation.kind), None)
        if found is None:
            self._harmless.add(schedule)
            return False
        self.best, self.violation = schedule, found
        self._say(self.tried, len(schedule))
        return True

    def leave_out(self) -> None:
        """Drop halves, then quarters, then single entries (ddmin)."""
        pieces = 2
        while len(self.best) > 1:
            if any(self.fails(rest) for rest in _without_one_piece(self.best, pieces)):
                pieces = max(2, pieces - 1)
            elif pieces >= len(self.best):
                return
            else:
                pieces = min(2 * pieces, len(self.best))

    def shorten(self) -> None:
        """Make each fault as short as possible."""
        for place in range(len(self.best)):
            for part in (0.25, 0.5, 0.75):
                while self._try_instead(place, lasts_us=_part(self.best[place], part)):
                    pass

    def round_times(self) -> None:
        """Move begins and durations to round values."""
        for place in range(len(self.best)):
            for field in ("at_us", "lasts_us"):
                for grid in GRIDS_US:
                    us = round(getattr(self.best[place], field, 0) / grid) * grid
                    if self._try_instead(place, **{field: us}):
                        break

    def _try_instead(self, place: int, **changes: int) -> bool:
        """Try an entry at another time or with another duration; return whether the run still
        fails.
        """
        old: Any = self.best[place]
        if not all(hasattr(old, field) and us > 0 for field, us in changes.items()):
            return False
        new = replace(old, **changes)
        if new == old or new.until_us > self._last_us:
            return False
        return self.fails((*self.best[:place], new, *self.best[place + 1 :]))


def _without_one_piece(schedule: Schedule, pieces: int) -> Iterator[Schedule]:
    """The schedule without its first piece, without its second, and so on."""
    cuts = [len(schedule) * i // pieces for i in range(pieces + 1)]
    for begin, end in pairwise(cuts):
        yield schedule[:begin] + schedule[end:]


def _part(planned: Planned, part: float) -> int:
    """Part of a duration, in tenths of a second."""
    return int(getattr(planned, "lasts_us", 0) * part) // TENTH_US * TENTH_US
