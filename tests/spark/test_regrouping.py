"""User functions under two groupings: what depends on micro-batches is found and shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from spark.test_functions import double, per_window

import australis as au
from australis.cli.twice import SHOWN, _rows, _sentence
from australis.runtime.regrouping import compare_groupings

pytestmark = pytest.mark.timeout(600)
BUCKETS = 6


def numbered(frame: DataFrame) -> DataFrame:
    """Each tuple with its place in the batch that Python is given."""

    def number(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            yield batch[["_stime", "k"]].assign(place=range(len(batch)))

    return frame.mapInPandas(number, "_stime timestamp, k string, place long")


def diagram_of(**functions: object) -> au.Diagram:
    d = au.diagram("twice", bucket="1 s")
    source = d.source("a", push=True, schema="t timestamp, k string, v int", time="t")
    filtered = d.filter("some", source, "v > 1")
    for name, function in functions.items():
        d.spark(name, filtered, function=function)
    return d.done()


def test_what_depends_on_micro_batches_is_found(spark: SparkSession, tmp_path: Path) -> None:
    diagram = diagram_of(doubled=double, counted=per_window, numbered=numbered)
    found = compare_groupings(spark, diagram, Path(), tmp_path, BUCKETS)
    assert found.generated == ("a",)
    assert found.rows > BUCKETS
    one = found.difference
    assert one is not None
    assert one.stream == "numbered", "the functions before it depend on their tuples only"
    assert [row["k"] for row in one.one_by_one] == [row["k"] for row in one.at_once]
    assert [row["place"] for row in one.one_by_one] != [row["place"] for row in one.at_once]
    said = _sentence(found)
    assert "the results depend on how micro-batches are cut" in said
    assert f"first in bucket {one.bucket} of numbered" in said
    assert _rows(one, one.at_once).count("place=") <= SHOWN
