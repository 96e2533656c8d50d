"""Running diagrams on the reference engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from australis.diagram.fragments import Plan, cut
from australis.diagram.model import Diagram
from australis.reference import ReferenceEngine
from australis.streams.buckets import Buckets
from australis.streams.canonical import by_bucket
from australis.streams.schema import Schema

Batches = list[tuple[int, pa.RecordBatch]]


def source_log(table: pa.Table, schema: Schema, buckets: Buckets, time: str = "t") -> Batches:
    """What a source's log holds of rows that are in order of time."""
    rows = table.append_column("_stime", table.column(time))
    return by_bucket(rows, pa.array(np.arange(table.num_rows)), schema, buckets)


def plans(diagram: Diagram) -> Iterator[Plan]:
    """All plans, upstream first."""
    for fragment in cut(diagram):
        yield from fragment.plans


def last_bucket(logs: Mapping[str, Batches]) -> int:
    return max((bucket for log in logs.values() for bucket, _ in log), default=0)


def between(log: Batches, after: int, upto: int) -> list[pa.RecordBatch]:
    return [batch for bucket, batch in log if after < bucket <= upto]


def run_plan(
    engine: ReferenceEngine,
    inputs: Sequence[Batches],
    stops: Sequence[int],
    *,
    save: bool = False,
) -> Batches:
    """The plan's log after steps that end at these buckets."""
    state, found = engine.initial, []
    for upto in stops:
        if save:
            state = engine.decode(engine.encode(state))
        before = state.upto
        state, finished = engine.step(state, [between(i, before, upto) for i in inputs], upto)
        assert state.upto == upto
        found += finished
    return found


def run_diagram(
    diagram: Diagram,
    data: Mapping[str, pa.Table],
    stops: Sequence[int] | None = None,
    *,
    save: bool = False,
) -> tuple[dict[str, Batches], dict[str, Schema]]:
    """The log and the schema of every logged stream; `stops` is how buckets are grouped."""
    schemas = {source.name: source.schema for source in diagram.sources}
    logs = {
        source.name: source_log(data[source.name], source.schema, diagram.buckets, source.time)
        for source in diagram.sources
    }
    ends = [*(stops or [last_bucket(logs)]), diagram.buckets.last]
    for plan in plans(diagram):
        engine = ReferenceEngine(plan, schemas, diagram.buckets)
        schemas[plan.output] = engine.schema
        logs[plan.output] = run_plan(engine, [logs[s] for s in plan.inputs], ends, save=save)
    return logs, schemas


def results(diagram: Diagram, data: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The tuples of every logged stream."""
    logs, schemas = run_diagram(diagram, data)
    return {
        stream: pa.Table.from_batches([b for _, b in log], schemas[stream].arrow)
        for stream, log in logs.items()
    }


def ipc(batch: pa.RecordBatch) -> bytes:
    """A batch as it stands in a log."""
    written: bytes = batch.serialize().to_pybytes()
    return written
