"""What a user's function gives, from one undisturbed run, beside the same as a filter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from australis.diagram import diagram_file
from australis.diagram.model import Filter, Spark
from australis.runtime.testbed import computed

DIAGRAM = """
diagram: own
sources:
  site0: {generate: connections, rate: 40, speed: 1, start: "2026-01-01T00:00:00Z"}
operators:
  all: {map: site0, select: {src: src, port: port, bytes: bytes}}
  own: {spark: all, function: "australis.scenarios.functions:large"}
"""
LASTS_US = 20_000_000


def test_a_function_is_computed_by_spark_itself() -> None:
    diagram = diagram_file.load(DIAGRAM, "own.yaml")
    operators = tuple(
        Filter(name=o.name, inputs=o.inputs, where=(("", "bytes > 1000"),))
        if isinstance(o, Spark)
        else o
        for o in diagram.operators
    )
    upto = diagram.buckets.closed_by(1_767_225_600_000_000 + LASTS_US)
    found = computed(diagram, Path(), upto).table("own")
    wanted = computed(replace(diagram, operators=operators), Path(), upto).table("own")
    assert found.num_rows > 100
    assert found.to_pylist() == wanted.to_pylist()
