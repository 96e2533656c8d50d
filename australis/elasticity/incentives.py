"""The incentive-based strategy as one plays it who knows everything (games algorithm 2).

The module that holds up the others is paid for taking more cores, a little more each round, until
that makes all together no better off. The agents of `protocols.elasticity` play the same with
messages.
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
class Outcome:
    """How some rounds ended."""

    first: Profile
    """The best equilibrium without incentives,"""
    profile: Profile
    """the one that stands,"""
    incentives: Mapping[str, float]
    """with these incentives (gamma),"""
    rounds: int
    """after so many rounds, the last of which may have been one too many."""


def check_rounds(increment: float, rounds: int) -> None:
    """Refuse what leads nowhere."""
    if not 0 < increment <= 1:
        raise UserError(
            f"is {increment:g}: it should be a part of a core's price", name="increment"
        )
    if rounds < 1:
        raise UserError(f"should be at least one, not {rounds}", name="rounds")


def holds_up(own_s: float, pace_s: float) -> bool:
    """Whether a module whose own pace is this one is a reason why all together have that one; several
    may be, equally slow."""
    return own_s >= pace_s * (1 - TIED)


def raised(module: Module, incentive: float, increment: float) -> float:
    """A higher incentive: by a part of the price of a core, and never above it, since with the whole
    price the module takes every core that helps."""
    return min(incentive + increment * module.core_price, module.core_price)


def cooperate(game: Game, increment: float = 0.1, rounds: int = 50) -> Outcome:
    """Play so many rounds at most, with incentives that grow by a part of the price of a core.

    Algorithm 2 applies the round before the last, even if it ended because of the limit and the last
    was better; here the best one stands.
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
            return Outcome(first, best, kept, played)
        best, kept = found, dict(incentives)
    return Outcome(first, best, kept, rounds)
