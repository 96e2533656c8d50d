"""A lane: one Structured Streaming query that computes one logged stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from australis.diagram.fragments import Plan
from australis.kernel.errors import Stopped
from australis.spark.compile import compile_plan
from australis.spark.output import register_output
from australis.spark.session import our_settings, tasks, use_here
from australis.spark.source import register_source
from australis.spark.types import to_spark
from australis.streams.sunion import MergedSchema

_DATA_ROWS = "_type <> 2 OR spark_partition_id() < 0"
"""Drops boundary rows behind the watermark. Only a condition that is not deterministic
stops Spark from pushing the user's own predicates below it, where they would drop
the boundary rows before the watermark has seen them."""

BUSY = "Python worker failed to connect back"
"""What Spark says when a Python process of its own has taken ten seconds to start: the machine is
busy, nothing is wrong."""
TRIES = 3
"""So often a lane is started again for that."""


@dataclass(frozen=True)
class LaneAddress:
    """Which lane it is, and how Spark's processes reach its DataPath."""

    lane: str
    port: str
    address: str

    def options(self) -> dict[str, str]:
        """What the lane's source and output are told."""
        return {"lane": self.lane, "port": self.port, "address": self.address}


class LaneInputs:
    """The merged source of a lane, taken apart into the streams it merges."""

    def __init__(
        self, spark: SparkSession, streams: Sequence[str], schema: MergedSchema, at: LaneAddress
    ) -> None:
        self._streams = tuple(streams)
        self._schema = schema
        reader = spark.readStream.format(register_source(spark, at.lane)).schema(
            to_spark(schema.arrow)
        )
        self._frame = (
            reader.options(**at.options(), tasks=str(tasks(spark)))
            .load()
            .withWatermark("_stime", "0 seconds")
            .where(_DATA_ROWS)
        )

    def frame(self, streams: Sequence[str]) -> DataFrame:
        """These streams merged into one frame of `_id`, `_stime` and attributes."""
        by_port: dict[str | None, list[int]] = {}
        for stream in streams:
            number = self._streams.index(stream)
            by_port.setdefault(self._schema.port_of(number), []).append(number)
        first, *others = [self._of_port(port, numbers) for port, numbers in by_port.items()]
        for other in others:
            first = first.unionByName(other)
        return first

    def _of_port(self, port: str | None, numbers: list[int]) -> DataFrame:
        chosen = self._frame
        if len(numbers) < len(self._streams):
            chosen = chosen.where(F.col("_input").isin(numbers))
        prefix = "" if port is None else f"{port}."
        names = self._schema.inputs[numbers[0]].names
        attributes = [F.col(f"{prefix}`{name}`").alias(name) for name in names]
        ids = F.col("_id") if self._schema.ids else F.lit(0).cast("bigint").alias("_id")
        return chosen.select(ids, "_stime", *attributes)


class Lane:
    """A running query."""

    def __init__(
        self,
        spark: SparkSession,
        plan: Plan,
        schema: MergedSchema,
        at: LaneAddress,
        checkpoint: Path,
        base: Path,
    ) -> None:
        self.plan = plan
        self._spark = spark
        self._checked = -1
        inputs = LaneInputs(spark, plan.inputs, schema, at)
        frame = compile_plan(plan, inputs, base)
        self._writer = (
            frame.writeStream.format(register_output(spark, at.lane))
            .options(**at.options())
            .option("checkpointLocation", str(checkpoint))
            .queryName(at.lane)
            .outputMode("append")
        )
        self._tries_left = TRIES
        self.query: StreamingQuery = self._writer.start()

    def check(self) -> bool:
        """Raise `Stopped` if the query has failed or dropped a row as late.

        One that only had to wait too long for a process of Spark's is started again: True.
        """
        failure = self.query.exception()
        if failure is not None and BUSY in str(failure) and self._tries_left:
            self._tries_left -= 1
            use_here(self._spark)
            with our_settings(self._spark):
                self.query = self._writer.start()  # it goes on from its checkpoint
            return True
        if failure is not None:
            raise Stopped(f"the lane of '{self.plan.output}' failed: {_reason(str(failure))}")
        last = self.query.lastProgress
        if last is None or last["batchId"] == self._checked:
            return False
        for progress in self.query.recentProgress:
            if progress["batchId"] > self._checked:
                self._refuse_dropped(progress)
        self._checked = last["batchId"]
        return False

    def _refuse_dropped(self, progress: Any) -> None:
        dropped = sum(s["numRowsDroppedByWatermark"] for s in progress["stateOperators"])
        if dropped:
            raise Stopped(
                f"the lane of '{self.plan.output}' dropped {dropped} rows as late"
                f" in batch {progress['batchId']}, which must not happen"
            )

    def stop(self) -> None:
        """End the query; it goes on from its checkpoint when started again."""
        self.query.stop()


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (telling[-1] if telling else lines[0] if lines else text)[:500]
