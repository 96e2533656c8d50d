"""Rows on which a user's function raises.

A row is *poison* if the plan raises on it alone. That is a property of the row, whatever stands beside
it in a micro-batch, so that all replicas find the same rows. It says nothing of a function that sees
several rows at once: only plans that treat each row by itself are looked at.

The plan is planned once for many rows, with a few of them in each partition, and the partitions are
computed one by one: that takes some milliseconds each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from australis.diagram.fragments import Plan
from australis.kernel.errors import UserError
from australis.spark.compile import compile_plan
from australis.spark.lane import LaneAddress, LaneInputs, MergedInputs, fails_on_tuples, reason
from australis.spark.logical_plans import analysed, nodes
from australis.spark.types import to_spark
from australis.streams.sunion import MergedSchema

PARTS = 64
"""The number of partitions that rows are looked at in."""
SAMPLE = 5
"""The number of rows that are looked at first: a plan that raises on each of them is broken."""
_ROW_BY_ROW = (
    "Project",
    "Filter",
    "Union",
    "SubqueryAlias",
    "EventTimeWatermark",
    "Generate",
    "MapInPandas",
    "MapInArrow",
    "PythonMapInArrow",
    "StreamingRelationV2",
    "StreamingRelation",
)
"""The nodes of a plan that treat each row by itself, as far as Spark can know."""


@dataclass(frozen=True)
class Poison:
    """A row on which a plan raises."""

    index: int
    """Its place among the rows that were looked at."""
    why: str


class PoisonSearch:
    """Looks for the rows on which one plan raises."""

    def __init__(self, spark: SparkSession, plan: Plan, schema: MergedSchema, base: Path) -> None:
        self._spark, self._plan, self._schema, self._base = spark, plan, schema, base

    def find(self, rows: pa.Table, limit: int) -> list[Poison]:
        """The rows on which the plan raises alone, in order; none if it is not to be told.

        It stops behind `limit` rows: then there is one more.
        """
        found: list[Poison] = []
        if rows.num_rows and self._treats_rows_alone() and not self._always_raises(rows):
            self._search(rows, 0, limit, found)
        return found

    def _always_raises(self, rows: pa.Table) -> bool:
        """Whether a plan seems to raise on whatever it gets, which no row is to blame for."""
        number = rows.num_rows
        if number < 2 * SAMPLE:
            return False
        sample = rows.take([i * number // SAMPLE for i in range(SAMPLE)])
        computed = self._partitioned(sample, SAMPLE)
        return all(self._failure(computed, part) is not None for part in range(SAMPLE))

    def _search(self, rows: pa.Table, first: int, limit: int, found: list[Poison]) -> None:
        """Look at parts of the rows, and again at those parts that raise."""
        number = rows.num_rows
        parts = min(number, PARTS)
        computed = self._partitioned(rows, parts)
        for part in range(parts):
            if len(found) > limit:
                return
            low, high = part * number // parts, (part + 1) * number // parts
            why = self._failure(computed, part)
            if why is None:
                continue
            if high - low == 1:
                found.append(Poison(first + low, why))
            else:
                self._search(rows.slice(low, high - low), first + low, limit, found)

    def _partitioned(self, rows: pa.Table, parts: int) -> Any:
        """The plan over these rows, in partitions that are computed when they are asked for."""
        numbers = self._spark.range(0, rows.num_rows, 1, parts)
        frame = numbers.mapInArrow(_delivering(rows), to_spark(self._schema.arrow))
        inputs = MergedInputs(frame, self._plan.inputs, self._schema)
        result = compile_plan(self._plan, inputs, self._base)
        return result._jdf.queryExecution().toRdd().toJavaRDD()  # type: ignore[operator]

    def _failure(self, computed: Any, part: int) -> str | None:
        """Why the plan raises on the rows of a partition; None if it does not."""
        gateway = self._spark.sparkContext._gateway
        assert gateway is not None
        numbers = gateway.new_array(gateway.jvm.int, 1)
        numbers[0] = part
        try:
            computed.collectPartitions(numbers)
        except (Py4JJavaError, PySparkException) as error:
            # What Spark's own functions raise is a Java exception of the same name.
            text = f"org.apache.spark.{type(error).__name__}: {error}"
            if not fails_on_tuples(text):
                raise
            return reason(str(error))
        return None

    def _treats_rows_alone(self) -> bool:
        nowhere = LaneAddress(self._plan.output, "", "")
        inputs = LaneInputs(self._spark, self._plan.inputs, self._schema, nowhere)
        try:
            return is_row_by_row(compile_plan(self._plan, inputs, self._base))
        except UserError:
            return False


def _delivering(
    rows: pa.Table,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for Spark's workers that replaces numbers by the rows that have them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    data = sink.getvalue().to_pybytes()

    def deliver(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        table = pa.ipc.open_stream(data).read_all()
        for batch in batches:
            if batch.num_rows:
                part = table.slice(batch.column(0)[0].as_py(), batch.num_rows)
                yield from part.combine_chunks().to_batches()

    return deliver


def is_row_by_row(frame: DataFrame) -> bool:
    """Whether each row of the streams that a frame reads is treated by itself."""
    return all(_is_row_by_row(node) for node in nodes(analysed(frame)) if node.isStreaming())


def _is_row_by_row(node: Any) -> bool:
    kind = str(node.nodeName())
    if kind == "Join":  # of a stream with a table
        return not (node.left().isStreaming() and node.right().isStreaming())
    return kind in _ROW_BY_ROW
