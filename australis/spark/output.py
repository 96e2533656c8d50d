"""SOutput inside Spark: a streaming writer that stages rows and commits whole micro-batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from australis.spark.port import LanePort, connect, private_name

if TYPE_CHECKING:
    import pyarrow as pa  # Spark's planning processes need none of its 25 MB


@dataclass
class Staged(WriterCommitMessage):
    """The name under which one task staged its rows."""

    name: str | None


class OutputWriter(DataSourceStreamArrowWriter):
    """Hands the rows of a micro-batch to the node, then commits them."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = dict(options)
        self._lane = options["lane"]

    @property
    def _port(self) -> LanePort:
        return connect(self._options["port"], self._options["address"])

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Staged(self._port.stage(self._lane, iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._port.commit(self._lane, batchId, _names(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._port.abort(self._lane, batchId, _names(messages))


def _names(messages: list[WriterCommitMessage | None]) -> list[str]:
    return [m.name for m in messages if isinstance(m, Staged) and m.name is not None]


class LaneOutput(DataSource):
    """The data sink of every lane; options give the lane and its address."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return OutputWriter(dict(self.options))


def register_output(spark: SparkSession, lane: str) -> str:
    """Register a lane's output with Spark; returns the name of its format (see
    `register_source`)."""
    format_name = private_name("output", lane)

    class OneLaneOutput(LaneOutput):
        @classmethod
        def name(cls) -> str:
            return format_name

    spark.dataSource.register(OneLaneOutput)
    return format_name
