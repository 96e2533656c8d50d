"""User functions run twice, with micro-batches cut differently: do they give the same tuples?

Spark hands the tuples of a micro-batch to a function together, and how many buckets a micro-batch has
depends on how busy a machine is. A plan does not show whether the code inside a function cares. Here
each plan with a user's function runs over the same tuples in micro-batches of one bucket, then in
one micro-batch of all. Its inputs are the same both times, so a difference names the function.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from australis.diagram.fragments import Plan, cut
from australis.diagram.model import ARRIVAL, Diagram, Source, Spark
from australis.kernel.errors import Stopped
from australis.kernel.machine import Event
from australis.protocols.dpc.effects import RunStable, StableDone
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.spans import Span
from australis.runtime.node.lanes import LaneSettings
from australis.runtime.node.spark_lanes import SparkLanes
from australis.runtime.sources import open_reader
from australis.runtime.sources.replay import stamped
from australis.spark.analyse import analyse
from australis.spark.session import SparkSession
from australis.streams.buckets import Buckets
from australis.streams.schema import TIMESTAMP, Schema
from australis.streams.source import SourceStream

GENERATED_FROM_US = 1_800_000_000_000_000
"""The time at which generated tuples begin, where no source can be read."""
MOST_ROWS = 5
"""The largest number of generated rows of a source in a bucket."""
PATIENCE_S = 300.0
"""The longest time that one micro-batch may take."""
Log = dict[int, pa.RecordBatch]
"""The buckets of a stream that are not empty."""


@dataclass(frozen=True)
class Difference:
    """The first bucket in which two groupings give different tuples."""

    stream: str
    functions: tuple[str, ...]
    bucket: int
    ends_us: int
    one_by_one: list[dict[str, Any]]
    """The bucket's tuples where each micro-batch was one bucket."""
    at_once: list[dict[str, Any]]


@dataclass(frozen=True)
class Compared:
    """What was compared."""

    functions: tuple[str, ...]
    buckets: int
    rows: int
    """The tuples of all sources."""
    generated: tuple[str, ...]
    """The sources that cannot be read, whose tuples were generated."""
    difference: Difference | None


def compare_groupings(
    spark: SparkSession,
    diagram: Diagram,
    base: Path,
    scratch: Path,
    count: int,
    on_step: Callable[[str], None] = lambda step: None,
) -> Compared:
    """Run every plan that has a user's function over `count` buckets, twice, up to a difference."""
    schemas = analyse(spark, diagram, base)
    logs, generated, first = _sources(diagram, base, count)
    rows = sum(batch.num_rows for log in logs.values() for batch in log.values())
    upto = first + count
    done: list[str] = []
    for plan in _needed(diagram):
        once = _Grouping(spark, plan, schemas, diagram.buckets, base, scratch)
        functions = _functions(plan)
        on_step(f"computing {plan.output}")
        logs[plan.output] = at_once = once.run(logs, first, upto, count)
        if functions:
            on_step(f"computing {plan.output} again, bucket by bucket")
            one_by_one = once.run(logs, first, upto, 1)
            done += functions
            found = _difference(plan.output, functions, one_by_one, at_once, diagram.buckets)
            if found is not None:
                return Compared(tuple(done), count, rows, generated, found)
    return Compared(tuple(done), count, rows, generated, None)


def _functions(plan: Plan) -> tuple[str, ...]:
    return tuple(f"{o.name} ({o.function})" for o in plan.operators if isinstance(o, Spark))


def _needed(diagram: Diagram) -> list[Plan]:
    """The plans with user functions, and those that they read from, in order."""
    plans = [plan for fragment in cut(diagram) for plan in fragment.plans]
    wanted = {plan.output for plan in plans if _functions(plan)}
    for plan in reversed(plans):
        if plan.output in wanted:
            wanted.update(plan.inputs)
    return [plan for plan in plans if plan.output in wanted]


def _difference(
    stream: str, functions: tuple[str, ...], one_by_one: Log, at_once: Log, buckets: Buckets
) -> Difference | None:
    for number in sorted({*one_by_one, *at_once}):
        both = one_by_one.get(number), at_once.get(number)
        if both[0] != both[1]:
            told = [[] if b is None else b.drop_columns(["_type", "_id"]).to_pylist() for b in both]
            return Difference(stream, functions, number, buckets.end(number), *told)
    return None


class _Grouping:
    """One plan that is run over the same tuples in different groupings."""

    def __init__(
        self,
        spark: SparkSession,
        plan: Plan,
        schemas: Mapping[str, Schema],
        buckets: Buckets,
        base: Path,
        scratch: Path,
    ) -> None:
        self._spark, self._plan, self._schemas = spark, plan, schemas
        self._buckets, self._base, self._scratch = buckets, base, scratch

    def run(self, logs: Mapping[str, Log], first: int, upto: int, size: int) -> Log:
        """The stream's buckets (first, upto] where each micro-batch has this number of buckets."""
        name = self._plan.output
        told: list[Event] = []
        errors: list[BaseException] = []
        lanes = SparkLanes(
            {name: self._plan},
            dict(self._schemas),
            self._buckets,
            self._scratch / f"{name} by {size}",
            lambda: self._spark,
            self._base,
            errors.append,
            _no_log,
            LaneSettings(warm=False),
        )
        try:
            lanes.restore(name, first)
            lanes.start(told.append)
            for after in range(first, upto, size):
                end = min(after + size, upto)
                spans = tuple((_span(logs[one], after, end),) for one in self._plan.inputs)
                lanes.run_stable(RunStable(name, after, end, after, spans))
                _await(lambda: _is_done(told, end), errors)  # noqa: B023
            return dict(lanes.log(name).read(first, upto))
        finally:
            lanes.close()


def _is_done(told: list[Event], upto: int) -> bool:
    return any(isinstance(e, StableDone) and min(e.upto, e.end) >= upto for e in told)


def _no_log(machine: str, stream: str) -> Any:
    raise Stopped(f"there is no log of '{stream}'")


def _span(log: Log, after: int, upto: int) -> Span:
    listed = [Bucket(n, 0, log[n]) for n in sorted(log) if after < n <= upto]
    if not listed or listed[-1].number < upto:
        listed.append(Bucket(upto, 0))
    return Span(after, upto, tuple(listed))


def _await(done: Callable[[], bool], errors: list[BaseException]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        if errors:
            raise errors[0]
        if time.monotonic() > deadline:
            raise Stopped(f"a micro-batch took longer than {PATIENCE_S:.0f} s")
        time.sleep(0.01)


# --- tuples -----------------------------------------------------------------------------------


def _sources(
    diagram: Diagram, base: Path, count: int
) -> tuple[dict[str, Log], tuple[str, ...], int]:
    """The tuples of each source, which of them were generated, and the bucket before the first."""
    logs: dict[str, Log] = {}
    for source in diagram.sources:
        log = _read(source, diagram.buckets, base, count)
        if log is not None:
            logs[source.name] = log
    begins = [min(log) for log in logs.values() if log]
    first = min(begins, default=diagram.buckets.of(GENERATED_FROM_US)) - 1
    generated = tuple(s.name for s in diagram.sources if s.name not in logs)
    for source in diagram.sources:
        if source.name in generated:
            logs[source.name] = _generated(source, diagram.buckets, first, first + count)
        else:
            kept = logs[source.name].items()
            logs[source.name] = {n: batch for n, batch in kept if n <= first + count}
    return logs, generated, first


def _read(source: Source, buckets: Buckets, base: Path, count: int) -> Log | None:
    """The first buckets of a source; None if it cannot be read again."""
    reader = open_reader(source, base)
    if reader is None:
        return None
    tuples = SourceStream(source.schema, buckets, slack_us=source.slack_us)
    begins: int | None = None
    for release in stamped(reader, source, buckets, 0):
        tuples.offer(release.rows)
        if release.rows.num_rows and begins is None:
            begins = buckets.of(release.rows.column("_stime")[0].value)
        if begins is not None and buckets.closed_by(tuples.due_boundary()) > begins + count + 1:
            break
    step = tuples.end()
    return {} if step is None else dict(step.buckets)


def _generated(source: Source, buckets: Buckets, first: int, upto: int) -> Log:
    """Tuples drawn from the schema: a few in each bucket, the same in each run."""
    rng = random.Random(f"tuples of {source.name}")
    tuples = SourceStream(source.schema, buckets)
    for number in range(first + 1, upto + 1):
        times = sorted(
            rng.randrange(buckets.end(number - 1) + 1, buckets.end(number) + 1)
            for _ in range(rng.randint(0, MOST_ROWS))
        )
        columns = {"_stime": pa.array(times, TIMESTAMP)}
        for field in source.schema.attributes:
            if field.name == source.time != ARRIVAL:
                columns[field.name] = _as_times(times, field.type, source)
            else:
                values = [_value(rng, field.type) for _ in times]
                columns[field.name] = pa.array(values, field.type)
        rows = pa.RecordBatch.from_pydict(columns, tuples.row_schema)
        if rows.num_rows:
            tuples.offer(rows)
    step = tuples.end()
    return {} if step is None else dict(step.buckets)


def _as_times(times: list[int], kind: pa.DataType, source: Source) -> pa.Array:
    if pa.types.is_temporal(kind):
        return pa.array(times, TIMESTAMP).cast(kind)
    unit = {"s": 1_000_000, "ms": 1_000}.get(str(source.options.get("unit")), 1)
    whole = [t / unit if pa.types.is_floating(kind) else t // unit for t in times]
    return pa.array(whole, kind)


def _value(rng: random.Random, kind: pa.DataType) -> Any:
    """A value of a type; few different ones, so that groups and joins find partners."""
    small = rng.randint(0, 9)
    if pa.types.is_boolean(kind):
        return small < 5
    if pa.types.is_floating(kind):
        return small / 4
    if pa.types.is_decimal(kind):
        return Decimal(small % (10 ** max(0, kind.precision - kind.scale)))
    if pa.types.is_string(kind):
        return f"k{small}"
    if pa.types.is_binary(kind):
        return bytes([small])
    if pa.types.is_timestamp(kind):
        return datetime.fromtimestamp(GENERATED_FROM_US // 1_000_000, UTC) + timedelta(hours=small)
    if pa.types.is_date(kind):
        return date(2027, 1, 1 + small)
    if pa.types.is_struct(kind):
        return {field.name: _value(rng, field.type) for field in kind}
    return small
