"""The engine: one plan, bucket by bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from australis.diagram.fragments import Plan
from australis.kernel.errors import OperatorFailed, UserError
from australis.kernel.ids import RANK_BITS
from australis.reference import snapshot
from australis.reference.canonical import Canonical
from australis.reference.expressions import Row
from australis.reference.operators import Node, make_node
from australis.reference.rows import BatchReader
from australis.reference.windows import NEVER
from australis.streams.buckets import Buckets
from australis.streams.schema import Schema


@dataclass(frozen=True, slots=True)
class State:
    """The immutable state of a plan after its buckets up to `upto`."""

    upto: int
    nodes: tuple[Any, ...]
    due: int
    """The first boundary at which a window closes, less 1 µs."""


@dataclass(frozen=True, slots=True)
class _Place:
    """An operator within the plan, with the origins of its inputs and the destinations of its
    outputs.
    """

    name: str
    node: Node
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class ReferenceEngine:
    """Computes one plan, bucket by bucket."""

    def __init__(self, plan: Plan, schemas: Mapping[str, Schema], buckets: Buckets) -> None:
        self._buckets = buckets
        self._name = plan.output
        self._ids = plan.reads_ids
        slots = {stream: at for at, stream in enumerate(plan.inputs)}
        known = {stream: schemas[stream] for stream in plan.inputs}
        self._places: list[_Place] = []
        for o in plan.operators:
            try:
                node = make_node(o, [known[stream] for stream in o.inputs])
            except UserError as error:
                raise error.at(o.place, o.name) from None
            inputs = tuple(slots[stream] for stream in o.inputs)
            for stream, schema in zip(o.outputs, node.schemas, strict=True):
                known[stream] = schema
                slots[stream] = len(slots)
            outputs = tuple(slots[stream] for stream in o.outputs)
            self._places.append(_Place(o.name, node, inputs, outputs))
        self.schema: Schema = known[plan.output]
        self._output = slots[plan.output]
        self._slots = len(slots)
        self._readers = [BatchReader(schemas[s], ids=self._ids) for s in plan.inputs]
        self._canonical = Canonical(self.schema, buckets)
        self.initial = State(-1, tuple(p.node.initial for p in self._places), NEVER)

    def step(
        self, state: State, inputs: Sequence[Sequence[pa.RecordBatch]], upto: int
    ) -> tuple[State, list[tuple[int, pa.RecordBatch]]]:
        """The state after the buckets (state.upto, upto], and the output buckets now finished."""
        boundary = self._buckets.end(upto)
        if state.due > boundary and not any(inputs):
            return State(upto, state.nodes, state.due), []
        slots: list[list[Row]] = [
            read.rows(batches) for read, batches in zip(self._readers, inputs, strict=True)
        ]
        if self._ids and sum(map(bool, slots)) > 1:
            slots = self._merged(slots)
        slots += [[]] * (self._slots - len(slots))
        nodes = self._run(slots, state, boundary)
        found = slots[self._output]
        finished = self._canonical.by_bucket(found) if found else []
        return State(upto, nodes, self._due(nodes)), finished

    def _run(self, slots: list[list[Row]], state: State, boundary: int) -> tuple[Any, ...]:
        before = self._buckets.end(state.upto)
        nodes = []
        for place, kept in zip(self._places, state.nodes, strict=True):
            rows = [slots[at] for at in place.inputs]
            try:
                found, kept = place.node.step(rows, kept, before, boundary)
            except Exception as error:
                first, last = state.upto + 1, self._buckets.closed_by(boundary)
                where = f"in bucket {last}" if first == last else f"in buckets {first} to {last}"
                why = f"{type(error).__name__}: {error}"
                raise OperatorFailed([place.name], self._name, where, why) from error
            nodes.append(kept)
            for at, made in zip(place.outputs, found, strict=True):
                slots[at] = made
        return tuple(nodes)

    def _due(self, nodes: tuple[Any, ...]) -> int:
        due = NEVER
        for place, kept in zip(self._places, nodes, strict=True):
            if place.node.due is not None:
                due = min(due, place.node.due(kept) - 1)
        return due

    def _merged(self, slots: list[list[Row]]) -> list[list[Row]]:
        """The inputs in SUnion's order, with the ids of their places in the merged buckets."""
        merged = sorted(
            ((row[0], number, row[-1], row) for number, rows in enumerate(slots) for row in rows),
            key=lambda entry: entry[:3],
        )
        result: list[list[Row]] = [[] for _ in slots]
        bucket, next_id = -1, 0
        for stime, number, _, row in merged:
            if (mine := self._buckets.of(stime)) != bucket:
                bucket, next_id = mine, mine << RANK_BITS
            result[number].append((*row[:-1], next_id))
            next_id += 1
        return result

    def encode(self, state: State) -> bytes:
        """A state as bytes, for a disk."""
        return snapshot.encode(state.upto, state.nodes)

    def decode(self, data: bytes) -> State:
        """The state that `encode` wrote."""
        upto, nodes = snapshot.decode(data)
        return State(upto, nodes, self._due(nodes))
