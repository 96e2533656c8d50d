"""What an agent knows of the graph: its neighbours, and no more than it needs of the rest."""

from __future__ import annotations

from dataclasses import dataclass

from australis.elasticity.graph import FlowGraph
from australis.elasticity.tree import lowest_tree


@dataclass(frozen=True)
class Seat:
    """The place of one agent among the others."""

    name: str
    neighbours: tuple[str, ...]
    ratio: float
    """The part of all tasks that comes to its module."""
    diameter: int
    """How far two agents are from each other at most,"""
    modules: int
    """and how many there are."""
    parent: str | None = None
    """Its place in the tree: whom it hands sums to, if it is not the root,"""
    children: tuple[str, ...] = ()
    """and who hands sums to it."""


def seats(graph: FlowGraph) -> dict[str, Seat]:
    """The places of all agents."""
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
