"""Two runs that cut the same input into different micro-batches write the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark.harness import LIMIT_S, run_diagram, segment_bytes
from spark.operator_cases import AGGREGATES, A, B, table_a, table_b

import australis as au
from australis.diagram.model import Diagram
from australis.runtime.run import Running


def everything() -> Diagram:
    """A diagram whose outputs come by every path: stateless, windowed, joined, mixed, counted."""
    d = au.diagram("everything")
    a = d.source("a", push=True, schema=A, time="t")
    b = d.source("b", push=True, schema=B, time="t")
    short = d.map("short", a, {"k": "k", "n": "cast(v as bigint)"})
    merged = d.union("merged", short, d.map("short_b", b, {"k": "k", "n": "cast(w as bigint)"}))
    per_key = d.aggregate(
        "per_key", merged, window="3 s", slide="1 s", by=["k"], compute={"n": "sum(n)"}
    )
    mixed = d.union("mixed", merged, per_key)
    full = d.aggregate("full", a, window="2 s", by=["k"], compute=AGGREGATES | {"f": "first(x)"})
    joined = d.join(
        "joined", a, b, within="1 s", on="left.k = right.k",
        select={"k": "left.k", "x": "left.x", "w": "right.w"},
    )  # fmt: skip
    counted = d.aggregate(
        "counted", a, window="4 tuples", slide="3 tuples", by=["k"], compute={"x": "sum(x)"}
    )
    d.output(mixed, full, joined, counted)
    return d.done()


STREAMS = ("mixed", "full", "joined", "counted")


@pytest.mark.timeout(600)
def test_logs_do_not_depend_on_micro_batches(spark: SparkSession, tmp_path: Path) -> None:
    data = {"a": table_a(3, 600, 8), "b": table_b(3, 300, 8)}
    run_diagram(spark, everything(), data, tmp_path / "at_once")
    with Running(everything(), tmp_path / "bit_by_bit", spark=spark, rows_per_batch=1) as running:
        running.start()
        for source, table in data.items():
            for at in range(0, table.num_rows, 97):
                running.push(source, table.slice(at, 97))
        for source in data:
            running.end(source)
        assert running.wait(LIMIT_S)
        batches = {n: lane.query.lastProgress["batchId"] for n, lane in running.lanes.items()}
    assert min(batches.values()) > 10, f"hardly any micro-batches: {batches}"
    for stream in STREAMS:
        once = segment_bytes(tmp_path / "at_once", stream)
        bits = segment_bytes(tmp_path / "bit_by_bit", stream)
        assert once, f"{stream} is empty"
        assert sum(map(len, once.values())) > 1000
        assert once == bits, f"the log of {stream} depends on the micro-batches"
