"""Flow graphs: paths, neighbours, trees, and mistakes in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from australis.elasticity.generate import object_recognition, random_graph
from australis.elasticity.graph import FlowGraph
from australis.elasticity.tree import lowest_tree
from australis.kernel.errors import UserError

graphs = st.builds(
    lambda seed, size: random_graph(size, Random(seed), joins=3),
    st.integers(0, 1 << 30),
    st.integers(1, 9),
)


def paths(graph: FlowGraph, here: str, there: str) -> list[tuple[str, ...]]:
    if here == there:
        return [(there,)]
    return [(here, *rest) for name in graph.onward[here] for rest in paths(graph, name, there)]


@settings(max_examples=100)
@given(graphs)
def test_path_probabilities_are_sums_over_paths(graph: FlowGraph) -> None:
    """Expression 1, word for word."""
    for here in graph.modules:
        found = graph.probabilities(here)
        for there in graph.modules:
            expected = sum(
                prod(graph.arcs[arc] for arc in pairwise(path))
                for path in paths(graph, here, there)
            )
            assert found[there] == pytest.approx(expected, abs=1e-15)


@settings(max_examples=100)
@given(graphs)
def test_every_task_leaves_the_graph_once(graph: FlowGraph) -> None:
    ends = [name for name in graph.modules if not graph.onward[name]]
    assert sum(graph.ratios[name] for name in ends) == pytest.approx(1.0)


@settings(max_examples=100)
@given(graphs)
def test_the_lowest_tree_spans_the_graph_and_none_is_lower(graph: FlowGraph) -> None:
    tree = lowest_tree(graph)
    assert {tree.root, *tree.parents} == set(graph.modules)
    assert len(tree.parents) == len(graph.modules) - 1
    for name, parent in tree.parents.items():
        assert parent in graph.neighbours[name]
        assert name in tree.children[parent]
    heights = [max(graph.hops(name).values()) for name in graph.modules]
    assert tree.height == min(heights)
    assert graph.diameter == max(heights)
    for name in graph.modules:
        depth, at = 0, name
        while at != tree.root:
            depth, at = depth + 1, tree.parents[at]
        assert depth <= tree.height


def test_the_graph_of_figure_10() -> None:
    graph = object_recognition().graph
    assert len(graph.arcs) == 5
    assert graph.diameter == 3
    assert list(graph.ratios.values()) == [1.0, 0.5, 0.5, 1.0, 1.0]
    assert graph.neighbours["edge-detector"] == ("denoiser-1", "denoiser-2", "recognizer")
    assert lowest_tree(graph).height == 2


def test_several_sources_are_joined_by_a_virtual_one() -> None:
    graph = FlowGraph.joined(
        ["a", "b", "c"], {("a", "c"): 1.0, ("b", "c"): 1.0}, {"a": 6.0, "b": 2.0}, "all"
    )
    assert graph.virtual
    assert graph.source == "all"
    assert dict(graph.ratios) == {"all": 1.0, "a": 0.75, "b": 0.25, "c": 1.0}


def test_tasks_from_outside_may_come_to_the_middle_too() -> None:
    graph = FlowGraph.joined(["a", "b"], {("a", "b"): 1.0}, {"a": 1.0, "b": 3.0})
    assert dict(graph.ratios) == {"(sources)": 1.0, "a": 0.25, "b": 1.0}


LINE = {("a", "b"): 1.0, ("b", "c"): 1.0}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: FlowGraph([], {}), "'graph' has no modules"),
        (lambda: FlowGraph("aa", {}), "'a' is the name of two modules"),
        (lambda: FlowGraph("ab", LINE), "'c' is at the end of an arc but is no module"),
        (
            lambda: FlowGraph("abc", {**LINE, ("c", "b"): 1.0}),
            r"'b' is on a cycle: b -> c -> b",
        ),
        (lambda: FlowGraph("ab", {("a", "a"): 1.0}), r"'a' is on a cycle: a -> a"),
        (
            lambda: FlowGraph("abc", {("a", "b"): 0.5, ("a", "c"): 0.4}),
            "'a' sends on with probabilities that sum to 0.9, not to 1",
        ),
        (
            lambda: FlowGraph("ab", {("a", "b"): 0.0}),
            r"'a' sends to b with probability 0, not in \(0, 1\]",
        ),
        (
            lambda: FlowGraph("ab", {("a", "b"): 1.5}),
            r"'a' sends to b with probability 1.5, not in \(0, 1\]",
        ),
        (
            lambda: FlowGraph("abc", {("a", "c"): 1.0, ("b", "c"): 1.0}),
            "'b' is a source beside a: join them by a virtual source",
        ),
        (
            lambda: FlowGraph("abcd", {**LINE, ("d", "c"): 1.0}, source="a"),
            "'d' cannot be reached from the source a",
        ),
        (
            lambda: FlowGraph("abc", LINE, source="b"),
            "'b' should be the source but gets tasks from a",
        ),
        (lambda: FlowGraph("abc", LINE, source="x"), "'x' should be the source but is no module"),
        (
            lambda: FlowGraph.joined("abc", {("a", "c"): 1.0, ("b", "c"): 1.0}, {"a": 1.0}),
            "'b' has neither a predecessor nor a rate of its own",
        ),
        (
            lambda: FlowGraph.joined("ab", {("a", "b"): 1.0}, {"a": 0.0}),
            "'a' is a source with a rate of 0, not above 0",
        ),
        (
            lambda: FlowGraph.joined("ab", {("a", "b"): 1.0}, {"a": 1.0, "x": 1.0}),
            "'x' has a rate but is no module",
        ),
    ],
)
def test_graphs_that_cannot_be(make: Callable[[], object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        make()
