"""Modules on nodes whose cores they share."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from statistics import fmean

from australis.elasticity.equilibrium import (
    integer_optimum,
    social_optimum,
)
from australis.elasticity.game import Game
from australis.elasticity.incentives import cooperate
from australis.elasticity.rounding import whole_cores
from australis.elasticity.shared import Node, sharing
from australis.protocols.elasticity.events import ElasticityOptions
from australis.sim.elasticity.simulation import ElasticitySimulation
from research.claims import Claim, Table, own_claim
from research.games.beyond.common import EXACT, INCREMENT, NEAR, ROUNDS
from research.games.beyond.random_graphs import made
from research.predicates import at_most, exactly

ON_A_NODE = 4


@dataclass(frozen=True)
class SharedCores:
    """Modules on nodes whose cores they share."""

    over: int
    """The nodes whose modules use more cores than the node has."""
    apart: float
    """The difference of agents from the centralized solution, before rounding."""
    optimum: float
    """The cost relative to the integer optimum."""
    free: float
    """The cost relative to that with unlimited nodes."""


def nodes_of(game: Game, rng: Random, tight: float) -> list[Node]:
    """Put modules on nodes at random; each node has this part of the cores that its modules
    want.
    """
    names = list(game.graph.modules)
    rng.shuffle(names)
    wanted = whole_cores(game, social_optimum(game).degrees)
    groups = [names[n : n + ON_A_NODE] for n in range(0, len(names), ON_A_NODE)]
    return [
        Node(
            f"node-{n}",
            max(len(group), round(tight * sum(wanted[name] for name in group))),
            tuple(group),
        )
        for n, group in enumerate(groups)
    ]


def measure_shared(seed: int) -> SharedCores:
    rng = Random(seed)
    game = made(20, seed)
    nodes = nodes_of(game, rng, rng.uniform(0.4, 1.1))
    held = sharing(game, nodes)
    played = cooperate(held, INCREMENT, ROUNDS)
    cores = whole_cores(held, played.profile.degrees)
    over = sum(sum(cores[name] for name in node.modules) > node.cores for node in nodes)
    floor = ElasticitySimulation(held, ElasticityOptions(newest=1.0))
    floor.run()
    first = played.first.degrees
    apart = max(abs(n / first[name] - 1) for name, n in floor.degrees().items() if first[name])
    best = integer_optimum(held).cost
    cost = held.total(cores)
    return SharedCores(over, apart, cost / best, cost / integer_optimum(game).cost)


def shared_claims(found: list[SharedCores]) -> list[Claim]:
    over = sum(one.over for one in found)
    apart = max(one.apart for one in found)
    cost = fmean(one.optimum for one in found)
    return [
        own_claim("Nodes with more cores in use than they have", over, exactly(0)),
        own_claim(
            "Agents on shared nodes: largest difference to the central solution",
            apart,
            at_most(EXACT),
        ),
        own_claim(
            "Cost on shared nodes, times the integer optimum, mean",
            cost,
            at_most(NEAR),
        ),
    ]


def shared_table(found: list[SharedCores]) -> Table:
    columns = ("games", "cost, times the optimum", "most", "times that without nodes", "most")
    row = (
        len(found),
        round(fmean(one.optimum for one in found), 4),
        round(max(one.optimum for one in found), 4),
        round(fmean(one.free for one in found), 3),
        round(max(one.free for one in found), 3),
    )
    return Table(f"Nodes that {ON_A_NODE} of 20 modules share", columns, (row,))
