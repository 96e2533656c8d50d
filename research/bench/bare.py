"""The same query on bare Structured Streaming, through a plain Python data source.

The baseline runs under the best conditions: the same session settings, the same number of tasks,
Arrow batches straight from files, and a sink that throws rows away.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

SCHEMA = "time timestamp, src string, port int"


@dataclass
class Files(InputPartition):
    """Some of the files of a micro-batch."""

    paths: list[str]


class FileReader(DataSourceStreamReader):
    """Reads the Arrow files of one directory, a fixed number at a time; the offset counts files."""

    def __init__(self, options: dict[str, str]) -> None:
        self._files = sorted(str(p) for p in Path(options["path"]).glob("*.arrow"))
        self._at_once = int(options["files_per_batch"])
        self._tasks = int(options["tasks"])

    def initialOffset(self) -> dict[str, int]:
        return {"files": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"files": min(len(self._files), start["files"] + self._at_once)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        files = self._files[start["files"] : end["files"]]
        return [
            Files(files[i :: self._tasks]) for i in range(self._tasks) if files[i :: self._tasks]
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Files)
        for path in partition.paths:
            with pa.OSFile(path) as file:
                reader = pa.ipc.open_file(file)
                for i in range(reader.num_record_batches):
                    yield reader.get_batch(i)


class BareFiles(DataSource):
    """Replays Arrow files."""

    @classmethod
    def name(cls) -> str:
        return "bare-files"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return FileReader(dict(self.options))


@dataclass
class Rows(InputPartition):
    """Generated rows of a paced stream."""

    first: int
    last: int


class PacedReader(DataSourceStreamReader):
    """Generates rows at a fixed rate, stamped with their due time; the offset counts rows."""

    def __init__(self, options: dict[str, str]) -> None:
        self._rate = int(options["rate"])
        self._sources = int(options["sources"])
        self._start_us = int(options["start_us"])

    def initialOffset(self) -> dict[str, int]:
        return {"rows": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        due = int((time.time() * 1e6 - self._start_us) / 1e6 * self._rate)
        return {"rows": max(start["rows"], due)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [Rows(start["rows"], end["rows"])] if end["rows"] > start["rows"] else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Rows)
        at = np.arange(partition.first, partition.last)
        stimes = self._start_us + at * 1_000_000 // self._rate
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(stimes).cast(pa.timestamp("us", tz="UTC")),
                *connection_columns(at, self._sources),
            ],
            names=["time", "src", "port"],
        )


class BarePaced(DataSource):
    """A paced stream."""

    @classmethod
    def name(cls) -> str:
        return "bare-paced"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return PacedReader(dict(self.options))


def connection_columns(at: np.ndarray, sources: int) -> list[pa.Array]:
    """Source and port of row number `at`: a cheap, fixed mixture."""
    mixed = (at.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)
    names = pa.array([f"10.0.{i >> 8}.{i & 255}" for i in range(sources)])
    return [
        names.take(pa.array((mixed % np.uint64(sources)).astype(np.int64))),
        pa.array(((mixed >> np.uint64(13)) % np.uint64(1024)).astype(np.int32)),
    ]


def windowed(frame: DataFrame, window: str) -> DataFrame:
    """The query in its usual form."""
    return (
        frame.withWatermark("time", "0 seconds")
        .groupBy(F.window("time", window), "src")
        .agg(F.count("*").alias("n"), F.approx_count_distinct("port").alias("ports"))
    )


def start(
    spark: SparkSession, source: str, options: dict[str, str], window: str, checkpoint: Path
) -> StreamingQuery:
    """Run the query on the bare engine into a sink that drops all rows."""
    for data_source in (BareFiles, BarePaced):
        spark.dataSource.register(data_source)
    frame = spark.readStream.format(source).schema(SCHEMA).options(**options).load()
    return (
        windowed(frame, window)
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .outputMode("append")
        .start()
    )
