"""Every kind of function gives one log: in a run and on a node's lanes, however it is batched."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from reference.runs import Batches, between
from spark.harness import LIMIT_S, START_US, same_rows

import australis as au
from australis.diagram.fragments import cut
from australis.diagram.model import Diagram
from australis.kernel.machine import Event
from australis.protocols.dpc.effects import RunStable, StableDone
from australis.protocols.dpc.messages import Bucket
from australis.protocols.dpc.spans import Span
from australis.runtime.node.lanes import LaneSettings
from australis.runtime.node.spark_lanes import SparkLanes
from australis.runtime.run import Running
from australis.streams.schema import Schema

pytestmark = pytest.mark.timeout(900)

SCHEMA = "t timestamp, k string, v int"
SECONDS = 8
ROWS = 240
AT_A_TIME = 4


def rows() -> pa.Table:
    """Tuples of which some are equal; times on the edges of buckets and windows among them."""
    rng = np.random.default_rng(5)
    times = START_US + np.sort(rng.integers(1, SECONDS * 10, ROWS)) * 100_000
    return pa.table(
        {
            "t": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "k": rng.choice(["a", "b", "c"], ROWS),
            "v": pa.array(rng.integers(0, 4, ROWS), pa.int32()),
        }
    )


# --- without state ---------------------------------------------------------------------------


def filtered(frame: DataFrame) -> DataFrame:
    return frame.where("v > 1")


def mapped_in_pandas(frame: DataFrame) -> DataFrame:
    def doubled(chunks: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for chunk in chunks:
            chunk["v"] *= 2
            yield chunk

    return frame.select("_stime", "v").mapInPandas(doubled, "_stime timestamp, v int")


def joined_to_a_table(frame: DataFrame) -> DataFrame:
    """The table is an aggregate, but not of the stream."""
    labels = frame.sparkSession.createDataFrame([("a", 1), ("a", 2), ("b", 5)], "k string, n int")
    totals = labels.groupBy("k").agg(F.sum("n").alias("n"))
    return frame.join(F.broadcast(totals), "k", "left").drop("t")


# --- with state that puts rows out at once -----------------------------------------------------


def without_duplicates(frame: DataFrame) -> DataFrame:
    return frame.dropDuplicates()


def joined_to_itself(frame: DataFrame) -> DataFrame:
    left, right = frame.alias("left"), frame.alias("right")
    near = "left._stime between right._stime - interval 1 second and right._stime"
    return left.join(right, F.expr(f"left.k = right.k and left.v = right.v + 1 and {near}")).select(
        F.greatest("left._stime", "right._stime").alias("_stime"), "left.k", "right.v"
    )


def with_its_like(frame: DataFrame) -> DataFrame:
    other = frame.select(F.col("_stime").alias("s"), F.col("k").alias("j"), F.col("v").alias("w"))
    same = F.expr("_stime = s and k = j and v = w + 1")
    return frame.join(other, same, "leftsemi").drop("t")


# --- with state that puts rows out when the watermark has passed ----------------------------------


def per_window(frame: DataFrame) -> DataFrame:
    counts = frame.groupBy(F.window("_stime", "2 seconds"), "k").agg(F.count("*").alias("n"))
    return counts.select(F.window_time("window").alias("_stime"), "k", "n")


def with_its_own_watermark(frame: DataFrame) -> DataFrame:
    return per_window(frame.withWatermark("_stime", "5 seconds"))


def per_window_twice(frame: DataFrame) -> DataFrame:
    counts = frame.groupBy(F.window("_stime", "1 second"), "k").agg(F.count("*").alias("n"))
    again = counts.groupBy(F.window(F.window_time("window"), "2 seconds"))
    return again.agg(F.max("n").alias("n")).select(F.window_time("window").alias("_stime"), "n")


def raw_and_counted(frame: DataFrame) -> DataFrame:
    raw = frame.select("_stime", "k", F.lit(1).cast("bigint").alias("n"))
    return raw.unionByName(per_window(frame))


def in_sessions(frame: DataFrame) -> DataFrame:
    counts = frame.groupBy(F.session_window("_stime", "300 milliseconds"), "k", "v")
    ends = F.expr("session_window.end - interval 1 microsecond")
    return counts.agg(F.count("*").alias("n")).select(ends.alias("_stime"), "k", "v", "n")


def distinct_in_sql(frame: DataFrame) -> DataFrame:
    frame.createOrReplaceTempView("of_function_kinds")
    return frame.sparkSession.sql("select distinct _stime, k, v from of_function_kinds")


def with_or_without_its_like(frame: DataFrame) -> DataFrame:
    other = frame.select(F.col("_stime").alias("s"), F.col("k").alias("j"), F.col("v").alias("w"))
    return frame.join(other, F.expr("_stime = s and k = j and v = w + 1"), "leftouter").select(
        "_stime", "k", "v", "w"
    )


AT_ONCE: list[Callable[[DataFrame], DataFrame]] = [
    filtered,
    mapped_in_pandas,
    joined_to_a_table,
    without_duplicates,
    joined_to_itself,
    with_its_like,
]
ON_WATERMARK: list[Callable[[DataFrame], DataFrame]] = [
    per_window,
    with_its_own_watermark,
    per_window_twice,
    raw_and_counted,
    in_sessions,
    distinct_in_sql,
    with_or_without_its_like,
]
KINDS = {function.__name__: function for function in AT_ONCE + ON_WATERMARK}


def diagram_of(names: Sequence[str]) -> Diagram:
    d = au.diagram("kinds")
    source = d.source("a", push=True, schema=SCHEMA, time="t")
    for name in names:
        d.spark(name, source, function=KINDS[name])
    return d.done()


@dataclass
class Logged:
    """What a run has written."""

    logs: dict[str, Batches]
    schemas: dict[str, Schema]
    emits: dict[str, bool]


def run(
    spark: SparkSession, names: Sequence[str], state: Path, pieces: int, **options: int
) -> Logged:
    """Run these kinds on the rows, which come in so many pieces."""
    diagram, table = diagram_of(names), rows()
    size = -(-ROWS // pieces)
    with Running(diagram, state, spark=spark, **options) as running:  # type: ignore[arg-type]
        running.start()
        for at in range(0, ROWS, size):
            running.push("a", table.slice(at, size))
        running.end("a")
        assert running.wait(LIMIT_S), "the run did not finish"
        last = diagram.buckets.last
        logs = {name: list(log.read(-1, last)) for name, log in running.logs.items()}
        emits = {name: lane.emits_on_watermark for name, lane in running.lanes.items()}
        return Logged(logs, dict(running.schemas), emits)


@pytest.fixture(scope="module")
def at_once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Logged:
    """Some at a time: each is a query of its own."""
    logged = Logged({}, {}, {})
    for i, names in enumerate(batched(KINDS, AT_A_TIME)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            some = run(spark, names, tmp_path_factory.mktemp(f"at_once{i}"), 1)
        logged.logs |= some.logs
        logged.schemas |= some.schemas
        logged.emits |= some.emits
    return logged


def batched(names: Iterable[str], size: int) -> Iterator[list[str]]:
    left = iter(names)
    while some := list(itertools.islice(left, size)):
        yield some


def test_what_waits_for_the_watermark_is_known(at_once: Logged) -> None:
    assert [name for name, emits in at_once.emits.items() if not emits] == [
        function.__name__ for function in AT_ONCE
    ]


@pytest.mark.parametrize("name", KINDS)
def test_it_gives_what_it_gives_of_a_table(spark: SparkSession, at_once: Logged, name: str) -> None:
    table = rows()
    whole = spark.createDataFrame(table.append_column("_stime", table["t"]).to_pandas())
    wanted = KINDS[name](whole.withColumn("v", F.col("v").cast("int"))).drop("t").toArrow()
    got = pa.Table.from_batches([batch for _, batch in at_once.logs[name]])
    assert got.num_rows > 3
    same_rows(got.drop_columns([c for c in got.column_names if c == "t"]), wanted)


@pytest.mark.parametrize("name", KINDS)
def test_a_lane_of_a_node_writes_what_a_run_writes(
    spark: SparkSession, at_once: Logged, tmp_path: Path, name: str
) -> None:
    """One bucket, then many, then some at a time: whatever a machine may ask for."""
    diagram = diagram_of(list(KINDS))
    ((plan,),) = [fragment.plans for fragment in cut(diagram) if fragment.name == name]
    source, wanted = dict(at_once.logs["a"]), at_once.logs[name]
    base = min(source) - 1
    told: list[Event] = []
    errors: list[BaseException] = []
    lanes = SparkLanes(
        {name: plan},
        at_once.schemas,
        diagram.buckets,
        tmp_path,
        lambda: spark,
        Path(),
        errors.append,
        no_log,
        LaneSettings(warm=False),
    )
    try:
        lanes.restore(name, base)
        lanes.start(told.append)
        after = base
        for count in (1, 12, 1, 6, 2):
            upto = after + count
            listed = tuple(Bucket(n, 0, source.get(n)) for n in range(after + 1, upto + 1))
            work = ((Span(after, upto, listed),),)
            lanes.run_stable(RunStable(name, after, upto, after, work))
            _until(lambda: any(is_done(e, upto) for e in told), errors)  # noqa: B023
            assert list(lanes.log(name).read(base, upto)) == [
                (n, batch) for n, batch in wanted if n <= upto
            ]
            after = upto
        assert between(wanted, base, after) != []
    finally:
        lanes.close()


def no_log(machine: str, stream: str) -> Any:
    raise AssertionError(f"no log of {stream} at {machine}")


def is_done(event: Event, upto: int) -> bool:
    """Whether an event says that the stable lane has processed everything up to a bucket."""
    return isinstance(event, StableDone) and (event.upto, event.end) == (upto, upto)


def _until(done: Callable[[], bool], errors: list[BaseException]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert not errors, errors
        assert time.monotonic() < deadline, "the lane does not go on"
        time.sleep(0.01)


def test_runs_that_batch_otherwise_write_the_same(
    spark: SparkSession, at_once: Logged, tmp_path: Path
) -> None:
    names = [f.__name__ for f in (filtered, joined_to_itself, raw_and_counted)]
    bit_by_bit = run(spark, names, tmp_path, 6, rows_per_batch=25)
    for name in names:
        assert bit_by_bit.logs[name] == at_once.logs[name] != [], name
