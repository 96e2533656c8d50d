"""Local push-sum: every module learns a sum from its neighbours alone (games 5.2).

Each module begins with its value and a weight of 1. In each iteration it divides both evenly
between itself and its neighbours, and adds up what it receives. The quotients of values and weights
converge to the mean of all values, at a speed that depends on the graph; the number of modules is
known.
"""

from __future__ import annotations

from collections.abc import Mapping

from australis.elasticity.graph import FlowGraph


def push_sum(graph: FlowGraph, values: Mapping[str, float], iterations: int) -> dict[str, float]:
    """Each module's estimate of the sum of all values after this number of exchanges.

    >>> line = FlowGraph("ab", {("a", "b"): 1.0})
    >>> push_sum(line, {"a": 1.0, "b": 4.0}, 0), push_sum(line, {"a": 1.0, "b": 4.0}, 1)
    ({'a': 2.0, 'b': 8.0}, {'a': 5.0, 'b': 5.0})
    """
    sums, weights = dict(values), dict.fromkeys(graph.modules, 1.0)
    for _ in range(iterations):
        sums, weights = _exchanged(graph, sums), _exchanged(graph, weights)
    return {name: len(graph.modules) * sums[name] / weights[name] for name in graph.modules}


def _exchanged(graph: FlowGraph, values: Mapping[str, float]) -> dict[str, float]:
    shares = {name: values[name] / (len(graph.neighbours[name]) + 1) for name in graph.modules}
    return {
        name: shares[name] + sum(shares[other] for other in graph.neighbours[name])
        for name in graph.modules
    }
