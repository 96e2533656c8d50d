"""The reference engine writes the logs that Spark writes: same schemas, buckets and bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from reference.runs import Batches, ipc
from reference.runs import run_diagram as run_reference
from reference.test_expressions import EXPRESSIONS, SCHEMA
from reference.test_state import chained
from spark.harness import LIMIT_S, random_times, with_nulls
from spark.operator_cases import A, B, table_a, table_b
from spark.test_equal_logs import everything

import australis as au
from australis.diagram.model import Diagram
from australis.runtime.run import Running
from australis.streams.schema import Schema, parse_schema

SECONDS = 8


def spark_logs(
    spark: SparkSession, diagram: Diagram, data: Mapping[str, pa.Table], state: Path
) -> tuple[dict[str, Batches], dict[str, Schema]]:
    """What Spark wrote to the log of each result, and the schema of every stream."""
    with Running(diagram, state, spark=spark) as running:
        running.start()
        for source, table in data.items():
            running.push(source, table)
            running.end(source)
        assert running.wait(LIMIT_S), "the run did not finish"
        last = diagram.buckets.last
        logs = {s: list(running.logs[s].read(-1, last)) for s in diagram.results}
        return logs, dict(running.schemas)


def compare(
    spark: SparkSession, diagram: Diagram, data: Mapping[str, pa.Table], state: Path
) -> None:
    """Both engines write the same to each result's log."""
    theirs, their_schemas = spark_logs(spark, diagram, data, state)
    ours, our_schemas = run_reference(diagram, data)
    for stream in diagram.results:
        assert str(our_schemas[stream]) == str(their_schemas[stream]), stream
        assert [b for b, _ in ours[stream]] == [b for b, _ in theirs[stream]], stream
        assert ours[stream], f"{stream} is empty, which shows nothing"
        for (bucket, a), (_, b) in zip(ours[stream], theirs[stream], strict=True):
            assert a.schema == b.schema, stream
            assert a.to_pylist() == b.to_pylist() or repr(a.to_pylist()) == repr(b.to_pylist()), (
                f"{stream}, bucket {bucket}"
            )
            assert ipc(a) == ipc(b), f"{stream}, bucket {bucket}: equal values, unequal bytes"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("make", [everything, chained])
def test_every_operator(spark: SparkSession, tmp_path: Path, make: Callable[[], Diagram]) -> None:
    data = {"a": table_a(17, 500, SECONDS), "b": table_b(17, 250, SECONDS)}
    compare(spark, make(), data, tmp_path / "state")


SPECIAL = np.array([0.0, -0.0, 1.5, -2.25, np.nan, np.inf, -np.inf, 1e13, 1e300, 0.1234565])
with np.errstate(over="ignore"):
    SPECIAL_FLOATS = SPECIAL.astype(np.float32)


def table_of_all_types(seed: int, n: int) -> pa.Table:
    """The columns of `reference.test_expressions`, with values at the edges of their types."""
    rng = np.random.default_rng(seed)
    words = np.array(["Ash", "", "ünï", " 12 ", "1.5e3", "true", "a/b/c", "7"], dtype=object)

    def column(name: str, values: np.ndarray) -> pa.Array:  # type: ignore[type-arg]
        return with_nulls(rng, values, kinds.field(name).type)

    kinds = parse_schema(SCHEMA).attributes

    def decimals(name: str) -> pa.Array:
        scale = kinds.field(name).type.scale
        values = rng.integers(-(10**9), 10**9, n).tolist()
        return pa.array([Decimal(v).scaleb(-scale) for v in values], kinds.field(name).type)

    columns = {
        "a": column("a", rng.choice([0, 1, 7, -8, 2**31 - 1, -(2**31)], n)),
        "b": column("b", rng.choice([0, -9, 4, 2**63 - 1, -(2**63), 2**53 + 1], n)),
        "s": column("s", rng.choice([300, -1, 0, 2**15 - 1], n)),
        "x": column("x", rng.choice(SPECIAL, n)),
        "f": column("f", rng.choice(SPECIAL_FLOATS, n)),
        "k": column("k", rng.choice(words, n)),
        "d": decimals("d"),
        "e": decimals("e"),
        "t": random_times(rng, n, 4),
        "o": column("o", rng.random(n) < 0.5),
        "day": pa.array(rng.integers(-400, 30000, n).astype(np.int32)).cast(pa.date32()),
        "p": pa.array(
            [
                None if i % 7 == 0 else {"q": int(i % 5), "r": None if i % 3 == 0 else "z"}
                for i in range(n)
            ],
            kinds.field("p").type,
        ),
        "nul": column("nul", rng.integers(0, 3, n)),
    }  # fmt: skip
    return pa.table([columns[field.name] for field in kinds], schema=kinds)


@pytest.mark.timeout(600)
def test_expressions(spark: SparkSession, tmp_path: Path) -> None:
    d = au.diagram("expressions")
    source = d.source("all", push=True, schema=SCHEMA, time="t")
    texts = [text for text in EXPRESSIONS if text != "_id"]
    third = -(-len(texts) // 3)
    outputs = []
    for i in range(3):
        part = texts[i * third : (i + 1) * third]
        outputs.append(d.map(f"m{i}", source, {f"e{j}": text for j, text in enumerate(part)}))
    outputs.append(
        d.filter("f", source, {"one": "x > f", "two": "d >= e or b < a"}, rest="no")["no"]
    )
    d.output(*outputs)
    compare(spark, d.done(), {"all": table_of_all_types(5, 120)}, tmp_path / "state")


@pytest.mark.timeout(600)
def test_split_by_every_type(spark: SparkSession, tmp_path: Path) -> None:
    d = au.diagram("splits")
    source = d.source("all", push=True, schema=SCHEMA, time="t")
    numbers = d.split("numbers", source, by=["a", "b", "s", "x", "f"], into=2)
    others = d.split("others", source, by=["k", "d", "e", "t", "o", "day", "p"], into=2)
    binary = d.split("binary", source, by=["cast(k as binary)", "cast(e as decimal(30,5))"], into=2)
    d.output(*(split[i] for split in (numbers, others, binary) for i in range(2)))
    compare(spark, d.done(), {"all": table_of_all_types(6, 200)}, tmp_path / "state")


@pytest.mark.timeout(600)
def test_aggregates_at_the_edges_of_their_types(spark: SparkSession, tmp_path: Path) -> None:
    d = au.diagram("edges")
    source = d.source("all", push=True, schema=SCHEMA, time="t")
    doubles = {
        "n": "count(x)", "dx": "count(distinct x)", "df": "count(distinct f, a)", "sx": "sum(x)",
        "ax": "avg(x)", "sf": "sum(f)", "dev": "stddev(x)", "lo": "min(x)", "hi": "max(x)",
        "ff": "first(x)", "lf": "last(f)", "fp": "first(p)",
    }  # fmt: skip
    numbers = {
        "sb": "sum(b)", "ab": "avg(b)", "db": "stddev(b)", "va": "variance(a)", "sd": "sum(d)",
        "ad": "avg(d)", "ae": "avg(e)", "de": "var_pop(e)", "md": "median(d)",
        "pe": "percentile(e, 0.3)", "hk": "max(k)", "lday": "min(day)", "ht": "max(t)",
        "ba": "bit_and(b)", "bo": "bit_or(s)", "eo": "bool_and(o)",
    }  # fmt: skip
    d.output(
        d.aggregate("doubles", source, window="500 ms", by=["o"], compute=doubles),
        d.aggregate("numbers", source, window="700 ms", slide="300 ms", compute=numbers),
        d.aggregate("by_double", source, window="1 s", by=["x"], compute={"n": "count(*)"}),
        d.aggregate("by_struct", source, window="1 s", by=["p", "f"], compute={"n": "count(*)"}),
        d.aggregate("coarse", source, window="1 s", scale=2, compute={"a": "avg(x + 0.005D)"}),
    )
    data = {"all": table_of_all_types(7, 200)}
    compare(spark, d.done(), data, tmp_path / "state")


@pytest.mark.timeout(600)
def test_count_windows_and_joins(spark: SparkSession, tmp_path: Path) -> None:
    d = au.diagram("counts")
    a = d.source("a", push=True, schema=A, time="t")
    b = d.source("b", push=True, schema=B, time="t")
    both = d.union(
        "both", d.map("ka", a, {"k": "k", "v": "v"}), d.map("kb", b, {"v": "w", "k": "k"})
    )
    counted = d.aggregate(
        "counted", both, window="4 tuples", slide="3 tuples", by=["k"],
        compute={
            "n": "count(v)", "f": "first(coalesce(v, -1))", "l": "last(coalesce(v, -1))",
            "s": "sum(coalesce(v, 0))", "m": "avg(coalesce(v, 0) / 7)",
            "sd": "stddev_pop(coalesce(v, 0))", "until": "window_end()",
        },
    )  # fmt: skip
    near = d.join(
        "near", a, b, within="300 ms", on="left.v = right.w + 1 and left.k <= right.k",
        select={"k": "left.k", "w": "right.w", "gap": "unix_micros(left.t) - unix_micros(right.t)"},
    )  # fmt: skip
    d.output(counted, near)
    data = {"a": table_a(23, 500, SECONDS), "b": table_b(23, 300, SECONDS)}
    compare(spark, d.done(), data, tmp_path / "state")
