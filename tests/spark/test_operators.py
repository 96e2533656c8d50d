"""Every operator under random data, against DuckDB on the same rows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from spark.harness import ask_duckdb, results, same_rows
from spark.operator_cases import A, Run, joins, stateless_operators, table_a, time_windows

import australis as au

few = settings(
    max_examples=int(os.environ.get("AUSTRALIS_EXAMPLES", "3")),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
seeds = st.integers(0, 2**32 - 1)
sizes = st.sampled_from([0, 1, 37, 400, 1500])


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    return tmp_path


def directory(base: Path, *key: object) -> Path:
    path = base / "-".join(str(k) for k in key)
    path.mkdir(exist_ok=True)
    return path / str(len(list(path.iterdir())))


def on(spark: SparkSession, where: Path) -> Run:
    return lambda diagram, data: results(spark, diagram, data, where)


@few
@given(seed=seeds, n=sizes)
def test_stateless_operators(spark: SparkSession, fresh: Path, seed: int, n: int) -> None:
    stateless_operators(on(spark, directory(fresh, seed, n)), seed, n)


@few
@given(seed=seeds, n=sizes)
def test_time_windows(spark: SparkSession, fresh: Path, seed: int, n: int) -> None:
    time_windows(on(spark, directory(fresh, seed, n)), seed, n)


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
    joins(on(spark, directory(fresh, seed, n)), seed, n)
