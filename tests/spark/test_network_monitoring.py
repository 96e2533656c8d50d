"""The network-monitoring query against DuckDB, whole and cut into fragments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession
from spark.harness import LIMIT_S, same_rows, segment_bytes

import australis as au
from australis.diagram.model import Source
from australis.runtime.run import Running
from examples.demo_single import BATCH_QUERY, DIAGRAM, _connections


def shorter(source: Source) -> Source:
    options = dict(source.options) | {"duration": "70 s", "rate": 60, "speed": "max", "scans": 3}
    return replace(source, options=options)


@pytest.mark.timeout(600)
def test_it_finds_what_a_batch_query_finds(spark: SparkSession, tmp_path: Path) -> None:
    whole = au.load(DIAGRAM)
    whole = replace(
        whole,
        sources=tuple(shorter(source) for source in whole.sources),
        sinks=(),
        outputs=("suspects",),
    )
    connections = _connections(whole)
    session = duckdb.connect()
    session.execute("set timezone = 'UTC'")
    session.register("connections", connections)
    wanted = session.sql(BATCH_QUERY).to_arrow_table()
    assert wanted.num_rows > 5
    for name, cut in (("none", "none"), ("fan-out", "fan-out")):
        diagram = replace(whole, cut=cut)
        with Running(diagram, tmp_path / name, spark=spark, base=DIAGRAM.parent) as running:
            running.start()
            assert running.wait(LIMIT_S)
            same_rows(running.table("suspects"), wanted)
            assert len(running.lanes) == (1 if cut == "none" else 2)
    # Cutting a diagram does not change a byte of its results.
    assert segment_bytes(tmp_path / "none", "suspects") == segment_bytes(
        tmp_path / "fan-out", "suspects"
    )
