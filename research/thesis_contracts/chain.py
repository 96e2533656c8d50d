"""How many hops load moves through contracts (thesis 6.6.1: lemma 1, theorem 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from research.claims import Claim, Progress, Result, Table
from research.predicates import above, exactly, fields
from research.thesis_contracts.arrays.graphs import Graph, chain, diameter, random_graph
from research.thesis_contracts.arrays.instance import (
    FederationOutcome,
    Instance,
    levels,
    random_wakes,
    simulate,
)
from research.thesis_contracts.arrays.loads import Loads

CAPACITY = 100
LENGTHS = (3, 4, 6, 10)
"""The number of participants in a chain."""
EXCESS = 10
NETWORKS = 1_000
MOST_LOADS = (100, 300)
"""The largest load is drawn between these, so that about half of the networks are overloaded."""


@dataclass(frozen=True)
class ChainResult:
    """The final allocation of a random network, and the promise of theorem 2 for it."""

    underloaded: bool
    acceptable: bool
    nearly: bool

    @property
    def kept(self) -> bool:
        """Whether the promise was kept."""
        return self.acceptable if self.underloaded else self.acceptable or self.nearly


class ContractsChain:
    """Chains with ranges of different widths, then random networks with that of lemma 1."""

    name = "contracts-chain"
    description = "The range that lets load cross any network of contracts."
    reproduces = "thesis lemma 1, theorem 2, figures 6-12 to 6-14"
    duration = "20 s, quick 5 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run all networks; with `quick` a tenth of them."""
        progress("chains")
        left = {
            (size, width): _chain(size, width).excess
            for size in LENGTHS
            for width in (0, size - 3, size - 2)
        }
        count = NETWORKS // 10 if quick else NETWORKS
        verdicts = []
        for seed in range(count):
            if seed % 100 == 0:
                progress(f"network {seed:,} of {count:,}")
            verdicts.append(_network(seed))
        return Result(
            (*_chain_claims(left), _theorem(verdicts)), (_table(left), _verdicts(verdicts)), ()
        )


def _instance(graph: Graph, load: Loads, width: int, rng: np.random.Generator) -> Instance:
    price = np.full(len(graph.partners), float(CAPACITY))
    size = graph.size
    return Instance(
        graph,
        load,
        np.full(size, CAPACITY, np.int32),
        price - width,
        price,
        levels(int(load.max()) + CAPACITY + 2),
        np.zeros(size, np.int32),
        random_wakes(size, rng),
    )


def _chain(size: int, width: int) -> FederationOutcome:
    """A chain with excess load at one end, room at the other, and full participants between."""
    load = np.full(size, CAPACITY, np.int32)
    load[0] += EXCESS
    load[-1] = 1
    return simulate(_instance(chain(size), load, width, np.random.default_rng(size)))


def _network(seed: int) -> ChainResult:
    rng = np.random.default_rng([seed, 2])
    size = int(rng.integers(4, 80))
    graph = random_graph(size, int(rng.integers(1, 4)), rng)
    hops = diameter(graph)
    load = rng.integers(1, rng.integers(*MOST_LOADS), size).astype(np.int32)
    outcome = simulate(_instance(graph, load, hops - 1, rng))
    return ChainResult(
        int(load.sum()) < size * (CAPACITY - (hops - 1)),
        outcome.excess == 0,
        int(outcome.load.min()) > CAPACITY - hops,
    )


def _chain_claims(left: dict[tuple[int, int], int]) -> list[Claim]:
    claims = []
    for size in LENGTHS:
        fixed, small, enough = (left[size, width] for width in (0, size - 3, size - 2))
        claims.append(
            Claim(
                f"A chain of {size}: tasks left with fixed prices, a range too small by one,"
                " and lemma 1's",
                {"fixed": fixed, "too_small": small, "lemma_1": enough},
                fields(fixed=exactly(EXCESS), too_small=above(0), lemma_1=exactly(0)),
                "all, some, none",
            )
        )
    return claims


def _theorem(verdicts: list[ChainResult]) -> Claim:
    kept = sum(verdict.kept for verdict in verdicts)
    return Claim(
        f"Theorem 2 on {len(verdicts):,} random homogeneous networks: promises kept",
        kept,
        exactly(len(verdicts)),
        "all",
    )


def _table(left: dict[tuple[int, int], int]) -> Table:
    rows = tuple((size, width, tasks) for (size, width), tasks in left.items())
    title = f"Lemma 1: {EXCESS} tasks too many at one end of a chain"
    return Table(title, ("participants", "width of the range (tasks)", "tasks left"), rows)


def _verdicts(verdicts: list[ChainResult]) -> Table:
    under = [v for v in verdicts if v.underloaded]
    over = [v for v in verdicts if not v.underloaded]
    rows = (
        ("underloaded", len(under), sum(v.acceptable for v in under), None),
        ("overloaded", len(over), sum(v.acceptable for v in over), sum(v.nearly for v in over)),
    )
    columns = ("networks", "how many", "acceptable", "nearly acceptable")
    return Table("Theorem 2: how random networks end", columns, rows)


EXPERIMENT = ContractsChain()
