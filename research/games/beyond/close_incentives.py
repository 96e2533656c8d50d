"""Step sizes of incentives close to the price of a core."""

from __future__ import annotations

from dataclasses import dataclass

from australis.elasticity.equilibrium import (
    social_optimum,
)
from australis.elasticity.incentives import cooperate
from australis.elasticity.rounding import whole_cores
from research.claims import Table
from research.games.beyond.common import ROUNDS
from research.games.compare import priced

DEAR = 10.0
"""The factor on the core prices of table III at which step sizes matter."""


@dataclass(frozen=True)
class Close:
    """The outcome of a step size, with a task every 0.3 s."""

    increment: float
    cost: float
    """The cost relative to the social optimum."""
    rounds: int
    cores: int


def measure_close(increment: float) -> Close:
    game = priced(DEAR).arriving(0.3)
    played = cooperate(game, increment, ROUNDS)
    cores = whole_cores(game, played.profile.degrees)
    cost = played.profile.cost / social_optimum(game).cost
    return Close(increment, cost, played.rounds, cores["recognizer"])


def close_table(found: list[Close]) -> Table:
    columns = ("step, part of a core's price", "cost, times the optimum", "rounds", "recognizer")
    rows = tuple((o.increment, round(o.cost, 4), o.rounds, o.cores) for o in found)
    return Table(
        f"Incentives close to the price of a core, which is {DEAR:g} times table III; a task every 0.3 s",
        columns,
        rows,
    )
