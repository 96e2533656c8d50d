"""A diagram means the same in YAML and in Python: it can go from one to the other and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from diagram.random_diagrams import diagrams
from hypothesis import HealthCheck, given, settings

from australis.diagram.diagram_file import dump, load
from australis.diagram.model import Diagram
from australis.diagram.python import to_python
from australis.runtime.load import load as load_file

NO_DIAGRAMS = {"cluster", "elasticity", "federation", "peers", "placement"}
EXAMPLES = sorted(
    path
    for path in (Path(__file__).parents[2] / "examples").rglob("*.yaml")
    if path.stem not in NO_DIAGRAMS and path.parent.name != "scenarios"
)
MANY = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def from_python(source: str) -> Diagram:
    names: dict[str, Any] = {}
    exec(compile(source, "made.py", "exec"), names)
    made = names["diagram"]
    assert isinstance(made, Diagram)
    return made


@MANY
@given(diagrams())
def test_yaml_gives_an_equal_diagram(diagram: Diagram) -> None:
    assert load(dump(diagram), "made.yaml") == diagram


@MANY
@given(diagrams())
def test_python_gives_an_equal_diagram(diagram: Diagram) -> None:
    assert from_python(to_python(diagram)) == diagram


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_go_both_ways(path: Path, tmp_path: Path) -> None:
    diagram = load_file(path)
    assert load(dump(diagram), "made.yaml") == diagram
    (tmp_path / "made.py").write_text(to_python(diagram), encoding="utf-8")
    assert load_file(tmp_path / "made.py") == diagram


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 10


def test_operators_may_stand_in_any_order_in_yaml() -> None:
    text = """
diagram: backwards
sources:
  s: {push: true, schema: a int}
operators:
  last: {filter: middle, where: a > 2}
  middle: {union: [first, s]}
  first: {filter: s, where: a > 1}
"""
    diagram = load(text, "backwards.yaml")
    assert [o.name for o in diagram.operators] == ["first", "middle", "last"]
    assert from_python(to_python(diagram)) == diagram
    assert load(dump(diagram), "again.yaml") == diagram


def test_split_by_predicates_is_a_filter_in_every_form() -> None:
    text = """
diagram: d
sources:
  s: {push: true, schema: a int}
operators:
  parts: {split: s, where: {low: a < 3, high: a > 7}, rest: middle}
"""
    diagram = load(text, "d.yaml")
    assert diagram.results == ("parts.low", "parts.high", "parts.middle")
    assert from_python(to_python(diagram)) == diagram
    assert load(dump(diagram), "again.yaml") == diagram


def test_the_python_form_reads_like_handwriting() -> None:
    text = """
diagram: hello
bucket: 1 s
sources:
  readings: {push: true, schema: 'room string, celsius double'}
operators:
  hot: {filter: readings, where: celsius > 30}
  both-ways: {split: hot, by: [room], into: 2}
sinks:
  alerts: {from: both-ways.1, jsonl: out.jsonl}
"""
    assert to_python(load(text, "hello.yaml")) == (
        "import australis as au\n"
        "\n"
        "d = au.diagram('hello', bucket='1 s')\n"
        "\n"
        "readings = d.source('readings', push=True, schema='room string, celsius double')\n"
        "\n"
        "hot = d.filter('hot', readings, where='celsius > 30')\n"
        "both_ways = d.split('both-ways', hot, by=['room'], into=2)\n"
        "\n"
        "d.sink('alerts', both_ways['1'], jsonl='out.jsonl')\n"
        "\n"
        "diagram = d.done()\n"
    )
