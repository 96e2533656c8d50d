"""Every operator under random data, against DuckDB on the same rows."""

from __future__ import annotations

import os

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.runs import results
from spark.harness import ask_duckdb, same_rows
from spark.operator_cases import EVERY, A, joins, stateless_operators, table_a, time_windows

import australis as au

many = settings(
    max_examples=int(os.environ.get("AUSTRALIS_EXAMPLES", "15")),
    deadline=None,
    derandomize=True,
    database=None,
)
seeds = st.integers(0, 2**32 - 1)
sizes = st.sampled_from([0, 1, 2, 37, 400, 1500])


@many
@given(seed=seeds, n=sizes)
def test_stateless_operators(seed: int, n: int) -> None:
    stateless_operators(results, seed, n)


@many
@given(seed=seeds, n=sizes)
def test_time_windows(seed: int, n: int) -> None:
    time_windows(results, seed, n)


@many
@given(seed=seeds, n=sizes, size=st.sampled_from([700, 1000, 2500]), slide=st.just(700))
def test_windows_that_are_no_multiple_of_their_slide(
    seed: int, n: int, size: int, slide: int
) -> None:
    a = table_a(seed, n)
    d = au.diagram("windows")
    source = d.source("a", push=True, schema=A, time="t")
    d.aggregate(
        "w", source, window=f"{size} ms", slide=f"{slide} ms", by=["k"], compute={"n": "count(*)"}
    )
    theirs = ask_duckdb(
        f"""
        with starts as (select *, unnest(range(epoch_us(t) // {slide}000 - {size // slide + 1},
                                               epoch_us(t) // {slide}000 + 1)) * {slide}000 as s
                        from a)
        select make_timestamptz(s + {size}000 - 1) as _stime, k, count(*) as n
        from starts where epoch_us(t) < s + {size}000 group by s, k""",
        {"a": a},
    )
    same_rows(results(d.done(), {"a": a})["w"], theirs)


@many
@given(seed=seeds, n=st.sampled_from([1, 37, 300]))
def test_joins(seed: int, n: int) -> None:
    joins(results, seed, n)


def test_no_rows_give_no_buckets() -> None:
    empty: pa.Table = table_a(0, 0)
    d = au.diagram("nothing")
    source = d.source("a", push=True, schema=A, time="t")
    d.output(d.aggregate("n", source, window="2 s", compute={"n": "count(*)"}))
    assert results(d.done(), {"a": empty})["n"].num_rows == 0


@many
@given(seed=seeds, n=sizes)
def test_first_last_and_sums_that_overflow(seed: int, n: int) -> None:
    a = table_a(seed, n)
    d = au.diagram("edges")
    source = d.source("a", push=True, schema=A, time="t")
    calls = {"f": "first(v)", "l": "last(v)", "total": "sum(big)", "mean": "avg(d)"}
    d.aggregate("edges", source, window="4 s", compute=calls)
    theirs = ask_duckdb(
        """
        with numbered as (select *, row_number() over () as i,
                          (epoch_us(t) // 4000000) * 4000000 as start_us from a)
        select make_timestamptz(start_us + 3999999) as _stime,
               arg_min_null(v, i) as f, arg_max_null(v, i) as l,
               try_cast(sum(big::hugeint) as bigint) as total, avg(d) as mean
        from numbered group by start_us""",
        {"a": a},
    )
    ours = results(d.done(), {"a": a})["edges"]
    assert ours.schema.field("mean").type == pa.decimal128(14, 6)
    mean = ours.schema.get_field_index("mean")
    same_rows(ours.set_column(mean, "mean", ours["mean"].cast(pa.float64())), theirs)


@many
@given(seed=seeds, n=sizes, step=st.sampled_from([1, 2, 3, 5]))
def test_count_windows(seed: int, n: int, step: int) -> None:
    a = table_a(seed, n)
    calls = {
        "n": "count(*)", "nv": "count(v)", "sv": "sum(v)", "ax": "avg(x)", "lo": "min(big)",
        "f": "first(v)", "l": "last(v)", "dv": "count(distinct v)", "dev": "stddev(x)",
        "sd": "sum(d)", "ad": "avg(d)", "med": "median(v)", "bits": "bit_xor(v)",
        "every": "bool_and(b)", "begins": "window_start()", "until": "window_end()",
    }  # fmt: skip
    d = au.diagram("counted")
    source = d.source("a", push=True, schema=A, time="t")
    window, slide = "5 tuples", f"{step} tuples"
    d.aggregate("counted", source, window=window, slide=slide, by=["k"], compute=calls)
    theirs = ask_duckdb(
        f"""
        with numbered as (select *, row_number() over () as i from a),
        placed as (select *, row_number() over (partition by k order by i) - 1 as place,
                   count(*) over (partition by k) as total from numbered),
        member as (select *, unnest(range(greatest(0, (place - 4 + {step - 1}) // {step}),
                                          place // {step} + 1)) as w from placed)
        select max(t) as _stime, k, count(*) as n, count(v) as nv, sum(v)::bigint as sv,
               avg(x) as ax, min(big) as lo, arg_min_null(v, i) as f, arg_max_null(v, i) as l,
               count(distinct v) as dv, stddev(x) as dev, sum(d)::decimal(20,2) as sd,
               avg(d)::double as ad, quantile_cont(v, 0.5) as med, bit_xor(v) as bits,
               bool_and(b) as every, min(t) as begins, max(t) as until
        from member where w * {step} + 5 <= total and place < w * {step} + 5 and w >= 0
        group by k, w""",
        {"a": a},
    )
    same_rows(results(d.done(), {"a": a})["counted"], theirs)


@many
@given(seed=seeds, n=sizes)
def test_split_deals_out_every_tuple_by_its_values(seed: int, n: int) -> None:
    a = table_a(seed, n)
    d = au.diagram("split")
    source = d.source("a", push=True, schema=A, time="t")
    parts = d.split("parts", source, by=["k"], into=3)
    d.output(*(parts[i] for i in range(3)))
    got = results(d.done(), {"a": a})
    dealt = [got[f"parts.{i}"] for i in range(3)]
    same_rows(pa.concat_tables(dealt), ask_duckdb(f"select {EVERY} from a", {"a": a}))
    keys = [set(part["k"].to_pylist()) for part in dealt]
    assert sum(map(len, keys)) == len(set.union(*keys))


def test_a_stream_merged_with_itself_and_a_union_of_raw_and_windowed_tuples() -> None:
    a = table_a(5, 300)
    d = au.diagram("mixed")
    source = d.source("a", push=True, schema=A, time="t")
    short = d.map("short", source, {"k": "k", "n": "cast(v as bigint)"})
    twice = d.union("twice", short, short)
    per_key = d.aggregate("per_key", twice, window="2 s", by=["k"], compute={"n": "sum(n)"})
    pairs = d.aggregate("pairs", twice, window="2 tuples", by=["k"], compute={"n": "sum(n)"})
    mixed = d.union("mixed", short, per_key)
    d.output(mixed, pairs)
    got = results(d.done(), {"a": a})
    windowed = """select make_timestamptz((epoch_us(t) // 2000000 + 1) * 2000000 - 1) as _stime, k,
                  2 * sum(v)::bigint as n from a group by all"""
    raw = "select t as _stime, k, v::bigint as n from a"
    same_rows(got["mixed"], ask_duckdb(f"{raw} union all {windowed}", {"a": a}))
    same_rows(
        got["pairs"], ask_duckdb("select t as _stime, k, 2 * v::bigint as n from a", {"a": a})
    )
