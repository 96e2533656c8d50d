"""Modules that share the cores of a node."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest
from elasticity.games import games
from hypothesis import given, settings
from hypothesis import strategies as st

from australis.elasticity.cost import Module
from australis.elasticity.equilibrium import best_equilibrium, integer_optimum
from australis.elasticity.game import Game
from australis.elasticity.graph import FlowGraph
from australis.elasticity.incentives import cooperate
from australis.elasticity.inertia import Inertia
from australis.elasticity.rounding import whole_cores
from australis.elasticity.service import Ideal
from australis.elasticity.shared import Node, least_pace_s, sharing
from australis.kernel.errors import UserError
from australis.protocols.elasticity.events import ElasticityOptions, Measured
from australis.sim.elasticity.simulation import ElasticitySimulation
from research.games.control import Seen
from research.games.strategies import Playing


def two() -> Game:
    """A pair in a row: the second takes three times as long."""
    graph = FlowGraph("ab", {("a", "b"): 1.0})
    return Game.of(
        graph, Module("a", Ideal(1.0), 0.5, 0.001, 64), Module("b", Ideal(3.0), 0.5, 0.001, 64)
    )


def nodes_of(game: Game, seed: int) -> list[Node]:
    rng = Random(seed)
    names = list(game.graph.modules)
    rng.shuffle(names)
    half = len(names) // 2 + 1
    return [
        Node(f"n{n}", len(group) + rng.randint(0, 20), tuple(group))
        for n, group in enumerate((names[:half], names[half:]))
        if group
    ]


def test_a_node_divides_its_cores_by_what_modules_need() -> None:
    """Eight cores: two and six, half a second each."""
    assert least_pace_s(two(), Node("n", 8, ("a", "b"))) == 0.5
    held = sharing(two(), [Node("n", 8, ("a", "b"))])
    assert best_equilibrium(held).degrees == pytest.approx({"a": 2.0, "b": 6.0})


def test_whole_cores_count() -> None:
    """Seven cores: two and five, not 1.75 and 5.25."""
    assert least_pace_s(two(), Node("n", 7, ("a", "b"))) == pytest.approx(0.6)


def test_a_node_with_cores_to_spare_changes_nothing() -> None:
    free = best_equilibrium(two())
    held = best_equilibrium(sharing(two(), [Node("n", 1_000, ("a", "b"))]))
    assert held.degrees == pytest.approx(dict(free.degrees))


@settings(max_examples=100)
@given(games(2, 8), st.integers(0, 1 << 30))
def test_no_node_has_more_in_use_than_it_has(game: Game, seed: int) -> None:
    nodes = nodes_of(game, seed)
    held = sharing(game, nodes)
    for profile in (best_equilibrium(held), cooperate(held, 0.3, 20).profile):
        cores = whole_cores(held, profile.degrees)
        for node in nodes:
            assert sum(cores[name] for name in node.modules) <= node.cores


@settings(max_examples=25)
@given(games(2, 3), st.integers(0, 1 << 30))
def test_the_integer_optimum_within_nodes(game: Game, seed: int) -> None:
    """Every way to divide small nodes, tried."""
    names = tuple(game.graph.modules)
    node = Node("n", len(names) + seed % 6, names)
    found = integer_optimum(sharing(game, [node]))
    assert sum(found.degrees.values()) <= node.cores
    ranges = [range(1, min(node.cores, game.modules[name].most) + 1) for name in names]
    tried = (
        game.total(dict(zip(names, cores, strict=True)))
        for cores in product(*ranges)
        if sum(cores) <= node.cores
    )
    assert game.total(found.degrees) == pytest.approx(min(tried), rel=1e-9)


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([Node("n", 1, ("a", "b"))], "'n' has 1 cores for 2 modules"),
        ([Node("n", 4, ("a", "z"))], "'n' should run z, which is no module"),
        ([Node("n", 4, ("a",)), Node("m", 4, ("a", "b"))], "'m' should run a, which is on n"),
    ],
)
def test_what_is_wrong_is_said(nodes: list[Node], said: str) -> None:
    with pytest.raises(UserError, match=said):
        sharing(two(), nodes)


@pytest.mark.parametrize("takes_s", [1.5, 6.0, 20.0])
def test_a_node_is_not_overcommitted_when_tasks_take_longer(takes_s: float) -> None:
    """What it allows follows from what was measured, not from what was once said."""
    node = Node("n", 8, ("a", "b"))
    inertia = Inertia(cost=1.0)
    strategy = Playing(two(), 50, newest=1.0, nodes=(node,), inertia=inertia)
    before = strategy.decide(Seen(0.1, {"a": 1.0, "b": 3.0}, {"a": 1.0, "b": 1.0}, {}))
    cores = strategy.decide(Seen(0.1, {"a": 1.0, "b": takes_s}, {"a": 1.0, "b": 1.0}, before))
    assert sum(cores.values()) <= node.cores


def test_agents_of_a_node_are_told_what_it_allows_now() -> None:
    node = Node("n", 8, ("a", "b"))
    floor = ElasticitySimulation(sharing(two(), [node]), ElasticityOptions(newest=1.0))
    slower = two().running({"b": 6.0})
    for name in node.modules:
        least_s = least_pace_s(slower, node) / slower.graph.ratios[name]
        running_s = slower.modules[name].service.running_s
        floor.tell(name, Measured(running_s=running_s, least_s=least_s))
    floor.run()
    found = {name: host.settled[-1].cores for name, host in floor.hosts.items()}
    assert sum(found.values()) <= node.cores
    assert floor.degrees() == pytest.approx(
        dict(best_equilibrium(sharing(slower, [node])).degrees), rel=1e-9
    )
