"""Modules with finite buffers, task by task: a full module blocks its senders (games 6).

A module has a queue and some cores; each core works on one task at a time. A finished task moves to
one of the next modules, drawn at random. If the queue there is full, it stays on its core, which is
idle meanwhile; the source takes no task from outside while its queue is full. The common pace is
not assumed: it results from this back-pressure.

Tasks of a module are alike, so the simulation keeps only their number, and the times at which cores
finish.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from australis.elasticity.game import Game
from australis.kernel.errors import UserError
from research.games.control import SPREAD

SHORTEST = 0.01
"""No time is drawn below this part of the mean."""
OUTSIDE = -1


@dataclass(frozen=True)
class Measurement:
    """What was measured between two moments."""

    seconds: float
    every_s: float
    """The mean time until the next task would have arrived from outside."""
    completed: Mapping[str, int]
    """The number of tasks that left each module."""
    running_s: Mapping[str, float]
    """The mean service time of a task on one core of each module."""
    busy: Mapping[str, float]
    """The part of the time in which cores worked on tasks."""

    def pace_s(self, source: str) -> float:
        """Seconds between two tasks that left the source."""
        return self.seconds / max(1, self.completed[source])


class Queues:
    """The modules of a game while tasks go through them."""

    def __init__(self, game: Game, cores: Mapping[str, int], buffer: int, rng: Random) -> None:
        if buffer < 1:
            raise UserError(f"should have room for at least one task, not {buffer}", name="a queue")
        if game.graph.virtual:
            raise UserError("joins several sources: queues need one", name=game.graph.source)
        self.now = 0.0
        self._game = game
        self._rng = rng
        self._names = game.graph.modules
        at = {name: n for n, name in enumerate(self._names)}
        graph = game.graph
        self._source = at[graph.source]
        self._onward = [[at[other] for other in graph.onward[name]] for name in self._names]
        self._parts = [
            list(accumulate(graph.arcs[name, other] for other in graph.onward[name]))
            for name in self._names
        ]
        size = len(self._names)
        self._room = [buffer] * size
        self._waiting = [0] * size
        self._held: list[deque[int]] = [deque() for _ in range(size)]
        """The senders that wait for room at each module: cores of other modules, or the world
        outside.
        """
        self._busy = [0] * size
        """The number of cores that work, or whose task is blocked."""
        self._cores = [0] * size
        self._means_s = [0.0] * size
        """The mean service time of a task on one core, at each module's present number of cores."""
        self._longer = [1.0] * size
        """The ratio of that time to the service time with a single core."""
        self._due: list[tuple[float, int]] = []
        """When cores finish, with their modules, and when the next task arrives from outside."""
        self._every_s = 0.0
        self._clear()
        self.give(cores)

    # --- state ------------------------------------------------------------------------------------

    def waiting(self, name: str) -> int:
        """Tasks in the queue of a module."""
        return self._waiting[self._names.index(name)]

    def working(self, name: str) -> int:
        """Cores of a module that work, or whose task is blocked."""
        return self._busy[self._names.index(name)]

    def inside(self, name: str) -> int:
        """Tasks that arrived at a module and are not finished: queued, or on a core."""
        n = self._names.index(name)
        stuck = sum(held.count(n) for held in self._held)
        return self._waiting[n] + self._busy[n] - stuck

    @property
    def held(self) -> int:
        """Finished tasks that are blocked on their core."""
        return sum(sender != OUTSIDE for held in self._held for sender in held)

    # --- changes from outside ---------------------------------------------------------------------

    def give(self, cores: Mapping[str, int]) -> None:
        """Set the number of cores of each module; surplus cores finish their present task."""
        for n, name in enumerate(self._names):
            self._cores[n] = cores[name]
            service = self._game.modules[name].service
            self._means_s[n] = service.time_s(cores[name]) * cores[name]
            self._longer[n] = self._means_s[n] / service.running_s
            while self._waiting[n] and self._busy[n] < self._cores[n]:
                self._begin(n)

    def arrive(self, every_s: float) -> None:
        """Set the time between two arrivals."""
        first = self._every_s == 0.0
        self._every_s = every_s
        if first:
            self._next_arrival()

    # --- events -----------------------------------------------------------------------------------

    def run(self, seconds: float) -> Measurement:
        """Advance the simulation by this duration."""
        until, due = self.now + seconds, self._due
        while due and due[0][0] <= until:
            self.now, module = heapq.heappop(due)
            if module == OUTSIDE:
                self._arrived(OUTSIDE, self._source)
            else:
                self._done(module)
        self.now = until
        found = self._measured(seconds)
        self._clear()
        return found

    def _draw(self, mean_s: float) -> float:
        return mean_s * max(SHORTEST, self._rng.gauss(1.0, SPREAD))

    def _next_arrival(self) -> None:
        wait_s = self._draw(self._every_s)
        self._arrivals += 1
        self._awaited_s += wait_s
        heapq.heappush(self._due, (self.now + wait_s, OUTSIDE))

    def _done(self, module: int) -> None:
        """Finish a task on a core of a module."""
        self._completed[module] += 1
        onward = self._onward[module]
        if not onward:
            self._free(module)
            return
        at = 0
        if len(onward) > 1:
            at = bisect_right(self._parts[module], self._rng.random(), hi=len(onward) - 1)
        self._arrived(module, onward[at])

    def _arrived(self, sender: int, module: int) -> None:
        """Deliver a task to a module, or block its sender."""
        if self._busy[module] < self._cores[module]:
            self._waiting[module] += 1
            self._begin(module)
        elif self._waiting[module] < self._room[module]:
            self._waiting[module] += 1
        else:
            self._held[module].append(sender)
            return
        self._let_go(sender)

    def _let_go(self, sender: int) -> None:
        if sender == OUTSIDE:
            self._next_arrival()
        else:
            self._free(sender)

    def _free(self, module: int) -> None:
        """Free a core."""
        self._busy[module] -= 1
        if self._waiting[module] and self._busy[module] < self._cores[module]:
            self._begin(module)

    def _begin(self, module: int) -> None:
        """Start the next queued task on a core, which makes room for another."""
        running_s = self._draw(self._means_s[module])
        self._busy[module] += 1
        self._waiting[module] -= 1
        self._worked_s[module] += running_s
        self._begun[module] += 1
        heapq.heappush(self._due, (self.now + running_s, module))
        if self._held[module]:
            self._waiting[module] += 1
            self._let_go(self._held[module].popleft())

    # --- measurements -------------------------------------------------------------------------------------

    def _clear(self) -> None:
        size = len(self._names)
        self._completed, self._begun = [0] * size, [0] * size
        self._worked_s = [0.0] * size
        self._arrivals, self._awaited_s = 0, 0.0

    def _measured(self, seconds: float) -> Measurement:
        names = self._names
        return Measurement(
            seconds,
            self._awaited_s / self._arrivals if self._arrivals else self._every_s,
            {name: self._completed[n] for n, name in enumerate(names)},
            {
                name: (self._worked_s[n] / self._begun[n] if self._begun[n] else self._means_s[n])
                / self._longer[n]
                for n, name in enumerate(names)
            },
            {
                name: min(1.0, self._worked_s[n] / (seconds * self._cores[n]))
                for n, name in enumerate(names)
            },
        )
