"""Queries: tasks between producers and consumers that are pinned to servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import inf

from australis.kernel.errors import UserError


@dataclass(frozen=True)
class Producer:
    """A source of tuples, pinned to a server."""

    name: str
    at: str
    rate: float
    """Tuples per second."""
    bytes: float = 1_000.0
    """The size of a tuple in bytes."""
    stream: str = ""
    """The stream it emits: producers of one stream at one server emit the same tuples. If empty,
    the stream is its own."""
    age_s: float = 0.0
    """The age of its tuples when they are emitted; above 0 if it is a task of another query."""
    flows: int = 1
    """The number of flows from producers that it represents if it is a task of another query."""
    signature: str = ""
    """The signature of that task if it is a task of another query."""


@dataclass(frozen=True)
class Task:
    """An operator to be placed on a server."""

    name: str
    inputs: tuple[str, ...]
    """The producers and tasks whose tuples it consumes."""
    work: float
    """The units of work for a tuple."""
    makes: float = 1.0
    """The number of output tuples per input tuple (its batch size), below 1 for a filter."""
    bytes: float = 1_000.0
    """The size of an output tuple in bytes."""
    does: str = ""
    """The operation on its inputs: tasks with equal operations and inputs have equal results. If
    empty, the operation is unique."""
    state_bytes: float = 0.0
    """The size of its state, which has to be copied when it moves."""


@dataclass(frozen=True)
class Consumer:
    """A sink of results, pinned to a server."""

    name: str
    at: str
    input: str


@dataclass(frozen=True)
class Edge:
    """The tuples from a producer or a task to a task or a consumer."""

    source: str
    target: str
    rate: float
    bytes: float
    weight: float
    """The fraction of the flows from a producer to a consumer that uses this edge."""


@dataclass(frozen=True)
class Query:
    """A flow graph of tasks between producers and consumers."""

    name: str
    producers: tuple[Producer, ...]
    tasks: tuple[Task, ...]
    """The tasks in topological order, inputs first."""
    consumers: tuple[Consumer, ...]

    def __post_init__(self) -> None:
        known: set[str] = set()
        for producer in self.producers:
            self._new(producer.name, known)
            if not 0 < producer.rate < inf:
                self._refuse(f"has a rate of {producer.rate:g} at {producer.name}, not above 0")
            self._sized(producer.name, producer.bytes)
        for task in self.tasks:
            if not task.inputs:
                self._refuse(f"has a task without inputs, {task.name}")
            for source in task.inputs:
                if source not in known:
                    self._refuse(
                        f"has a task {task.name} that takes {source}, which is not before it"
                    )
            self._new(task.name, known)
            self._sized(task.name, task.bytes)
            if not 0 < task.work < inf or not 0 < task.makes < inf:
                self._refuse(f"has a task {task.name} with no work or no tuples")
        sources = set(known)
        for consumer in self.consumers:
            if consumer.input not in sources:
                self._refuse(
                    f"has a consumer {consumer.name} of {consumer.input}, which puts nothing out"
                )
            self._new(consumer.name, known)
        if not self.producers or not self.consumers:
            self._refuse("has no producer or no consumer")
        used = {source for task in self.tasks for source in task.inputs}
        used |= {consumer.input for consumer in self.consumers}
        for name in (*(p.name for p in self.producers), *(t.name for t in self.tasks)):
            if name not in used:
                self._refuse(f"has no consumer of what {name} emits")

    def _new(self, name: str, known: set[str]) -> None:
        if name in known:
            self._refuse(f"has two of the name {name}")
        known.add(name)

    def _sized(self, name: str, size: float) -> None:
        if not 0 < size < inf:
            self._refuse(f"has tuples of {size:g} bytes out of {name}, not above 0")

    def _refuse(self, why: str) -> None:
        raise UserError(why, name=self.name)

    # --- derived properties ----------------------------------------------------------------

    @cached_property
    def task(self) -> Mapping[str, Task]:
        """Tasks by name."""
        return {task.name: task for task in self.tasks}

    @cached_property
    def pinned(self) -> Mapping[str, str]:
        """The servers of producers and consumers."""
        found = {producer.name: producer.at for producer in self.producers}
        return found | {consumer.name: consumer.at for consumer in self.consumers}

    @cached_property
    def rates(self) -> Mapping[str, float]:
        """The output rate of each producer and task, in tuples per second."""
        found = {producer.name: producer.rate for producer in self.producers}
        for task in self.tasks:
            found[task.name] = task.makes * sum(found[source] for source in task.inputs)
        return found

    @cached_property
    def flows(self) -> Mapping[str, int]:
        """The number of paths from producers to each producer and task."""
        found = {producer.name: producer.flows for producer in self.producers}
        for task in self.tasks:
            found[task.name] = sum(found[source] for source in task.inputs)
        return found

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """All edges, those of the first tasks first."""
        pairs = [(s, t.name) for t in self.tasks for s in t.inputs]
        pairs += [(c.input, c.name) for c in self.consumers]
        size: dict[str, float] = {p.name: p.bytes for p in self.producers}
        size |= {task.name: task.bytes for task in self.tasks}
        before = self.flows
        behind = self._behind(pairs)
        flows = sum(p.flows * behind[p.name] for p in self.producers)
        return tuple(
            Edge(s, t, self.rates[s], size[s], before[s] * behind[t] / flows) for s, t in pairs
        )

    def _behind(self, pairs: list[tuple[str, str]]) -> dict[str, int]:
        """The number of paths from each producer and task to consumers."""
        found = {consumer.name: 1 for consumer in self.consumers}
        for source, target in reversed(pairs):
            found[source] = found.get(source, 0) + found[target]
        return found

    @cached_property
    def signatures(self) -> Mapping[str, str]:
        """The signature of each producer and task whose results others may share: equal signatures
        mean equal results."""
        found = {p.name: p.signature for p in self.producers if p.signature}
        found |= {p.name: _sign(p.stream, p.at) for p in self.producers if p.stream}
        for task in self.tasks:
            if task.does and all(source in found for source in task.inputs):
                found[task.name] = _sign(task.does, *(found[source] for source in task.inputs))
        return found

    @cached_property
    def incoming(self) -> Mapping[str, tuple[Edge, ...]]:
        """The edges into each task and consumer."""
        found: dict[str, list[Edge]] = {}
        for edge in self.edges:
            found.setdefault(edge.target, []).append(edge)
        return {name: tuple(edges) for name, edges in found.items()}

    @cached_property
    def outgoing(self) -> Mapping[str, tuple[Edge, ...]]:
        """The edges out of each producer and task."""
        found: dict[str, list[Edge]] = {}
        for edge in self.edges:
            found.setdefault(edge.source, []).append(edge)
        return {name: tuple(edges) for name, edges in found.items()}


def _sign(*parts: str) -> str:
    """A short digest of parts of any length."""
    told = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(told.encode(), digest_size=12).hexdigest()
