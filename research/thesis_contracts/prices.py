"""The value of contracts at a price, for a buyer and for a seller (thesis figure 6-11)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from australis.protocols.contracts.planning import Draw, Floats


@dataclass(frozen=True)
class Purchase:
    """The value of contracts at a price below capacity (figure 6-11)."""

    level: float
    """The load level that corresponds to the price, as a part of capacity."""
    contracts: int
    moved: float
    gained: float


def purchases(
    own: Draw,
    partner: Draw,
    level: float,
    most: int,
    samples: int,
    cost: Callable[[Floats], Floats],
    price: float,
) -> list[Purchase]:
    """How much load a buyer moves, and gains, with 1 to `most` contracts at the price of a
    level.
    """
    load = own((samples,))
    return _with_each_contract(
        level,
        most,
        limit=np.maximum(0.0, load - level),
        added=lambda: np.maximum(0.0, level - partner((samples,))),
        gained=lambda moved: cost(load) - cost(load - moved) - price * moved,
    )


def sales(
    own: Draw,
    offered: Draw,
    level: float,
    most: int,
    samples: int,
    cost: Callable[[Floats], Floats],
    price: float,
) -> list[Purchase]:
    """How much load a seller takes, and gains; `offered` draws the excess of one buyer, most often
    none.
    """
    load = own((samples,))
    return _with_each_contract(
        level,
        most,
        limit=np.maximum(0.0, level - load),
        added=lambda: offered((samples,)),
        gained=lambda moved: price * moved - (cost(load + moved) - cost(load)),
    )


def _with_each_contract(
    level: float,
    most: int,
    limit: Floats,
    added: Callable[[], Floats],
    gained: Callable[[Floats], Floats],
) -> list[Purchase]:
    """The load moved with 1 to `most` contracts, each of which adds to what can be moved."""
    possible = np.zeros_like(limit)
    found = []
    for n in range(1, most + 1):
        possible += added()
        moved = np.minimum(limit, possible)
        found.append(Purchase(level, n, float(moved.mean()), float(gained(moved).mean())))
    return found
