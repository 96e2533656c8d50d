"""Running a diagram on given rows, and comparing what it logged with DuckDB's answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from australis.diagram.model import Diagram
from australis.runtime.run import Running
from australis.streams.schema import HEADER_NAMES

LIMIT_S = 240


def run_diagram(
    spark: SparkSession,
    diagram: Diagram,
    data: Mapping[str, pa.Table],
    state: Path,
    **options: Any,
) -> Running:
    """Push these rows, end the sources, wait for the results; the stopped run."""
    with Running(diagram, state, spark=spark, **options) as running:
        running.start()
        for source, table in data.items():
            running.push(source, table)
            running.end(source)
        assert running.wait(LIMIT_S), "the run did not finish"
        tables = {stream: running.table(stream) for stream in running.logs}
    running.tables = tables  # type: ignore[attr-defined]
    return running


def results(
    spark: SparkSession, diagram: Diagram, data: Mapping[str, pa.Table], state: Path, **options: Any
) -> dict[str, pa.Table]:
    """The logged tuples of every logged stream."""
    running = run_diagram(spark, diagram, data, state, **options)
    tables: dict[str, pa.Table] = running.tables  # type: ignore[attr-defined]
    return tables


def ask_duckdb(query: str, data: Mapping[str, pa.Table]) -> pa.Table:
    """The query's answer by an engine that shares nothing with ours."""
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    for name, table in data.items():
        connection.register(name, table)
    return connection.sql(query).to_arrow_table()


def same_rows(ours: pa.Table, theirs: pa.Table, *, tolerance: float = 1e-6) -> None:
    """Both hold the same tuples, order aside; doubles may differ by the tolerance."""
    keep = [name for name in ours.column_names if name not in HEADER_NAMES or name == "_stime"]
    if "_stime" not in theirs.column_names:
        keep.remove("_stime")
    a, b = (sorted(map(_row, t.select(keep).to_pylist()), key=repr) for t in (ours, theirs))
    exact = [Counter(repr(row[0]) for row in rows) for rows in (a, b)]
    assert exact[0] == exact[1], (
        f"only ours: {list((exact[0] - exact[1]).items())[:3]}\n"
        f"only theirs: {list((exact[1] - exact[0]).items())[:3]}"
    )
    for (key, ours_floats), (_, their_floats) in zip(a, b, strict=True):
        for x, y in zip(ours_floats, their_floats, strict=True):
            close = math.isclose(x, y, rel_tol=1e-9, abs_tol=tolerance)
            assert close or (math.isnan(x) and math.isnan(y)), f"{key}: {x} is not {y}"


def _row(row: dict[str, Any]) -> tuple[tuple[Any, ...], list[float]]:
    """What must be equal, and the doubles, which must be close."""
    exact = tuple(None if isinstance(v, float) else _value(v) for v in row.values())
    return exact, [v for v in row.values() if isinstance(v, float)]


def _value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return value.normalize()
    if isinstance(value, datetime):
        return int(value.timestamp()), value.microsecond
    if isinstance(value, dict):
        return tuple((k, _value(v)) for k, v in value.items())
    return value


def segment_bytes(state: Path, stream: str) -> dict[str, bytes]:
    """The data files of a stream's log."""
    return {p.name: p.read_bytes() for p in (state / "logs" / stream).glob("*.seg")}


START_US = 1_760_000_000_000_000


def random_times(rng: np.random.Generator, n: int, seconds: int) -> pa.Array:
    """Sorted times, many of them exactly on the edges of buckets and windows."""
    times = rng.integers(1, seconds * 1_000_000, n)
    on_edge = rng.random(n) < 0.3
    times[on_edge] = times[on_edge] // 500_000 * 500_000 + rng.integers(0, 2, on_edge.sum())
    return pa.array(np.sort(START_US + times)).cast(pa.timestamp("us", "UTC"))


def with_nulls(
    rng: np.random.Generator, values: np.ndarray[Any, Any], kind: pa.DataType, share: float = 0.1
) -> pa.Array:
    return pa.array(values, type=kind, mask=rng.random(len(values)) < share)
