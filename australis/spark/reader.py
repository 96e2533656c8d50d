"""A stream of a live cluster as a Spark format, for any job.

    au.register(spark)
    alerts = (
        spark.readStream.format("australis")
        .option("cluster", "cluster.yaml").option("stream", "alerts")
        .option("client", "reports")
        .load()
    )

It gives only stable tuples, each exactly once: an offset is the last bucket of a micro-batch,
and a bucket's tuples are the same whenever and wherever they are read. The factory of the feed
is given by name, like the ports of lanes (`spark.port`); `runtime.spark_feed` implements it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "australis"
BEFORE_ALL = -1
"""The offset before the first micro-batch, whose start the options give."""


class Feed(Protocol):
    """The requests of a reader to a stream."""

    def schema(self) -> str:
        """The columns, as Spark SQL writes them."""
        ...

    def end(self) -> int:
        """The last bucket that the logs hold now."""
        ...

    def latest(self, after: int | None, target: int | None = None) -> tuple[int, int] | None:
        """The buckets of the next micro-batch (None: the first one), up to a target."""
        ...

    def read(self, after: int, upto: int) -> list[bytes]:
        """The tuples of the buckets (after, upto], as Arrow streams."""
        ...

    def everything(self) -> list[bytes]:
        """The tuples of all buckets that the logs hold now."""
        ...

    def commit(self, upto: int) -> None:
        """Release the buckets up to this one, which will not be requested again."""
        ...

    def close(self) -> None:
        """Close the feed."""
        ...


@dataclass
class Tuples(InputPartition):
    """One task's share, as an Arrow stream."""

    data: bytes


def read_tuples(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """The tuples of one task."""
    import pyarrow as pa

    assert isinstance(partition, Tuples)
    return iter(pa.ipc.open_stream(partition.data) if partition.data else ())


class StableReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches of stable buckets.

    An offset also holds the start of the first micro-batch: if Spark repeats that one, it asks
    for it by its end alone.
    """

    def __init__(self, factory: str, options: Mapping[str, str]) -> None:
        self._factory = factory
        self._options = dict(options)
        self._opened: Feed | None = None
        self._target: int | None = None

    @property
    def _feed(self) -> Feed:
        if self._opened is None:
            self._opened = open_feed(self._factory, self._options)
        return self._opened

    def initialOffset(self) -> dict[str, int]:
        return {"bucket": BEFORE_ALL}

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._feed.end()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        first = start["bucket"] == BEFORE_ALL
        found = self._feed.latest(None if first else start["bucket"], self._target)
        if found is None:
            return start
        after, upto = found
        return {"bucket": upto, "began": after if first else start["began"]}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        if start["bucket"] == end["bucket"]:
            return []
        after = end["began"] if start["bucket"] == BEFORE_ALL else start["bucket"]
        return [Tuples(data) for data in self._feed.read(after, end["bucket"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_tuples(partition)

    def commit(self, end: dict[str, int]) -> None:
        if self._opened is not None:
            self._opened.commit(end["bucket"])

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()


class TableReader(DataSourceReader):
    """The tuples that the logs of a stream hold when the query is planned."""

    def __init__(self, factory: str, options: Mapping[str, str]) -> None:
        self._factory = factory
        self._options = dict(options)

    def partitions(self) -> Sequence[InputPartition]:
        with closing(open_feed(self._factory, self._options, table=True)) as feed:
            return [Tuples(data) for data in feed.everything()] or [Tuples(b"")]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_tuples(partition)


class ClusterSource(DataSource):
    """The format; a subclass gives its name and the factory of its feed."""

    factory: str

    def schema(self) -> str:
        with closing(open_feed(self.factory, self.options)) as feed:
            return feed.schema()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StableReader(self.factory, self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        return TableReader(self.factory, self.options)


def open_feed(factory: str, options: Mapping[str, str], **how: Any) -> Feed:
    """The feed that `module:function` makes of these options."""
    module, _, name = factory.partition(":")
    feed: Feed = getattr(importlib.import_module(module), name)(options, **how)
    return feed


def register_reader(spark: SparkSession, format_name: str, through: str) -> None:
    """Register the format with a session under this name."""

    class NamedSource(ClusterSource):
        factory = through

        @classmethod
        def name(cls) -> str:
            return format_name

    spark.dataSource.register(NamedSource)
