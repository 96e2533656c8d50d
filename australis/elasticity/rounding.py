"""Whole cores from fractional numbers of cores."""

from __future__ import annotations

from enum import Enum
from math import ceil, floor

from australis.elasticity.cost import Module
from australis.elasticity.game import Degrees, Game
from australis.elasticity.service import Feed

EXACT = 1e-9
"""An excess over a whole number below this is an arithmetic error, not a fraction of a core."""


class Rounding(Enum):
    """The direction of rounding (games 4.2, 4.3): up never slows the bottleneck, nearest may."""

    UP = "up"
    NEAREST = "nearest"


def whole(module: Module, degree: float, rounding: Rounding = Rounding.UP) -> int:
    """Whole cores for a module: at least one, and at most what it may have.

    >>> from australis.elasticity.service import Ideal
    >>> module = Module("m", Ideal(1.0), 1.0, 1.0, 8)
    >>> whole(module, 0.2), whole(module, 3.3), whole(module, 3.3, Rounding.NEAREST), whole(module, 9)
    (1, 4, 3, 8)
    """
    if isinstance(module.service, Feed):
        return 0
    if rounding is Rounding.UP:
        found = max(1, ceil(degree - EXACT * max(1.0, degree)))
        if module.service.time_s(found) > module.service.time_s(max(1, found - 1)):
            found -= 1  # beyond its fastest number of cores
    else:
        found = floor(degree + 0.5)
    return max(1, min(found, module.most))


def whole_cores(game: Game, degrees: Degrees, rounding: Rounding = Rounding.UP) -> dict[str, int]:
    """Whole cores for all modules."""
    return {name: whole(m, degrees[name], rounding) for name, m in game.modules.items()}
