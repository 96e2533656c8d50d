"""Diagrams of every operator over random rows, with what DuckDB says of the same rows.

Both engines run them: `Run` gives the streams of a diagram by name.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from spark.harness import ask_duckdb, random_times, same_rows, with_nulls

import australis as au
from australis.diagram.model import Diagram

Run = Callable[[Diagram, dict[str, pa.Table]], dict[str, pa.Table]]

A = "t timestamp, k string, v int, big bigint, x double, d decimal(10,2), b boolean"
B = "t timestamp, k string, w int"
EVERY = "t as _stime, t, k, v, big, x, d, b"


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


def stateless_operators(run: Run, seed: int, n: int) -> None:
    """Filter, Map, Union, BSort and Split."""
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
    data = {"a": a, "b": b}
    got = run(d.done(), data)
    same_rows(got["triage.neg"], ask_duckdb(f"select {EVERY} from a where v < 0", data))
    same_rows(
        got["triage.small"],
        ask_duckdb(f"select {EVERY} from a where v < 10 and not v < 0", data),
    )
    same_rows(
        got["triage.other"], ask_duckdb(f"select {EVERY} from a where v is null or v >= 10", data)
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
    same_rows(together, ask_duckdb(f"select {EVERY} from a", data))
    assert not set(got["parts.0"]["k"].to_pylist()) & set(got["parts.1"]["k"].to_pylist())


def time_windows(run: Run, seed: int, n: int) -> None:
    """Tumbling and sliding windows with every aggregate function."""
    a = table_a(seed, n)
    d = au.diagram("windows")
    source = d.source("a", push=True, schema=A, time="t")
    d.aggregate("tumbling", source, window="2 s", by=["k"], compute=AGGREGATES)
    d.aggregate("sliding", source, window="3 s", slide="1 s", compute=AGGREGATES)
    got = run(d.done(), {"a": a})
    same_rows(got["tumbling"], ask_duckdb(aggregate_sql(2_000_000, 2_000_000, "k"), {"a": a}))
    same_rows(got["sliding"], ask_duckdb(aggregate_sql(3_000_000, 1_000_000, ""), {"a": a}))


def joins(run: Run, seed: int, n: int) -> None:
    """A range join, a join of windows, and an aggregate behind it."""
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
    data = {"a": a, "b": b}
    got = run(d.done(), data)
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
