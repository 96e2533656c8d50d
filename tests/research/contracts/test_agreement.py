"""Two simulators of one mechanism: machines that send messages, and a loop over arrays."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from australis.sim.network import Link, Network
from research.thesis_contracts.arrays.graphs import chain, diameter, random_graph
from research.thesis_contracts.arrays.instance import (
    PERIOD_US,
    Instance,
    levels,
    random_wakes,
    simulate,
)
from research.thesis_contracts.arrays.loads import thesis_loads
from research.thesis_contracts.arrays.machines import federation_of

MOST = 20_000


def instance(variant: str, level: float, least: int, seed: int, size: int = 40) -> Instance:
    rng = np.random.default_rng(seed)
    graph = random_graph(size, least, rng)
    uniform = variant.startswith("uniform")
    capacity = np.full(size, 100) if uniform else rng.integers(80, 121, size)
    buyer = np.repeat(np.arange(size), graph.degrees)
    high = np.minimum(capacity[buyer], capacity[graph.partners]).astype(float)
    return Instance(
        graph,
        thesis_loads(level, size, rng),
        capacity.astype(np.int32),
        high - 5 if variant.endswith("range") else high,
        high,
        levels(MOST),
        np.zeros(size, np.int32),
        random_wakes(size, rng),
    )


@pytest.mark.parametrize("above", [0.0, 2.0])
@pytest.mark.parametrize("level", [0.75, 1.25])
@pytest.mark.parametrize(
    "variant", ["uniform fixed", "uniform range", "mixed fixed", "mixed range"]
)
def test_under_the_same_order_both_end_with_the_same_allocation(
    variant: str, level: float, above: float
) -> None:
    for seed in range(2):
        given = instance(variant, level, 3, seed)
        found = simulate(given, above=above)
        federation = federation_of(given, Network(Random(seed), Link(0, 0)), above=above)
        federation.world.run(found.last_us + 12 * PERIOD_US)
        assert np.array_equal(federation.loads, found.load)
        moved = sum(m.holdings.movements for m in federation.machines.values())
        assert moved == found.movements


def test_a_chain_needs_a_range_as_wide_as_it_is_long() -> None:
    """Lemma 1: fixed prices cannot cross a chain, the range of the lemma can, a smaller cannot."""
    size = 6
    hops = size - 1
    excess = {}
    for width in (0, hops - 2, hops - 1):
        graph = chain(size)
        load = np.full(size, 100, np.int32)
        load[0], load[-1] = 110, 100 - (hops - 1) - 20
        high = np.full(len(graph.partners), 100.0)
        given = Instance(
            graph,
            load,
            np.full(size, 100, np.int32),
            high - width,
            high,
            levels(MOST),
            np.zeros(size, np.int32),
            random_wakes(size, np.random.default_rng(1)),
        )
        excess[width] = simulate(given).excess
    assert excess[0] == 10
    assert excess[hops - 2] > 0
    assert excess[hops - 1] == 0


@pytest.mark.parametrize("seed", range(40))
def test_the_range_of_lemma_1_gives_acceptable_allocations(seed: int) -> None:
    """Theorem 2: acceptable if underloaded at the lowest price, nearly acceptable otherwise."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(5, 60))
    graph = random_graph(size, int(rng.integers(1, 5)), rng)
    hops = diameter(graph)
    assert hops >= 0, "it is connected"
    load = rng.integers(1, rng.integers(100, 300), size).astype(np.int32)
    high = np.full(len(graph.partners), 100.0)
    given = Instance(
        graph,
        load,
        np.full(size, 100, np.int32),
        high - (hops - 1),
        high,
        levels(MOST),
        np.zeros(size, np.int32),
        random_wakes(size, rng),
    )
    found = simulate(given)
    assert found.load.sum() == load.sum()
    if load.sum() < size * (100 - (hops - 1)):
        assert found.excess == 0
    elif found.excess:
        assert found.load.min() > 100 - hops


@pytest.mark.parametrize("least", [1, 2, 5, 10])
def test_graphs_are_like_those_of_table_71(least: int) -> None:
    graph = random_graph(995, least, np.random.default_rng(3))
    assert graph.degrees.min() == least
    assert graph.degrees.max() <= 22
    wanted = {1: (15, 26), 2: (9, 15), 5: (5, 7), 10: (4, 5)}[least]
    assert wanted[0] <= diameter(graph) <= wanted[1]
