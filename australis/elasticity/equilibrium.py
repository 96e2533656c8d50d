"""Solutions of games, computed with global knowledge (games 4.2, 5).

Everything depends on one number, the pace: the cost of a module is a convex function of it, and so
is the sum. Closed forms are used where n cores are n times as fast, bisection elsewhere.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt

from australis.elasticity.game import Degrees, Game, Profile
from australis.elasticity.service import Feed

HALVINGS = 200
"""The maximum number of halvings of a range of paces."""


def best_equilibrium(game: Game, incentives: Mapping[str, float] | None = None) -> Profile:
    """The only Nash equilibrium that is Pareto optimal (propositions 4.15, 4.16).

    Every module has a pace that it would choose alone. The slowest of these is the equilibrium's:
    its module has its ideal number of cores, and the others have the fewest with which they keep
    up.
    """
    given = incentives or {}
    ideal = {name: m.ideal_degree(given.get(name, 0.0)) for name, m in game.modules.items()}
    return settled(game, ideal, game.performance(ideal).pace_s)


def settled(game: Game, ideal: Degrees, pace_s: float) -> Profile:
    """The best equilibrium if these are the modules' ideal numbers of cores and this is the slowest
    of their paces."""
    needed = game.at_pace(pace_s)
    return game.efficient({name: min(ideal[name], n) for name, n in needed.items()}, pace_s)


# --- the social optimum ------------------------------------------------------------------------------


def social_optimum(game: Game) -> Profile:
    """The numbers of cores with the least total cost."""
    if all(module.service.scales for module in game.modules.values()):
        pace_s = _closed_form_s(game)
    else:
        pace_s = _bisected_s(game)
    pace_s = max(pace_s, game.least_pace_s)
    return game.efficient(game.at_pace(pace_s), pace_s)


def _closed_form_s(game: Game) -> float:
    """The optimal pace in closed form: the cost A x + B / x is least at sqrt(B / A)."""
    cores = sum(
        module.core_cost * module.service.running_s * game.graph.ratios[name]
        for name, module in game.modules.items()
    )
    return sqrt(cores / game.delay_cost)


def _bisected_s(game: Game) -> float:
    """The pace at which the total cost stops falling; the least pace if it does not fall at all."""
    low = game.least_pace_s
    if _slope(game, low) >= 0:
        return low
    high = 2 * low
    while _slope(game, high) < 0:
        low, high = high, 2 * high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if _slope(game, middle) < 0:
            low = middle
        else:
            high = middle
    return high


def _slope(game: Game, pace_s: float) -> float:
    """The derivative of the total cost with respect to the pace, just above this one."""
    found = game.delay_cost
    for name, module in game.modules.items():
        if isinstance(module.service, Feed):
            continue
        ratio = game.graph.ratios[name]
        steep = module.service.slope(module.needed_degree(pace_s / ratio))
        if steep >= 0:
            return -inf  # the last core has almost no effect there
        found += module.core_cost / (steep * ratio)
    return found


# --- whole cores ----------------------------------------------------------------------------------------


def integer_optimum(game: Game) -> Profile:
    """The whole numbers of cores with the least total cost: exact, for any size.

    Starting from one core everywhere, the slowest module is given one more core until that does not
    make it faster. The best assignment for every pace occurs on the way: no module has a core that
    it does not need there.
    """
    modules, ratios = game.modules, game.graph.ratios
    degrees = {name: 0 if isinstance(m.service, Feed) else 1 for name, m in modules.items()}
    slowest = [
        (-m.service.time_s(degrees[name]) * ratios[name], name) for name, m in modules.items()
    ]
    heapq.heapify(slowest)
    spent = sum(m.resource_cost(degrees[name]) for name, m in modules.items())
    least, best = inf, 0
    given: list[str] = []
    while True:
        cost = spent - game.delay_cost * slowest[0][0]
        if cost < least:
            least, best = cost, len(given)
        name = slowest[0][1]
        pace_s = modules[name].service.time_s(degrees[name] + 1) * ratios[name]
        if degrees[name] >= modules[name].most or pace_s >= -slowest[0][0]:
            break
        degrees[name] += 1
        heapq.heapreplace(slowest, (-pace_s, name))
        spent += modules[name].core_cost
        given.append(name)
    for name in given[best:]:
        degrees[name] -= 1
    return game.profile(degrees)


# --- price of stability --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stability:
    """The best equilibrium compared with the social optimum."""

    equilibrium: Profile
    optimum: Profile

    @property
    def price(self) -> float:
        """The price of stability as games 5 defines it: at least 1."""
        return self.equilibrium.cost / self.optimum.cost

    @property
    def reported(self) -> float:
        """The inverse of the price, at most 1, which games reports (table V, figure 16)."""
        return self.optimum.cost / self.equilibrium.cost


def stability(game: Game) -> Stability:
    """How much more the best equilibrium costs than the social optimum."""
    return Stability(best_equilibrium(game), social_optimum(game))
