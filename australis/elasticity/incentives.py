"""The incentive-based strategy, computed with global knowledge (games algorithm 2).

The bottleneck module is paid for taking more cores, a little more each round, until the total cost
no longer falls. The agents of `protocols.elasticity` play the same game with messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from australis.elasticity.cost import Module
from australis.elasticity.equilibrium import settled
from australis.elasticity.game import Game, Profile
from australis.elasticity.performance import TIED
from australis.kernel.errors import UserError


@dataclass(frozen=True)
class IncentiveOutcome:
    """The result of the rounds of algorithm 2."""

    first: Profile
    """The best equilibrium without incentives."""
    profile: Profile
    """The profile with the least total cost."""
    incentives: Mapping[str, float]
    """The incentives (gamma) of that profile."""
    rounds: int
    """The number of rounds played, the last of which may not have improved the profile."""


def check_rounds(increment: float, rounds: int) -> None:
    """Check that the increment and the number of rounds are valid."""
    if not 0 < increment <= 1:
        raise UserError(
            f"is {increment:g}: it should be a part of a core's price", name="increment"
        )
    if rounds < 1:
        raise UserError(f"should be at least one, not {rounds}", name="rounds")


def holds_up(own_s: float, pace_s: float) -> bool:
    """Whether a module with this pace of its own is a bottleneck at the common pace; several
    modules may be, equally slow."""
    return own_s >= pace_s * (1 - TIED)


def raised(module: Module, incentive: float, increment: float) -> float:
    """The incentive raised by a fraction of the price of a core, and at most that price, with which
    the module takes every core that helps."""
    return min(incentive + increment * module.core_price, module.core_price)


def cooperate(game: Game, increment: float = 0.1, rounds: int = 50) -> IncentiveOutcome:
    """Play at most `rounds` rounds, with incentives that grow by a fraction of the price of a core.

    Algorithm 2 applies the round before the last, even if it ended because of the limit and the
    last was better; here the best round is applied.
    """
    check_rounds(increment, rounds)
    modules, ratios = game.modules, game.graph.ratios
    incentives = dict.fromkeys(modules, 0.0)
    ideal = {name: module.ideal_degree() for name, module in modules.items()}
    paces_s = {n: ratios[n] * m.service.time_s(ideal[n]) for n, m in modules.items()}
    first = best = settled(game, ideal, max(paces_s.values()))
    kept = dict(incentives)
    for played in range(2, rounds + 1):
        for name, module in modules.items():
            if holds_up(paces_s[name], best.pace_s):
                incentives[name] = raised(module, incentives[name], increment)
                ideal[name] = module.ideal_degree(incentives[name])
                paces_s[name] = ratios[name] * module.service.time_s(ideal[name])
        found = settled(game, ideal, max(paces_s.values()))
        if not found.cost < best.cost:
            return IncentiveOutcome(first, best, kept, played)
        best, kept = found, dict(incentives)
    return IncentiveOutcome(first, best, kept, rounds)
