"""Searches for servers for one chain, by ants from the cell at its source (ants 3.4, 3.7, 3.8)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from australis.kernel.machine import Effect, SetTimer
from australis.placement.reuse import Tap
from australis.protocols.ants.events import AntOptions
from australis.protocols.ants.messages import Goal, Report, Reporting, Scout
from australis.protocols.ants.scouting import Scouting, chain_of
from australis.protocols.ants.trails import Trails

Done = Callable[[Report | None, tuple[Tap, ...], int], list[Effect]]
ALPHAS = (0.5, 1.0)
"""The range of the load limits of scouts."""
FEWEST = 3
"""The number of reports that is enough when the search has timed out."""
STRAIGHT = 4
"""One in this number of scouts follows the network's route."""


def timer(key: tuple[str, int, int]) -> str:
    """The name of a search's timer."""
    return f"seek {key[0]} {key[1]} {key[2]}"


class Seeking:
    """One search: routing ants first, then scouts, until enough of them have returned."""

    def __init__(
        self,
        goal: Goal,
        destination: str,
        trails: Trails,
        scouting: Scouting,
        rng: Random,
        options: AntOptions,
        done: Done,
    ) -> None:
        self.destination = destination
        self.key = (goal.query.name, goal.version, goal.chain)
        self._goal = goal
        self._trails = trails
        self._scouting = scouting
        self._rng = rng
        self._options = options
        self._done = done
        self._back = 0
        self._scouts_left = False
        self._numbers = 0
        self._reports: dict[int, Report] = {}
        self._taps: dict[tuple[str, str, int], Tap] = {}
        """Reusable tasks found, by the task that is not needed and their own query and version."""
        self._tries_left = options.tries
        self._scouts = options.scouts_again if goal.again else options.scouts

    def start(self, now: int, at_home: bool) -> list[Effect]:
        """Send routing ants, or scouts at once if paths are known or the destination is here."""
        effects: list[Effect] = [SetTimer(timer(self.key), now + self._options.patience_us)]
        known = self._trails.trips.get(self.destination)
        if at_home or (known is not None and known.number >= self._options.routes_needed):
            return [*effects, *self._send_scouts(now)]
        return [*effects, *self._send_routing(now)]

    def _send_routing(self, now: int) -> list[Effect]:
        beside = tuple(dict.fromkeys(pull.server for pull in self._goal.pulls))
        return self._trails.send(self.destination, self._options.routing_ants, now, beside)

    def ant_back(self, now: int) -> list[Effect]:
        """Count a routing ant that has returned from this destination."""
        self._back += 1
        if self._back < self._options.routes_needed or self._scouts_left:
            return []
        return self._send_scouts(now)

    def _send_scouts(self, now: int) -> list[Effect]:
        self._scouts_left = True
        chain, _ = chain_of(self._goal.query, self._goal.chain)
        effects: list[Effect] = []
        size = max(1, len(chain.tasks))
        for _ in range(self._scouts):
            self._numbers += 1
            alpha, greed = self._rng.uniform(*ALPHAS), self._rng.randint(1, size)
            if self._numbers % 2:  # every other one is limited by the servers' own bounds alone
                alpha, greed = 1.0, size
            straight = self._numbers % STRAIGHT == 1
            scout = Scout(
                self._goal, self.destination, self._numbers, alpha, greed, (), straight=straight
            )
            effects += self._scouting.arrived(scout, now)
        return effects

    def reported(self, ant: Reporting, now: int) -> list[Effect]:
        """Take the report of a scout; finish if it is outstanding or enough have come."""
        self._taps |= {(tap.task, tap.query, tap.version): tap for tap in ant.taps}
        if ant.report is None:
            return []
        self._reports[ant.number] = ant.report
        total = ant.report.cost + ant.report.pulled
        outstanding = total <= (1 + self._options.outstanding) * ant.report.least
        if outstanding or len(self._reports) >= min(self._options.reports_needed, self._scouts):
            return self._finish(now)
        return []

    def timed_out(self, now: int) -> list[Effect]:
        """Handle a timeout: take the best report if there are enough, or send more ants."""
        self._tries_left -= 1
        if len(self._reports) >= FEWEST or self._tries_left <= 0:
            return self._finish(now)
        effects: list[Effect] = [SetTimer(timer(self.key), now + self._options.patience_us)]
        effects += self._send_routing(now)
        return [*effects, *self._send_scouts(now)]

    def _finish(self, now: int) -> list[Effect]:
        reports = self._reports.values()
        best = min(reports, key=lambda report: report.cost + report.pulled, default=None)
        return self._done(best, tuple(self._taps.values()), now)
