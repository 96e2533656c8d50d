"""Strategies that play the game with the combined knowledge of all modules.

Agents (`protocols.elasticity`) decide the same with messages; this is for many repetitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from australis.elasticity.estimate import Average
from australis.elasticity.game import Game
from australis.elasticity.incentives import IncentiveOutcome, cooperate
from australis.elasticity.inertia import Inertia
from australis.elasticity.rounding import Rounding, whole_cores
from australis.elasticity.shared import Node, sharing
from research.games.control import Seen


@dataclass
class Playing:
    """The paper's strategies: selfish with one round (algorithm 1), else with incentives (2)."""

    game: Game
    rounds: int = 1
    increment: float = 0.1
    newest: float = 0.3
    """The weight of the newest measurement; 1: no averaging."""
    rounding: Rounding = Rounding.UP
    inertia: Inertia = field(default_factory=Inertia)
    nodes: tuple[Node, ...] = ()
    """The nodes whose cores modules share."""
    outcomes: list[IncentiveOutcome] = field(default_factory=list)
    """The outcome of each step."""
    _averages: dict[str, Average] = field(default_factory=dict)

    def decide(self, seen: Seen) -> dict[str, int]:
        """The cores of each module in the step that begins."""
        source = self.game.graph.source
        running_s = {
            name: self._average(name, running_s) for name, running_s in seen.running_s.items()
        }
        every_s = self._average(f"{source} every", seen.every_s)
        game = sharing(self.game.running(running_s).arriving(every_s), self.nodes)
        outcome = cooperate(game, self.increment, self.rounds)
        self.outcomes.append(outcome)
        wanted = whole_cores(game, outcome.profile.degrees, self.rounding)
        return self._kept(game, wanted, outcome.profile.pace_s, seen)

    def _average(self, name: str, value: float) -> float:
        if name not in self._averages:
            self._averages[name] = Average(self.newest)
        return self._averages[name].add(value)

    def _kept(
        self, game: Game, wanted: dict[str, int], pace_s: float, seen: Seen
    ) -> dict[str, int]:
        """The wanted cores, except for modules that keep theirs out of inertia."""
        shared = {name for node in self.nodes for name in node.modules}
        for name, module in game.modules.items():
            had, new = seen.cores.get(name, wanted[name]), wanted[name]
            due_s = pace_s / game.graph.ratios[name]
            if had != new and self.inertia.keeps(module, had, new, due_s, name in shared):
                wanted[name] = had
        return wanted
