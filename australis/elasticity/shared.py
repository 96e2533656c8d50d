"""Modules that share the cores of a node: the normal case here, the paper's future work (games 7).

The cores of a node are enough for some paces and not for others: the whole cores that its modules
need at a pace must not exceed those it has. So a node is another lower bound on the pace, known to
its modules alone: none of them is faster than its node allows. Everything else stays the same, and
agents find a (generalised) equilibrium by the same messages.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, replace

from australis.elasticity.game import Game
from australis.elasticity.service import Paced, fed
from australis.kernel.errors import UserError


@dataclass(frozen=True)
class Node:
    """A machine whose cores several modules share."""

    name: str
    cores: int
    modules: tuple[str, ...]


def sharing(game: Game, nodes: Iterable[Node]) -> Game:
    """The same game, with its modules bounded to paces for which each node has enough whole cores.

    The bounds follow from the current service times: set these and the arrivals before this call
    and not after it, anew in every control step.
    """
    modules = dict(game.modules)
    seen: dict[str, str] = {}
    for node in nodes:
        _check(game, node, seen)
        pace_s = least_pace_s(game, node)
        for name in node.modules:
            service = modules[name].service
            floor_s = pace_s / game.graph.ratios[name]
            if isinstance(service, Paced):
                floor_s = max(floor_s, service.every_s)
            modules[name] = replace(modules[name], service=fed(service, floor_s))
    return Game(game.graph, modules)


def least_pace_s(game: Game, node: Node) -> float:
    """The least pace that a node allows: its slowest module repeatedly gets one more core."""
    cores = dict.fromkeys(node.modules, 1)

    def pace_s(name: str) -> float:
        return game.modules[name].service.time_s(cores[name]) * game.graph.ratios[name]

    slowest = [(-pace_s(name), name) for name in node.modules]
    heapq.heapify(slowest)
    for _ in range(node.cores - len(cores)):
        before_s, name = slowest[0]
        if cores[name] >= game.modules[name].most:
            break
        cores[name] += 1
        if -pace_s(name) <= before_s:
            break
        heapq.heapreplace(slowest, (-pace_s(name), name))
    return -slowest[0][0]


def _check(game: Game, node: Node, seen: dict[str, str]) -> None:
    for name in node.modules:
        if name not in game.modules or (game.graph.virtual and name == game.graph.source):
            raise UserError(f"should run {name}, which is no module", name=node.name)
        if name in seen:
            raise UserError(f"should run {name}, which is on {seen[name]}", name=node.name)
        seen[name] = node.name
    if node.cores < len(node.modules):
        raise UserError(
            f"has {node.cores} cores for {len(node.modules)} modules, which need one each",
            name=node.name,
        )
