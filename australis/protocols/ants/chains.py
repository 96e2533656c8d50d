"""Chains: a query is placed one sequence of tasks at a time (ants 3.3, 3.8).

The first chain leads from a producer along the longest path to a consumer. Every other one leads
from a producer to a task placed earlier (it joins), or from such a task to a consumer (it splits
off). Edges on none of these chains are chains without tasks.

The places where other chains will join a chain or split off are not known yet; but their final
producers and consumers are, or the hosts of their tasks, and these pull the chain towards them.

The effect of consecutive tasks on a server depends on the server only through its speed: so it is
computed once per chain, for every first and last task, and scouts look it up.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from australis.placement.metric import Metric
from australis.placement.queries import Edge, Query

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Chain:
    """Consecutive tasks with the source and the target of the sequence."""

    query: Query
    tasks: tuple[str, ...]
    source: str
    """A producer, or the task from which the chain splits off."""
    target: str
    """A consumer, or the task that the chain joins."""

    @property
    def splits(self) -> bool:
        """Whether the source is a task."""
        return self.source in self.query.task

    @property
    def joins(self) -> bool:
        """Whether the target is a task."""
        return self.target in self.query.task

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges into each task and into the target."""
        ends = (self.source, *self.tasks, self.target)
        return tuple(
            next(e for e in self.query.incoming[there] if e.source == here)
            for here, there in itertools.pairwise(ends)
        )


def chains(query: Query) -> list[Chain]:
    """The chains of a query, in an order in which they can be placed.

    >>> from australis.placement.queries import Consumer, Producer, Task
    >>> made = Query(
    ...     "q",
    ...     (Producer("p", "a", 1.0), Producer("r", "b", 1.0)),
    ...     (Task("f", ("p",), 1.0), Task("g", ("r",), 1.0), Task("j", ("f", "g"), 1.0)),
    ...     (Consumer("c", "d", "j"),),
    ... )
    >>> [(chain.source, chain.tasks, chain.target) for chain in chains(made)]
    [('p', ('f', 'j'), 'c'), ('r', ('g',), 'j')]
    """
    return list(_chains(query))


def _chains(query: Query) -> Iterator[Chain]:
    placed: set[str] = set()
    ways = {(edge.source, edge.target) for edge in query.edges}
    while len(placed) < len(query.tasks):
        found = _longest(query, placed)
        yield found
        placed |= set(found.tasks)
        ends = (found.source, *found.tasks, found.target)
        ways -= set(itertools.pairwise(ends))
    for edge in query.edges:
        if (edge.source, edge.target) in ways:
            yield Chain(query, (), edge.source, edge.target)


def _longest(query: Query, placed: set[str]) -> Chain:
    """The longest path of unplaced tasks; the first leads from a producer to a consumer."""
    length: dict[str, int] = {}
    before: dict[str, str] = {}
    for task in query.tasks:
        if task.name in placed:
            continue
        # The first of several longest paths is taken.
        ways = [(length.get(source, 0), source) for source in task.inputs]
        best = max(ways, key=lambda way: way[0])
        length[task.name] = best[0] + 1
        before[task.name] = best[1]
    ends = [
        (length[task.name], task.name, edge.target)
        for task in query.tasks
        if task.name in length
        for edge in query.outgoing[task.name]
        if edge.target not in query.task or edge.target in placed
    ]
    _, last, target = max(ends, key=lambda end: end[0])
    line = [last]
    while before[line[-1]] in length:
        line.append(before[line[-1]])
    return Chain(query, tuple(reversed(line)), before[line[-1]], target)


class Pull(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A flow between a task of the chain and a server beside the chain."""

    task: int
    """The index of the task in the chain."""
    server: str
    costs: float
    """The cost of each second of latency between the two."""


def pulls(chain: Chain, hosts: Mapping[str, str], metric: Metric) -> tuple[Pull, ...]:
    """The pulls of all flows that join a chain or split off, towards known hosts or pinned ends."""
    query = chain.query
    ends = (chain.source, *chain.tasks, chain.target)
    own = set(itertools.pairwise(ends))
    found = []
    for number, name in enumerate(chain.tasks):
        for edge in (*query.incoming[name], *query.outgoing[name]):
            if (edge.source, edge.target) in own:
                continue
            into = edge.target == name
            other = edge.source if into else edge.target
            while other not in query.pinned and other not in hosts:
                other = query.task[other].inputs[0] if into else query.outgoing[other][0].target
            if other not in chain.tasks:
                costs = metric.latency * edge.weight + metric.usage * edge.rate * edge.bytes
                at = hosts[other] if other in hosts else query.pinned[other]
                found.append(Pull(number, at, costs))
    return tuple(found)


@dataclass(frozen=True)
class Edges:
    """The edges of a chain, as arrays."""

    weights: Array
    bytes: Array
    rates: Array

    @classmethod
    def of(cls, chain: Chain) -> Edges:
        """The edges into each task and into the target."""
        edges = chain.edges
        return cls(
            np.array([edge.weight for edge in edges]),
            np.array([edge.bytes for edge in edges]),
            np.array([edge.rate for edge in edges]),
        )


@dataclass(frozen=True)
class Parts:
    """The effect of consecutive tasks on a server of speed 1, as matrices by first and last."""

    load: Array
    """Rates times the times for which tuples occupy the server."""
    second: Array
    """Rates times the mean squares of those times."""
    main_weight: Array
    """The fraction of the flows that enter through the chain."""
    side_weight: Array
    """The fraction of the flows that enter from outside the chain."""
    served: Array
    """The weighted sum of the processing times of tuples."""


def parts(chain: Chain) -> Parts:
    """Compute the parts of a chain for all first and last tasks."""
    query, size = chain.query, len(chain.tasks)
    load, second, main_weight, side_weight, served = np.zeros((5, size, size))
    edges = chain.edges
    side = [
        [e for e in query.incoming[name] if e is not edges[at]]
        for at, name in enumerate(chain.tasks)
    ]
    for last in range(size):
        busy = own = 0.0
        sides = np.zeros(4)
        for first in range(last, -1, -1):
            name = chain.tasks[first]
            task = query.task[name]
            if first < last:
                behind = sum(edge.weight for edge in query.outgoing[name])
                own *= edges[first + 1].weight / behind
            busy = task.work + task.makes * busy
            own = task.work + task.makes * own
            for edge in side[first]:
                sides += _entry(edge, busy, own)
            main = _entry(edges[first], busy, own)
            at = first, last
            load[at], second[at], _, served[at] = main + sides
            main_weight[at], side_weight[at] = main[2], sides[2]
    return Parts(load, second, main_weight, side_weight, served)


def _entry(edge: Edge, busy: float, own: float) -> Array:
    """The effect of an edge that enters a server: Poisson arrivals, and exponential service times
    as in `placement.model`."""
    busy_s, square = edge.rate * busy, edge.rate * busy * busy * 2
    return np.array([busy_s, square, edge.weight, edge.weight * own])
