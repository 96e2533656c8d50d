"""The spanning tree along which agents add up their costs (games 5.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from australis.elasticity.graph import FlowGraph


@dataclass(frozen=True)
class Tree:
    """A spanning tree of the modules."""

    root: str
    parents: Mapping[str, str]
    """The parent of each module but the root."""
    children: Mapping[str, tuple[str, ...]]
    height: int


def lowest_tree(graph: FlowGraph) -> Tree:
    """A spanning tree of the least height: all shortest paths from a centre of the graph.

    >>> lowest_tree(FlowGraph("abc", {("a", "b"): 1.0, ("b", "c"): 1.0}))
    Tree(root='b', parents={'a': 'b', 'c': 'b'}, children={'b': ('a', 'c'), 'a': (), 'c': ()}, height=1)
    """
    far = graph.hops(graph.centre)
    parents: dict[str, str] = {}
    children: dict[str, list[str]] = {name: [] for name in far}
    for name, hops in far.items():
        if hops:
            nearer = (other for other in graph.neighbours[name] if far[other] == hops - 1)
            parents[name] = next(nearer)
            children[parents[name]].append(name)
    made = {name: tuple(below) for name, below in children.items()}
    return Tree(graph.centre, parents, made, max(far.values()))
