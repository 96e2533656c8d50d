"""Contracts along the links of real networks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from research.claims import Claim, Table, own_claim
from research.predicates import exactly
from research.thesis_contracts.arrays.graphs import diameter
from research.thesis_contracts.arrays.instance import (
    Instance,
    levels,
    random_wakes,
    simulate,
)
from research.thesis_contracts.arrays.loads import thesis_loads
from research.thesis_contracts.arrays.peering import peering_graph
from research.thesis_contracts.arrays.variants import CAPACITY
from research.thesis_contracts.beyond.common import LEVEL


@dataclass(frozen=True)
class Peering:
    """The outcome of contracts along the links of a real network: the part of the load left
    misplaced.
    """

    participants: int
    span: int
    fixed: float
    ranged: float


def measure_peering(system: str) -> Peering:
    graph = peering_graph(system)
    rng = np.random.default_rng(7)
    size = graph.size
    load = thesis_loads(LEVEL, size, rng)
    price = np.full(len(graph.partners), float(CAPACITY))
    instance = Instance(
        graph,
        load,
        np.full(size, CAPACITY, np.int32),
        price,
        price,
        levels(int(load.max()) + CAPACITY + 2),
        np.zeros(size, np.int32),
        random_wakes(size, rng),
    )
    span, total = diameter(graph), int(load.sum())
    enough = replace(instance, low=price - (span - 1))
    return Peering(size, span, simulate(instance).excess / total, simulate(enough).excess / total)


def peering_claims(found: dict[str, Peering]) -> list[Claim]:
    return [
        own_claim(
            f"{name}: the range of lemma 1 leaves nothing misplaced, fixed prices {one.fixed:.1%}"
            " (part of the load)",
            one.ranged,
            exactly(0),
        )
        for name, one in found.items()
    ]


def peering_table(found: dict[str, Peering]) -> Table:
    rows = tuple(
        (name, one.participants, one.span, f"{one.fixed:.2%}", f"{one.ranged:.2%}")
        for name, one in found.items()
    )
    columns = ("network", "participants", "diameter", "left with fixed prices", "with lemma 1's")
    return Table("Contracts along the links of real networks, 75% load", columns, rows)
