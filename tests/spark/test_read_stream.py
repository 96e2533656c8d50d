"""Streams of a cluster in Spark jobs: every stable tuple once, also from a checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from runtime.node.small_cluster import SmallCluster, write_cluster

import australis as au

pytestmark = pytest.mark.timeout(600)
LIMIT_S = 240
CLIENTS = "  spark: {stream: counts}\n"
COLUMNS = ("_id", "_stime", "k", "n", "total")
Rows = list[dict[str, Any]]


@pytest.fixture
def c(tmp_path: Path, spark: SparkSession) -> Iterator[SmallCluster]:
    """A cluster, which also keeps its log for the client that Spark reads as."""
    au.register(spark)
    with SmallCluster(tmp_path, clients=CLIENTS, max_delay="20 s") as cluster:
        yield cluster


class Sink:
    """Remembers each micro-batch it was handed, and fails when it is told to."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.batches: dict[int, Rows] = {}
        self._fails_at = fails_at

    def __call__(self, frame: DataFrame, batch: int) -> None:
        rows = sorted((row.asDict() for row in frame.collect()), key=lambda row: row["_id"])
        self.batches[batch] = rows
        if batch == self._fails_at:
            raise RuntimeError("the sink is down")

    @property
    def rows(self) -> Rows:
        return [row for _, rows in sorted(self.batches.items()) for row in rows]


def read(spark: SparkSession, path: Path, **options: Any) -> DataFrame:
    reader = spark.readStream.format("australis").option("cluster", str(path))
    return reader.option("stream", "counts").options(**options).load()


def start(frame: DataFrame, sink: Sink, checkpoint: Path, **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    return (writer.trigger(**trigger) if trigger else writer).start()


def until(what: Callable[[], bool], query: StreamingQuery) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not what():
        failed = query.exception()
        assert failed is None, str(failed)
        assert time.monotonic() < deadline, query.lastProgress
        time.sleep(0.05)


def stable(c: SmallCluster) -> Rows:
    """What the cluster's own client has, as Spark tells it."""
    rows = [{name: row[name] for name in COLUMNS} for row in c.stable()]
    for row in rows:
        row["_stime"] = row["_stime"].replace(tzinfo=None)
    return rows


def test_exactly_once_from_a_checkpoint(spark: SparkSession, c: SmallCluster) -> None:
    checkpoint = c.base / "checkpoint"
    frame = read(spark, c.path, client="spark")
    assert frame.columns == list(COLUMNS)

    first = Sink()
    query = start(frame, first, checkpoint)
    until(lambda: len(first.rows) > 10, query)
    trimmed_upto = c.nodes["a"].output("counts").trimmed_upto
    until(lambda: c.nodes["a"].output("counts").trimmed_upto > trimmed_upto, query)
    query.stop()

    again = max(first.batches) + 1
    failing = Sink(fails_at=again + 1)
    query = start(frame, failing, checkpoint)
    with pytest.raises(StreamingQueryException, match="the sink is down"):
        query.awaitTermination(LIMIT_S)
    assert again + 1 in failing.batches

    last = Sink()
    query = start(frame, last, checkpoint)
    until(lambda: again + 1 in last.batches, query)
    assert last.batches[again + 1] == failing.batches[again + 1], "the same tuples once more"
    c.settle()
    batches = first.batches | failing.batches
    until(lambda: len(rows_of(batches | last.batches)) >= len(c.stable()), query)
    query.stop()
    assert rows_of(batches | last.batches) == stable(c)


def rows_of(batches: dict[int, Rows]) -> Rows:
    return [row for _, rows in sorted(batches.items()) for row in rows]


def test_all_that_is_there_now_in_small_batches(spark: SparkSession, c: SmallCluster) -> None:
    """A job that runs now and then; the first batch is repeated too, from where it began."""
    checkpoint = c.base / "checkpoint"
    frame = read(spark, c.path, client="spark", maxBytesPerTrigger="100")
    c.until(lambda: len(c.stable()) > 6)
    failing = Sink(fails_at=0)
    with pytest.raises(StreamingQueryException, match="the sink is down"):
        start(frame, failing, checkpoint, availableNow=True).awaitTermination(LIMIT_S)
    c.settle()
    sink = Sink()
    query = start(frame, sink, checkpoint, availableNow=True)
    assert query.awaitTermination(LIMIT_S)
    assert sink.batches[0] == failing.batches[0] != []
    assert len(sink.batches) > 1, "no more at once than there is room for"
    assert sink.rows == stable(c)


def test_a_guest_reads_what_is_new(spark: SparkSession, c: SmallCluster) -> None:
    c.until(lambda: len(c.stable()) > 3)
    before = stable(c)[-1]["_id"]
    sink = Sink()
    query = start(read(spark, c.path), sink, c.base / "checkpoint")
    until(lambda: len(sink.rows) > 3, query)
    c.settle()
    until(lambda: sink.rows[-1] == stable(c)[-1], query)
    query.stop()
    begin = sink.rows[0]["_id"]
    assert begin > before
    assert sink.rows == [row for row in stable(c) if row["_id"] >= begin]


def test_what_is_no_longer_kept(spark: SparkSession, tmp_path: Path) -> None:
    au.register(spark)
    with SmallCluster(tmp_path, max_delay="20 s") as c:
        base = c.nodes["a"].base_bucket
        c.until(lambda: c.nodes["a"].output("counts").trimmed_upto > base + 5)
        frame = read(spark, c.path, startingBucket=str(base + 1))
        query = start(frame, Sink(), tmp_path / "checkpoint")
        with pytest.raises(StreamingQueryException, match="'counts' is no longer in the logs from"):
            query.awaitTermination(LIMIT_S)


def test_without_a_stream(spark: SparkSession, c: SmallCluster) -> None:
    """All that the logs hold, which a client that has not come keeps from the beginning."""
    c.until(lambda: len(c.stable()) > 6)
    known = stable(c)
    reader = spark.read.format("australis").option("cluster", str(c.path))
    frame = reader.option("stream", "counts").load()
    rows = [row.asDict() for row in frame.orderBy("_id").collect()]
    assert rows[: len(known)] == known
    c.until(lambda: len(c.stable()) >= len(rows))
    assert rows == stable(c)[: len(rows)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"stream": "count"}, "'count' has no log (did you mean 'counts'?)"),
        ({"startingBucket": "now"}, "'startingBucket' should be 'earliest', 'latest' or a bucket"),
        ({"startinBucket": "5"}, "(did you mean 'startingBucket'?)"),
        ({"maxBytesPerTrigger": "many"}, "'maxBytesPerTrigger' should be a number of bytes"),
        ({"cluster": "nowhere.yaml"}, "nowhere.yaml: there is no such file"),
    ],
)
def test_mistakes(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    au.register(spark)
    with pytest.raises(AnalysisException) as raised:
        read(spark, write_cluster(tmp_path), **options)
    assert sentence in str(raised.value)
