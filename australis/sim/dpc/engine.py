"""The engine of a simulated lane: steps that replicas share are computed once.

A step is a pure function of a state and the input batches of one bucket, all of them immutable.
Replicas that do the same work pass the very same objects, so comparing identities is enough; a
replica with other inputs or another history computes its own steps. A `DigestEngine` is the worst
kind of deterministic operator: its output depends on every tuple it ever read, so that every
mistake shows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol

from australis.diagram.fragments import Plan
from australis.reference import ReferenceEngine
from australis.streams.buckets import Buckets
from australis.streams.schema import Schema

Inputs = tuple[Any, ...]
"""The batch of each input in one bucket, or None."""


class Engine(Protocol):
    """Computes one stream, bucket by bucket."""

    @property
    def initial(self) -> Any:
        """The state before any bucket."""
        ...

    def step(self, state: Any, inputs: Inputs, number: int) -> tuple[Any, Any]:
        """The state after a bucket, and the output's bucket of that number (None if empty)."""
        ...


@dataclass(frozen=True, eq=True)
class Digest:
    """A batch that consists of the hash of its content."""

    value: bytes
    num_rows: int = 1


class DigestEngine:
    """Outputs a hash of all tuples it ever read, in order."""

    initial = Digest(b"")

    def step(self, state: Digest, inputs: Inputs, number: int) -> tuple[Digest, Digest | None]:
        """Mix a bucket's tuples into the state."""
        there = [(i, batch) for i, batch in enumerate(inputs) if batch is not None]
        if not there:
            return state, None
        mixed = blake2b(state.value, digest_size=16)
        for i, batch in there:
            mixed.update(b"%d %d " % (i, number))
            mixed.update(batch.value)
        new = Digest(mixed.digest(), sum(batch.num_rows for _, batch in there))
        return new, new


class PlanEngine:
    """Runs a plan on the reference engine, bucket by bucket, on Arrow batches."""

    def __init__(self, plan: Plan, schemas: Mapping[str, Schema], buckets: Buckets) -> None:
        self._engine = ReferenceEngine(plan, schemas, buckets)
        self.schema = self._engine.schema
        self.initial: Any = self._engine.initial

    def step(self, state: Any, inputs: Inputs, number: int) -> tuple[Any, Any]:
        """Compute one bucket; buckets that a tentative lane has missed count as empty."""
        batches = [[] if batch is None else [batch] for batch in inputs]
        state, made = self._engine.step(state, batches, number)
        return state, dict(made).get(number)


class DifferingEngine:
    """Leaves out its results from a bucket on, as a function that reads a clock might."""

    def __init__(self, engine: Engine, first: int) -> None:
        self._engine = engine
        self._first = first
        self.initial = engine.initial

    def step(self, state: Any, inputs: Inputs, number: int) -> tuple[Any, Any]:
        """Compute one bucket, and leave out its tuples if it is one of the later ones."""
        state, batch = self._engine.step(state, inputs, number)
        return state, batch if number < self._first else None


class SharedEngine:
    """An engine that remembers its recent steps."""

    def __init__(self, engine: Engine, remember: int = 512) -> None:
        self._engine = engine
        self._remember = remember
        self._steps: OrderedDict[Any, tuple[Any, Inputs, Any, Any]] = OrderedDict()
        self.computed = 0
        self.initial = engine.initial

    def step(self, state: Any, inputs: Inputs, number: int) -> tuple[Any, Any]:
        """Compute one step, or return the remembered one."""
        key = (id(state), number, *map(id, inputs))
        found = self._steps.get(key)
        if found is not None:
            return found[2], found[3]
        self.computed += 1
        after, batch = self._engine.step(state, inputs, number)
        # The state and the batches are kept with the step, so that no id is used again.
        self._steps[key] = (state, inputs, after, batch)
        if len(self._steps) > self._remember:
            self._steps.popitem(last=False)
        return after, batch

    def run(self, state: Any, buckets: Sequence[tuple[int, Inputs]]) -> tuple[Any, dict[int, Any]]:
        """Several buckets, one after the other."""
        made: dict[int, Any] = {}
        for number, inputs in buckets:
            state, made[number] = self.step(state, inputs, number)
        return state, made
