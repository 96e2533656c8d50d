"""A lane: one Structured Streaming query that computes one logged stream."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from australis.diagram.fragments import Plan
from australis.diagram.model import Spark
from australis.kernel.errors import OperatorFailed, Stopped
from australis.spark.compile import compile_plan
from australis.spark.logical_plans import emits_on_watermark
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
"""Spark's error when one of its Python processes has taken ten seconds to start: the machine is
busy, nothing is wrong."""
STARTING = "Initializing sources"
"""The status of a query while Spark starts the Python process of its source."""
MAX_STARTING_S = 15.0
"""The longest time that one start keeps others waiting; Spark gives up after ten seconds."""
_ONE_AT_A_TIME = threading.Lock()
"""Held while the process of a source is started: several at once on a busy machine would all be too
slow, and so would be those that replace them."""
_OF_FUNCTIONS = re.compile(
    r"java\.lang\.(Arithmetic|NumberFormat|IllegalArgument)Exception|java\.lang\.StackOverflowError"
    r"|java\.time\.DateTimeException"
    r"|org\.apache\.spark\.Spark(Runtime|Arithmetic|DateTime|NumberFormat|IllegalArgument)Exception"
)
"""What Spark's own functions raise for the values of a tuple."""
_OUR_CODE = re.compile(r"australis/(spark|runtime|streams)/\w+\.py")
MAX_CAUSES = 20
TRIES = 10
"""The number of times a lane is restarted after `BUSY`; another Spark would take far longer to
start."""


@dataclass(frozen=True)
class LaneAddress:
    """The name of a lane, and the address at which Spark's processes reach its node."""

    lane: str
    port: str
    address: str

    def options(self) -> dict[str, str]:
        """The options of the lane's source and output."""
        return {"lane": self.lane, "port": self.port, "address": self.address}


class MergedInputs:
    """A frame of merged inputs, split into the streams that it merges."""

    def __init__(self, frame: DataFrame, streams: Sequence[str], schema: MergedSchema) -> None:
        self._frame = frame
        self._streams = tuple(streams)
        self._schema = schema

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


class LaneInputs(MergedInputs):
    """The merged source of a lane."""

    def __init__(
        self, spark: SparkSession, streams: Sequence[str], schema: MergedSchema, at: LaneAddress
    ) -> None:
        reader = spark.readStream.format(register_source(spark, at.lane)).schema(
            to_spark(schema.arrow)
        )
        frame = (
            reader.options(**at.options(), tasks=str(tasks(spark)))
            .load()
            .withWatermark("_stime", "0 seconds")
            .where(_DATA_ROWS)
        )
        super().__init__(frame, streams, schema)


class Lane:
    """A query, compiled on construction and running from `start` on."""

    query: StreamingQuery

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
        self.emits_on_watermark = plan.may_emit_on_watermark and emits_on_watermark(frame)
        """Whether its output is complete only up to the watermark at a micro-batch's start."""
        self._writer = (
            frame.writeStream.format(register_output(spark, at.lane))
            .options(**at.options())
            .option("checkpointLocation", str(checkpoint))
            .queryName(at.lane)
            .outputMode("append")
        )
        self._tries_left = TRIES

    def start(self) -> None:
        """Start to process micro-batches; returns when its source is there, or cannot be."""
        with _ONE_AT_A_TIME:
            self.query = self._writer.start()
            deadline = time.monotonic() + MAX_STARTING_S
            while self._starting and time.monotonic() < deadline:
                time.sleep(0.02)

    @property
    def _starting(self) -> bool:
        return self.query.isActive and self.query.status["message"] == STARTING

    @property
    def _too_busy(self) -> bool:
        """Whether the query has failed only because a Spark process was slow to start."""
        return BUSY in str(self.query.exception() or "")

    @property
    def _failure(self) -> str | None:
        """What Spark says of the end of the query, with the kinds of the errors behind it."""
        failure = self.query.exception()
        if failure is None:
            return None
        kinds: list[str] = []
        error = self.query._jsq.exception().get()  # type: ignore[attr-defined]
        while error is not None and len(kinds) < MAX_CAUSES:
            kinds.append(error.getClass().getName())
            error = error.getCause()
        return "\n".join([str(failure), *kinds])

    def check(self, after: int) -> bool:
        """Raise `Stopped` if the query has failed behind this bucket, or dropped a row as late.

        A query that failed only because a Spark process was slow to start is restarted: True.
        """
        if self._tries_left and self._too_busy:
            self._tries_left -= 1
            self.restart()
            return True
        failure = self._failure
        if failure is not None and fails_on_tuples(failure):
            own = [o.name for o in self.plan.operators if isinstance(o, Spark)]
            names = own or [o.name for o in self.plan.operators]
            where = f"behind bucket {after}"
            raise OperatorFailed(names, self.plan.output, where, reason(failure))
        if failure is not None:
            raise Stopped(f"the lane of '{self.plan.output}' failed: {reason(failure)}")
        last = self.query.lastProgress
        if last is None or last["batchId"] == self._checked:
            return False
        for progress in self.query.recentProgress:
            if progress["batchId"] > self._checked:
                self._refuse_dropped(progress)
        self._checked = last["batchId"]
        return False

    def restart(self) -> None:
        """Start a query that has failed again; it continues from its checkpoint."""
        use_here(self._spark)
        with our_settings(self._spark):
            self.start()

    def _refuse_dropped(self, progress: Any) -> None:
        dropped = sum(s["numRowsDroppedByWatermark"] for s in progress["stateOperators"])
        if dropped:
            raise Stopped(
                f"the lane of '{self.plan.output}' dropped {dropped} rows as late"
                f" in batch {progress['batchId']}, which must not happen"
            )

    def stop(self) -> None:
        """End the query; it continues from its checkpoint when started again."""
        self.query.stop()


def fails_on_tuples(failure: str) -> bool:
    """Whether a query's failure comes from computing with tuples: code of the user, or a function.

    Failures in our own source and output, of the machine and of its disks are not among them.
    """
    if "PythonException" in failure or "[PYTHON_EXCEPTION]" in failure:
        return _OUR_CODE.search(failure) is None
    return _OF_FUNCTIONS.search(failure) is not None


def reason(text: str) -> str:
    """The line of an error of Spark's that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "Error: " in line or "Exception: " in line]
    return (telling[-1] if telling else lines[0] if lines else text)[:500]
