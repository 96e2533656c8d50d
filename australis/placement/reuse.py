"""Reuse: a query can take over the results of a task of another query (ants 3.10).

A query that takes over such results needs neither its own task nor the tasks that feed only that
one. The rest is a query again, with a producer where the other task runs, whose tuples have an age:
it is placed, and its latency computed, like any other query.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from australis.placement.model import Books, Placement, footprint
from australis.placement.queries import Consumer, Producer, Query


class Tap(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A task of another query with the same results as a task of this query."""

    task: str
    """The task that is not needed."""
    at: str
    """The server where the other task runs."""
    query: str
    version: int
    of: str
    age_s: float
    """The age of the other task's tuples when it emits them."""
    remembers: tuple[tuple[str, str], ...] = ()
    """The servers of the stateful tasks that feed it, by signature."""


def reduced(query: Query, taps: Mapping[str, Tap]) -> Query:
    """The part of a query that is left to place when other queries provide some of its results.

    >>> from australis.placement.queries import Task
    >>> made = Query(
    ...     "q",
    ...     (Producer("p", "a", 1.0),),
    ...     (Task("f", ("p",), 1.0), Task("g", ("f",), 1.0), Task("h", ("g",), 1.0)),
    ...     (Consumer("c", "d", "h"),),
    ... )
    >>> left = reduced(made, {"g": Tap("g", "b", "other", 1, "g", 0.5)})
    >>> [p.name for p in left.producers], [t.name for t in left.tasks], left.pinned["g"]
    (['g'], ['h'], 'b')
    """
    if not taps:
        return query
    needed = {consumer.input for consumer in query.consumers}
    for task in reversed(query.tasks):
        if task.name in needed and task.name not in taps:
            needed |= set(task.inputs)
    producers = [p for p in query.producers if p.name in needed]
    producers += [
        Producer(
            task.name,
            taps[task.name].at,
            query.rates[task.name],
            task.bytes,
            age_s=taps[task.name].age_s,
            flows=query.flows[task.name],
            signature=query.signatures.get(task.name, ""),
        )
        for task in query.tasks
        if task.name in needed and task.name in taps
    ]
    tasks = tuple(t for t in query.tasks if t.name in needed and t.name not in taps)
    return Query(query.name, tuple(producers), tasks, query.consumers)


def reduced_like(query: Query, other: Query) -> Query:
    """The part of a query that is left to place with the same taps as another query of its name."""
    taken = {
        p.name: Tap(p.name, p.at, "", 0, "", p.age_s)
        for p in other.producers
        if p.name in query.task
    }
    return reduced(query, taken)


def used(query: Query, taps: Mapping[str, Tap]) -> dict[str, Tap]:
    """The taps that a query would need."""
    left = reduced(query, taps)
    return {p.name: taps[p.name] for p in left.producers if p.name in taps}


def age_s(query: Query, task: str, placement: Placement, books: Books) -> float:
    """The mean age of the tuples that a task of a placed query emits, over all paths to it."""
    part = _up_to(query, task, placement.hosts[task])
    found = footprint(part, placement, books.network)
    assert found is not None, "it is placed"
    waits = sum(use.weight * books.use(spot).wait_s for spot, use in found.uses.items())
    return found.fixed_s + waits


@lru_cache(maxsize=4096)
def _up_to(query: Query, task: str, at: str) -> Query:
    """A task and what feeds it, with a consumer at its server."""
    needed = {task}
    for other in reversed(query.tasks):
        if other.name in needed:
            needed |= set(other.inputs)
    return Query(
        query.name,
        tuple(p for p in query.producers if p.name in needed),
        tuple(t for t in query.tasks if t.name in needed),
        (Consumer(f"{task}'s", at, task),),
    )
