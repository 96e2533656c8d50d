"""The best and the worst case of property 3: the time to move K tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from research.claims import Claim, Table, own_claim
from research.predicates import at_most
from research.thesis_contracts.arrays.auction import auction
from research.thesis_contracts.arrays.graphs import Graph, chain
from research.thesis_contracts.arrays.instance import (
    PERIOD_US,
    Instance,
    levels,
    random_wakes,
    simulate,
)
from research.thesis_contracts.arrays.loads import Loads
from research.thesis_contracts.arrays.variants import CAPACITY

WORST_EXCESS = (10, 20, 40)
WORST_LENGTHS = (5, 10)


@dataclass(frozen=True)
class Extreme:
    """The time to move K tasks (property 3)."""

    case: str
    excess: int
    arrived: int
    """The tasks that reached the end of the chain: the excess, and the tasks displaced on the
    way.
    """
    contracts_s: float
    auctions_s: float


def measure_extremes() -> list[Extreme]:
    found = []
    for excess in WORST_EXCESS:
        pair = np.array([CAPACITY + excess, 1], np.int32)
        found.append(_extreme("each has a partner with room", chain(2), pair, 1, excess))
        for length in WORST_LENGTHS:
            load = np.full(length, CAPACITY, np.int32)
            load[0] += excess
            load[-1] = 1
            found.append(
                _extreme(f"through a chain of {length}", chain(length), load, length - 2, excess)
            )
    return found


def _extreme(case: str, graph: Graph, load: Loads, width: int, excess: int) -> Extreme:
    size = graph.size
    price = np.full(len(graph.partners), float(CAPACITY))
    instance = Instance(
        graph,
        load,
        np.full(size, CAPACITY, np.int32),
        price - width,
        price,
        levels(2 * CAPACITY + 2 + excess),
        np.zeros(size, np.int32),
        random_wakes(size, np.random.default_rng(size)),
    )
    ours, bids = simulate(instance), auction(instance)
    assert ours.excess == 0
    arrived = int(ours.load[-1] - load[-1])
    return Extreme(case, excess, arrived, ours.last_us / PERIOD_US, float(bids.rounds))


def extreme_claims(found: list[Extreme]) -> list[Claim]:
    best = [one for one in found if one.case.startswith("each")]
    worst = [one for one in found if not one.case.startswith("each")]
    per_task = [one.contracts_s / one.arrived for one in worst]
    slowest = max(one.contracts_s for one in best)
    return [
        own_claim(
            "Best case of property 3: however much is to move, at rest after (s)",
            slowest,
            at_most(2),
        ),
        own_claim(
            "Worst case of property 3, a chain, however long: periods for each task that comes to its"
            " end, at most",
            max(per_task),
            at_most(2),
        ),
    ]


def extremes_table(found: list[Extreme]) -> Table:
    rows = tuple(
        (one.case, one.excess, one.arrived, round(one.contracts_s, 1), one.auctions_s)
        for one in found
    )
    columns = (
        "case",
        "tasks too many",
        "tasks at the end",
        "contracts at rest after (s)",
        "auctions (s)",
    )
    return Table("Property 3: the best and the worst case", columns, rows)
