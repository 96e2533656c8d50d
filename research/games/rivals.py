"""Other strategies for the number of cores, none of which uses costs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import fmean

from australis.elasticity.estimate import Average
from australis.elasticity.game import Game
from australis.elasticity.rounding import EXACT
from australis.elasticity.service import Feed
from research.games.control import Seen


def enough(game: Game, every_s: float, part: float = 1.0) -> dict[str, int]:
    """The fewest whole cores with which every module keeps up with this arrival rate at this
    utilisation, up to each module's limit.
    """
    ratios = game.graph.ratios
    return {
        name: 0
        if isinstance(m.service, Feed)
        else _within(m.service.degree(part * every_s / ratios[name]), m.most)
        for name, m in game.modules.items()
    }


def _within(degree: float, most: int) -> int:
    return max(1, min(ceil(degree - EXACT * max(1.0, degree)), most))


@dataclass
class Static:
    """The same cores at all times."""

    cores: dict[str, int]

    @classmethod
    def peak(cls, game: Game, load: Sequence[float]) -> Static:
        """Enough cores for the step with the most arrivals."""
        return cls(enough(game, min(load)))

    @classmethod
    def mean(cls, game: Game, load: Sequence[float]) -> Static:
        """Enough cores for the mean arrivals."""
        return cls(enough(game, 1 / fmean(1 / every_s for every_s in load)))

    def decide(self, seen: Seen) -> dict[str, int]:
        """Return the constant decision."""
        return dict(self.cores)


@dataclass
class Threshold:
    """A module above one utilisation bound gets more cores, a module below another releases some,
    as cloud providers scale groups of machines.
    """

    game: Game
    high: float = 0.8
    low: float = 0.5
    by: float = 0.1
    """The part of its cores that changes at once; at least one core."""

    def decide(self, seen: Seen) -> dict[str, int]:
        """Add cores, release cores, or change nothing."""
        if not seen.cores:
            return enough(self.game, seen.every_s)
        return {name: self._next(name, cores, seen) for name, cores in seen.cores.items()}

    def _next(self, name: str, cores: int, seen: Seen) -> int:
        step = max(1, round(self.by * cores))
        if seen.busy[name] > self.high:
            return min(cores + step, self.game.modules[name].most)
        return max(cores - step, 1) if seen.busy[name] < self.low else cores


@dataclass
class TrueRates:
    """Like DS2 (OSDI 2018): the true processing rate of each module's cores and the arrivals from
    outside determine the cores of all modules at once.
    """

    game: Game
    newest: float = 0.3
    """The weight of the newest measurement, as for modules that play the game."""
    _averages: dict[str, Average] = field(default_factory=dict)

    def decide(self, seen: Seen) -> dict[str, int]:
        """Enough cores for the arrivals."""
        values = {**seen.running_s, "": seen.every_s}
        means = {
            name: self._averages.setdefault(name, Average(self.newest)).add(value)
            for name, value in values.items()
        }
        every_s = means.pop("")
        return enough(self.game.running(means), every_s)


@dataclass
class Target:
    """Like Flink's autoscaler: the target utilisation is 0.7, by the mean rates of a quarter of an
    hour. If any module is outside 0.4 to 1.0 all are set anew, and then left unchanged until there
    are measurements for a whole window again; at most 0.6 of a module's cores are released at once.
    The pause of an hour before scaling down, and the cores reserved for catching up, are left out:
    here they would only add cost.
    """

    game: Game
    target: float = 0.7
    boundary: float = 0.3
    window: int = 3
    """The number of control steps that are averaged."""
    rest: int = 1
    """The control steps after a change in which nothing is measured or changed."""
    give_back: float = 0.6
    _past: deque[Seen] = field(default_factory=deque)
    _resting: int = 0

    def decide(self, seen: Seen) -> dict[str, int]:
        """Change the cores if the utilisation of any module is out of bounds."""
        if not seen.cores:
            return enough(self.game, seen.every_s, self.target)
        if self._resting:
            self._resting -= 1
            return dict(seen.cores)
        self._past.append(seen)
        if len(self._past) < self.window:
            return dict(seen.cores)
        wanted = self._wanted(seen)
        self._past.popleft()
        if wanted != seen.cores:
            self._past.clear()
            self._resting = self.rest
        return wanted

    def _wanted(self, seen: Seen) -> dict[str, int]:
        every_s = 1 / fmean(1 / one.every_s for one in self._past)
        running_s = {
            name: fmean(one.running_s[name] for one in self._past) for name in seen.running_s
        }
        game = self.game.running(running_s)
        needed = enough(game, every_s, self.target)
        found = {
            name: max(needed[name], ceil(cores * (1 - self.give_back)))
            for name, cores in seen.cores.items()
        }
        outside = any(
            abs(self._used(game, name, cores, every_s) - self.target) > self.boundary
            for name, cores in seen.cores.items()
            if found[name] != cores
        )
        return found if outside else dict(seen.cores)

    @staticmethod
    def _used(game: Game, name: str, cores: int, every_s: float) -> float:
        """The utilisation of a module if it received all arriving tasks."""
        return game.modules[name].service.time_s(cores) * game.graph.ratios[name] / every_s
