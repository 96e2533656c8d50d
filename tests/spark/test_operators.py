"""Every operator under random data, against DuckDB on the same rows."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from spark.harness import ask_duckdb, random_times, results, same_rows, with_nulls

import australis as au

A = "t timestamp, k string, v int, big bigint, x double, d decimal(10,2), b boolean"
B = "t timestamp, k string, w int"

few = settings(
    max_examples=int(os.environ.get("AUSTRALIS_EXAMPLES", "3")),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
seeds = st.integers(0, 2**32 - 1)
sizes = st.sampled_from([0, 1, 37, 400, 1500])


def table_a(seed: int, n: int, seconds: int = 20) -> pa.Table:
    rng = np.random.default_rng(seed)
    keys = np.array(["ash", "birch", "cedar", "elm", "", "ünïcode"], dtype=object)
    big = rng.integers(-(2**62), 2**62, n) * rng.integers(0, 2, n) + rng.integers(-9, 9, n)
    cents = pa.array(rng.integers(-(10**6), 10**6, n)).cast(pa.decimal128(19, 0))
    return pa.table({
        "t": random_times(rng, n, seconds),
        "k": with_nulls(rng, keys[rng.integers(0, len(keys), n)], pa.string()),
        "v": with_nulls(rng, rng.integers(-100, 100, n), pa.int32()),
        "big": with_nulls(rng, big, pa.int64()),
        "x": with_nulls(rng, np.round(rng.normal(0, 100, n), 4), pa.float64()),
        "d": pa.compute.divide(cents, pa.scalar(100, pa.decimal128(3, 0))).cast(pa.decimal128(10, 2), safe=False),
        "b": with_nulls(rng, rng.random(n) < 0.5, pa.bool_()),
    })  # fmt: skip


def table_b(seed: int, n: int, seconds: int = 20) -> pa.Table:
    rng = np.random.default_rng(seed + 1)
    keys = np.array(["ash", "birch", "oak"], dtype=object)
    return pa.table({
        "t": random_times(rng, n, seconds),
        "k": with_nulls(rng, keys[rng.integers(0, 3, n)], pa.string()),
        "w": with_nulls(rng, rng.integers(0, 50, n), pa.int32()),
    })  # fmt: skip


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    return tmp_path


def directory(base: Path, *key: object) -> Path:
    path = base / "-".join(str(k) for k in key)
    path.mkdir(exist_ok=True)
    return path / str(len(list(path.iterdir())))


@few
@given(seed=seeds, n=sizes)
def test_stateless_operators(spark: SparkSession, fresh: Path, seed: int, n: int) -> None:
    a, b = table_a(seed, n), table_b(seed, n)
    d = au.diagram("stateless")
    sa = d.source("a", push=True, schema=A, time="t")
    sb = d.source("b", push=True, schema=B, time="t")
    triage = d.filter("triage", sa, {"neg": "v < 0", "small": "v < 10"}, rest="other")
    mapped = d.map("mapped", sa, {"k": "upper(k)", "y": "v * 2 + 1", "z": "x / v"})
    short = d.map("short", sa, {"k": "k", "w": "v"})
    short_b = d.map("short_b", sb, {"w": "w", "k": "k"})
    merged = d.union("merged", short, short_b)
    ordered = d.bsort("ordered", merged)
    parts = d.split("parts", sa, by=["k"], into=2)
    d.output(triage["neg"], triage["small"], triage["other"], mapped, ordered, parts[0], parts[1])
    got = results(spark, d.done(), {"a": a, "b": b}, directory(fresh, seed, n))
    data = {"a": a, "b": b}
    every = "t as _stime, t, k, v, big, x, d, b"
    same_rows(got["triage.neg"], ask_duckdb(f"select {every} from a where v < 0", data))
    same_rows(
        got["triage.small"],
        ask_duckdb(f"select {every} from a where v < 10 and not v < 0", data),
    )
    same_rows(
        got["triage.other"], ask_duckdb(f"select {every} from a where v is null or v >= 10", data)
    )
    same_rows(
        got["mapped"],
        ask_duckdb(
            "select t as _stime, upper(k) as k, v * 2 + 1 as y, x / nullif(v, 0) as z from a", data
        ),
    )
    both = "select t as _stime, k, v as w from a union all select t as _stime, k, w from b"
    same_rows(got["ordered"], ask_duckdb(both, data))
    stimes = got["ordered"].column("_stime").to_pylist()
    assert stimes == sorted(stimes)
    together = pa.concat_tables([got["parts.0"], got["parts.1"]])
    same_rows(together, ask_duckdb(f"select {every} from a", data))
    assert not set(got["parts.0"]["k"].to_pylist()) & set(got["parts.1"]["k"].to_pylist())


AGGREGATES = {
    "n": "count(*)",
    "nv": "count(v)",
    "dk": "count(distinct v)",
    "sv": "sum(v)",
    "sx": "sum(x)",
    "sd": "sum(d)",
    "av": "avg(v)",
    "ax": "avg(x)",
    "lo": "min(v)",
    "hi": "max(x)",
    "dev": "stddev(x)",
    "devv": "stddev_pop(v)",
    "var": "variance(v)",
    "med": "median(v)",
    "p9": "percentile(v, 0.9)",
    "every": "bool_and(b)",
    "some": "bool_or(b)",
    "bits": "bit_xor(v)",
    "begins": "window_start()",
    "until": "window_end()",
}
DUCK = AGGREGATES | {
    "p9": "quantile_cont(v, 0.9)",
    "sv": "sum(v)::bigint",
    "sd": "sum(d)::decimal(20,2)",
    "var": "var_samp(v)",
    "med": "quantile_cont(v, 0.5)",
    "begins": "make_timestamptz(start_us)",
    "until": "make_timestamptz(start_us + {size})",
}


def windows_sql(size_us: int, slide_us: int) -> str:
    """DuckDB: each row once for each window it lies in."""
    return f"""
      select a.*, unnest(range(
          (epoch_us(t) // {slide_us}) * {slide_us} - {(size_us // slide_us - 1) * slide_us},
          (epoch_us(t) // {slide_us}) * {slide_us} + 1, {slide_us})) as start_us
      from a"""


def aggregate_sql(size_us: int, slide_us: int, by: str) -> str:
    calls = ", ".join(f"{e.format(size=size_us)} as {n}" for n, e in DUCK.items())
    keys = f"{by}, " if by else ""
    return (
        f"select make_timestamptz(start_us + {size_us - 1}) as _stime, {keys}{calls}"
        f" from ({windows_sql(size_us, slide_us)}) group by start_us{', ' + by if by else ''}"
    )


@few
@given(seed=seeds, n=sizes)
def test_time_windows(spark: SparkSession, fresh: Path, seed: int, n: int) -> None:
    a = table_a(seed, n)
    d = au.diagram("windows")
    source = d.source("a", push=True, schema=A, time="t")
    d.aggregate("tumbling", source, window="2 s", by=["k"], compute=AGGREGATES)
    d.aggregate("sliding", source, window="3 s", slide="1 s", compute=AGGREGATES)
    got = results(spark, d.done(), {"a": a}, directory(fresh, seed, n))
    same_rows(got["tumbling"], ask_duckdb(aggregate_sql(2_000_000, 2_000_000, "k"), {"a": a}))
    same_rows(got["sliding"], ask_duckdb(aggregate_sql(3_000_000, 1_000_000, ""), {"a": a}))


@few
@given(seed=seeds, n=sizes)
def test_first_last_and_sums_that_overflow(
    spark: SparkSession, fresh: Path, seed: int, n: int
) -> None:
    a = table_a(seed, n)
    d = au.diagram("edges")
    source = d.source("a", push=True, schema=A, time="t")
    d.aggregate(
        "edges",
        source,
        window="4 s",
        compute={
            "f": "first(v)", "l": "last(v)", "total": "sum(big)",
            "about": "approx_count_distinct(v)",
        },
    )  # fmt: skip
    got = results(spark, d.done(), {"a": a}, directory(fresh, seed, n))
    theirs = ask_duckdb(
        """
        with numbered as (select *, row_number() over () as i,
                          (epoch_us(t) // 4000000) * 4000000 as start_us from a)
        select make_timestamptz(start_us + 3999999) as _stime,
               arg_min_null(v, i) as f, arg_max_null(v, i) as l,
               try_cast(sum(big::hugeint) as bigint) as total
        from numbered group by start_us""",
        {"a": a},
    )
    ours = got["edges"].drop_columns(["about"])
    same_rows(ours, theirs)
    exact = ask_duckdb(
        "select count(distinct v) as c from a group by (epoch_us(t) // 4000000) order by min(t)",
        {"a": a},
    )
    for about, truth in zip(got["edges"]["about"].to_pylist(), exact["c"].to_pylist(), strict=True):
        assert abs(about - truth) <= max(2, 0.2 * truth)


@few
@given(seed=seeds, n=sizes, step=st.sampled_from([2, 3, 5]))
def test_count_windows(spark: SparkSession, fresh: Path, seed: int, n: int, step: int) -> None:
    a = table_a(seed, n)
    calls = {
        "n": "count(*)", "nv": "count(v)", "sv": "sum(v)", "ax": "avg(x)", "lo": "min(big)",
        "f": "first(v)", "l": "last(v)", "dv": "count(distinct v)", "dev": "stddev(x)",
    }  # fmt: skip
    d = au.diagram("counted")
    source = d.source("a", push=True, schema=A, time="t")
    window, slide = "5 tuples", f"{step} tuples"
    d.aggregate("counted", source, window=window, slide=slide, by=["k"], compute=calls)
    got = results(spark, d.done(), {"a": a}, directory(fresh, seed, n, step))
    theirs = ask_duckdb(
        f"""
        with numbered as (select *, row_number() over () as i from a),
        placed as (select *, row_number() over (partition by k order by i) - 1 as place,
                   count(*) over (partition by k) as total from numbered),
        member as (select *, unnest(range(greatest(0, (place - 4 + {step - 1}) // {step}),
                                          place // {step} + 1)) as w from placed)
        select max(t) as _stime, k, count(*) as n, count(v) as nv, sum(v)::bigint as sv,
               avg(x) as ax, min(big) as lo, arg_min_null(v, i) as f, arg_max_null(v, i) as l,
               count(distinct v) as dv, stddev(x) as dev
        from member where w * {step} + 5 <= total and place < w * {step} + 5 and w >= 0
        group by k, w""",
        {"a": a},
    )
    same_rows(got["counted"], theirs)


@few
@given(seed=seeds, n=st.sampled_from([1, 37, 300]))
def test_joins(spark: SparkSession, fresh: Path, seed: int, n: int) -> None:
    a, b = table_a(seed, n), table_b(seed, n)
    d = au.diagram("joins")
    sa = d.source("a", push=True, schema=A, time="t")
    sb = d.source("b", push=True, schema=B, time="t")
    near = d.join(
        "near", sa, sb, within="1 s", on="left.k = right.k and left.v < right.w",
        select={"k": "left.k", "v": "left.v", "w": "right.w"},
    )  # fmt: skip
    counts = d.aggregate("counts", sa, window="2 s", by=["k"], compute={"n": "count(*)"})
    tops = d.aggregate("tops", sb, window="2 s", by=["k"], compute={"top": "max(w)"})
    both = d.join(
        "both", counts, tops, within="0 s", on="left.k = right.k",
        select={"k": "left.k", "n": "left.n", "top": "right.top"},
    )  # fmt: skip
    after = d.aggregate("after", both, window="4 s", compute={"n": "sum(n)", "pairs": "count(*)"})
    d.output(near, both, after)
    got = results(spark, d.done(), {"a": a, "b": b}, directory(fresh, seed, n))
    data = {"a": a, "b": b}
    same_rows(
        got["near"],
        ask_duckdb(
            """select greatest(a.t, b.t) as _stime, a.k, a.v, b.w from a join b
               on a.k = b.k and a.v < b.w
               and abs(epoch_us(a.t) - epoch_us(b.t)) <= 1000000""",
            data,
        ),
    )
    pairs = """
        (with c as (select epoch_us(t) // 2000000 as win, k, count(*) as n from a group by all),
              m as (select epoch_us(t) // 2000000 as win, k, max(w) as top from b group by all)
         select make_timestamptz((c.win + 1) * 2000000 - 1) as _stime, c.k, n, top
         from c join m on c.win = m.win and c.k = m.k)"""
    same_rows(got["both"], ask_duckdb(f"select * from {pairs}", data))
    same_rows(
        got["after"],
        ask_duckdb(
            f"""select make_timestamptz((epoch_us(_stime) // 4000000 + 1) * 4000000 - 1) as _stime,
                sum(n)::bigint as n, count(*) as pairs from {pairs}
                group by epoch_us(_stime) // 4000000""",
            data,
        ),
    )
