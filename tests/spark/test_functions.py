"""The user's own PySpark code as an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout
from spark.harness import START_US, results, same_rows

import australis as au
from australis.kernel.errors import UserError
from australis.spark.analyse import analyse, stream_schemas

SCHEMA = "t timestamp, k string, v int"


def rows() -> pa.Table:
    times = [START_US + i * 250_000 for i in range(40)]
    return pa.table(
        {
            "t": pa.array(times, pa.timestamp("us", "UTC")),
            "k": [f"k{i % 3}" for i in range(40)],
            "v": pa.array(range(40), pa.int32()),
        }
    )


def diagram_with(function: Callable[..., DataFrame]) -> au.Diagram:
    d = au.diagram("mine")
    source = d.source("a", push=True, schema=SCHEMA, time="t")
    d.spark("mine", source, function=function)
    return d.done()


def double(frame: DataFrame) -> DataFrame:
    labels = frame.sparkSession.createDataFrame(
        [("k0", "zero"), ("k1", "one")], "k string, l string"
    )
    doubled = frame.withColumn("v", F.col("v") * 2).where("v % 4 = 0")
    return doubled.join(F.broadcast(labels), "k").drop("t")


def per_window(frame: DataFrame) -> DataFrame:
    """As people write it: with a watermark of its own."""
    return (
        frame.withWatermark("_stime", "5 seconds")
        .groupBy(F.window("_stime", "2 seconds"), "k")
        .agg(F.count("*").alias("n"))
        .select(F.window_time("window").alias("_stime"), "k", "n")
    )


def test_a_function_runs_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    got = results(spark, diagram_with(double), {"a": rows()}, tmp_path / "state")
    wanted = [
        {"_stime": t, "k": k, "v": 2 * v, "l": {"k0": "zero", "k1": "one"}[k]}
        for t, k, v in zip(*(rows()[c].to_pylist() for c in ("t", "k", "v")), strict=True)
        if k != "k2" and (2 * v) % 4 == 0
    ]
    same_rows(got["mine"], pa.Table.from_pylist(wanted))


def test_its_own_watermark_is_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="withWatermark.*passed over"):
        got = results(spark, diagram_with(per_window), {"a": rows()}, tmp_path / "state")
    counts = [row["n"] for row in got["mine"].to_pylist()]
    assert sum(counts) == 40
    assert len(counts) == 5 * 3


FILE = """
from pyspark.sql import functions as F

FACTOR = 3

def times(v):
    return FACTOR * v

def tripled(frame):
    return frame.select("_stime", "k", F.udf(times, "int")("v").alias("v"))
"""


def test_a_function_in_a_file_may_use_python_functions(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    d = au.diagram("mine")
    source = d.source("a", push=True, schema=SCHEMA, time="t")
    d.spark("mine", source, function="mine.py:tripled")
    got = results(spark, d.done(), {"a": rows()}, tmp_path / "state", base=tmp_path)
    assert sorted(got["mine"]["v"].to_pylist()) == [3 * v for v in range(40)]


REFUSED = [
    (lambda f: f.drop("_stime"), "has no _stime"),
    (lambda f: f.withColumn("_stime", F.lit("now")), "whose _stime is string"),
    (lambda f: f.withColumn("r", F.rand()), "not deterministic"),
    (lambda f: f.withColumn("now", F.current_timestamp()), "reads the clock"),
    (lambda f: f.orderBy("v"), "orders rows"),
    (lambda f: f.limit(3), "limits rows"),
    (lambda f: f.sample(0.5), "samples at random"),
    (lambda f: f.dropDuplicates(["k"]), "keeps an arbitrary one"),
    (lambda f: f.dropDuplicatesWithinWatermark(["k"]), "dropDuplicatesWithinWatermark"),
    (lambda f: f.withColumn("xs", F.array("v")), "a stream cannot carry"),
    (lambda f: f.select("nothing"), "refused by Spark"),
    (lambda f: 1 // 0, "ZeroDivisionError"),
    (lambda f: 7, "no DataFrame"),
]


@pytest.mark.parametrize(("function", "reason"), REFUSED, ids=[r for _, r in REFUSED])
def test_what_cannot_be_equal_at_every_replica_is_refused(
    spark: SparkSession, function: Callable[..., DataFrame], reason: str
) -> None:
    with pytest.raises(UserError, match=reason) as raised:
        stream_schemas(spark, diagram_with(function), Path())
    assert raised.value.name == "mine"
    assert raised.value.place is not None


MISTAKES = [
    ({"where": "nosuch > 1"}, "nosuch"),
    ({"where": "k + "}, "yntax"),
    ({"where": "v"}, "boolean"),
    ({"where": "frobnicate(v) > 1"}, "frobnicate"),
]


@pytest.mark.parametrize(("setting", "word"), MISTAKES)
def test_type_errors_are_found_before_anything_runs(
    spark: SparkSession, setting: dict[str, str], word: str
) -> None:
    d = au.diagram("wrong")
    source = d.source("a", push=True, schema=SCHEMA, time="t")
    d.filter("broken", source, **setting)
    with pytest.raises(UserError, match=word) as raised:
        stream_schemas(spark, d.done(), Path())
    assert raised.value.name == "broken"
    assert raised.value.place is not None
    assert raised.value.place.line is not None


def test_unlike_schemas_and_joins_without_equality(spark: SparkSession) -> None:
    d = au.diagram("wrong")
    a = d.source("a", push=True, schema=SCHEMA, time="t")
    b = d.source("b", push=True, schema="t timestamp, k string, v bigint", time="t")
    d.union("both", a, b)
    with pytest.raises(UserError, match="column 'v' is int in 'a' and bigint in 'b'"):
        stream_schemas(spark, d.done(), Path())
    d = au.diagram("wrong")
    a = d.source("a", push=True, schema=SCHEMA, time="t")
    b = d.source("b", push=True, schema=SCHEMA, time="t")
    d.join("pairs", a, b, within="1 s", on="left.v < right.v", select={"k": "left.k"})
    with pytest.raises(UserError, match="equality"):
        stream_schemas(spark, d.done(), Path())
    d = au.diagram("wrong")
    a = d.source("a", push=True, schema=SCHEMA, time="t")
    b = d.source("b", push=True, schema=SCHEMA, time="t")
    d.join("pairs", a, b, within="1 s", on="left.k = right.k")
    with pytest.raises(UserError, match="two columns 't'"):
        stream_schemas(spark, d.done(), Path())


def no_window(frame: DataFrame) -> DataFrame:
    return frame.groupBy("k").agg(F.max("_stime").alias("_stime"))


def first_of_a_group(frame: DataFrame) -> DataFrame:
    return frame.groupBy("k").applyInPandas(lambda rows: rows.head(1), frame.schema)


def first_of_two_groups(frame: DataFrame) -> DataFrame:
    groups = frame.groupBy("k")
    return groups.cogroup(groups).applyInPandas(lambda one, _: one.head(1), frame.schema)


def kept_by_the_clock(frame: DataFrame) -> DataFrame:
    def keep(_key: Any, chunks: Iterator[Any], _state: Any) -> Iterator[Any]:
        yield from chunks

    timeout = GroupStateTimeout.ProcessingTimeTimeout
    return frame.groupBy("k").applyInPandasWithState(keep, frame.schema, "n int", "append", timeout)


NO_STREAMS = [
    (no_window, "cannot run as a stream"),
    (first_of_a_group, "of which a micro-batch holds some only .use an aggregate over a window"),
    (first_of_two_groups, "of which a micro-batch holds some only"),
    (kept_by_the_clock, "timers follow the clock"),
]


@pytest.mark.parametrize(("function", "reason"), NO_STREAMS)
def test_a_stateful_function_is_checked_as_a_stream(
    spark: SparkSession, function: Callable[..., DataFrame], reason: str
) -> None:
    with pytest.raises(UserError, match=reason) as raised:
        analyse(spark, diagram_with(function), Path())
    assert raised.value.name == "mine"


def test_a_table_may_be_grouped_in_pandas(spark: SparkSession) -> None:
    """It is whole in every micro-batch."""

    def labelled(frame: DataFrame) -> DataFrame:
        labels = spark.createDataFrame([("k0", 1), ("k0", 2)], "k string, n long")
        firsts = labels.groupBy("k").applyInPandas(lambda rows: rows.head(1), labels.schema)
        return frame.join(F.broadcast(firsts), "k")

    assert "n bigint" in str(analyse(spark, diagram_with(labelled), Path())["mine"])
