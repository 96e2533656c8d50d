"""An agent's knowledge of the graph: its neighbours, and a few quantities about the rest."""

from __future__ import annotations

from dataclasses import dataclass

from australis.elasticity.graph import FlowGraph
from australis.elasticity.tree import lowest_tree


@dataclass(frozen=True)
class Seat:
    """The position of one agent in the graph and in the tree."""

    name: str
    neighbours: tuple[str, ...]
    ratio: float
    """The fraction of all tasks that reaches its module."""
    diameter: int
    """The largest number of hops between two agents."""
    modules: int
    """The number of agents."""
    parent: str | None = None
    """The agent to which it sends partial sums; None at the root."""
    children: tuple[str, ...] = ()
    """The agents from which it receives partial sums."""


def seats(graph: FlowGraph) -> dict[str, Seat]:
    """The seats of all agents by module."""
    tree = lowest_tree(graph)
    return {
        name: Seat(
            name,
            graph.neighbours[name],
            graph.ratios[name],
            graph.diameter,
            len(graph.modules),
            tree.parents.get(name),
            tree.children[name],
        )
        for name in graph.modules
    }
