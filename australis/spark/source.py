"""SUnion inside Spark: a streaming data source whose offset is a bucket number."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from australis.spark.port import LanePort, connect, private_name

if TYPE_CHECKING:
    import pyarrow as pa  # Spark's planning processes need none of its 25 MB

BEFORE_ALL = -1
ROWS_WORTH_A_TASK = 20_000
"""The number of rows below which one task reads faster than several."""


@dataclass
class LanePartition(InputPartition):
    """One task's share of the buckets (after, upto]."""

    after: int
    upto: int
    part: int
    parts: int


class LaneReader(DataSourceStreamReader):
    """Reads released buckets of one lane from the node that runs it."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = dict(options)
        self._lane = options["lane"]
        self._tasks = int(options["tasks"])
        self._reader = uuid.uuid4().hex

    @property
    def _port(self) -> LanePort:
        return connect(self._options["port"], self._options["address"])

    def initialOffset(self) -> dict[str, int]:
        return {"bucket": BEFORE_ALL}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"bucket": self._port.latest(self._lane, start["bucket"], self._reader)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        after, upto = start["bucket"], end["bucket"]
        if after == upto:
            return []
        rows = self._port.rows(self._lane, after, upto)
        parts = min(self._tasks, 1 + rows // ROWS_WORTH_A_TASK)
        return [LanePartition(after, upto, part, parts) for part in range(parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LanePartition)
        p = partition
        return self._port.read(self._lane, p.after, p.upto, p.part, p.parts)

    def commit(self, end: dict[str, int]) -> None:
        """Do nothing: Spark's own checkpoint records what is durable."""


class LaneSource(DataSource):
    """The data source of every lane; options give the lane and its address."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return LaneReader(dict(self.options))


def register_source(spark: SparkSession, lane: str) -> str:
    """Register a lane's source with Spark; returns the name of its format.

    Each lane registers its own: lanes that share one also share a map of environment
    variables inside Spark, which one of them may change while another's tasks are
    being serialised.
    """
    format_name = private_name("source", lane)

    class OneLaneSource(LaneSource):
        @classmethod
        def name(cls) -> str:
            return format_name

    spark.dataSource.register(OneLaneSource)
    return format_name
