"""Diagrams in Python: what the builder makes, and where it says a mistake stands."""

from __future__ import annotations

import datetime
import inspect
from pathlib import Path
from typing import Any

import pytest

import australis as au
from australis.diagram.build import DiagramBuilder, Stream
from australis.diagram.diagram_file import dump
from australis.diagram.model import Filter, Spark
from australis.diagram.python import to_python
from australis.kernel.errors import UserError
from australis.runtime.load import load

SCHEMA = "room string, celsius double"


def builder(**settings: Any) -> tuple[DiagramBuilder, Stream]:
    d = DiagramBuilder("d", **settings)
    return d, d.source("readings", push=True, schema=SCHEMA)


def double(frame: Any) -> Any:
    return frame


def test_every_operator() -> None:
    d, readings = builder(bucket="1 s", fragments="fan-out")
    hot = d.filter("hot", readings, "celsius > 30")
    parts = d.filter("parts", readings, {"low": "celsius < 3", "high": "celsius > 7"}, "middle")
    rooms = d.map("rooms", hot, ["room"])
    more = d.map("more", hot, {"room": "upper(room)"})
    both = d.union("both", rooms, more)
    ordered = d.bsort("ordered", both)
    n = d.aggregate("n", ordered, window="1 min", by="room", compute={"n": "count(*)"})
    pairs = d.join("pairs", n, n, within="0 s", on="left.room = right.room", select={"a": "1"})
    dealt = d.split("dealt", pairs, by=["a"], into=3)
    own = d.spark("own", dealt[2], function=double)
    d.output(own, parts["low"], own)
    d.sink("alerts", parts["middle"], jsonl="out.jsonl")
    diagram = d.done()
    assert [o.kind for o in diagram.operators] == [
        *("filter", "filter", "map", "map", "union", "bsort", "aggregate", "join", "split"),
        "spark",
    ]
    assert diagram.results == ("own", "parts.low", "parts.middle")
    assert diagram.bucket_us == 1_000_000
    assert diagram.cut == "fan-out"
    spark = diagram.operators[-1]
    assert isinstance(spark, Spark)
    assert spark.call is double
    assert spark.function.endswith("test_build:double")
    assert diagram.operators[1] == Filter(
        name="parts",
        inputs=("readings",),
        where=(("low", "celsius < 3"), ("high", "celsius > 7")),
        rest="middle",
    )


def test_what_a_function_needs() -> None:
    d, readings = builder()
    hot = d.filter("hot", readings, "celsius > 30")
    for name, needs in (("all", None), ("any", "any"), ("one", hot), ("list", [hot, readings])):
        d.spark(name, hot, readings, function="a:b", needs=needs)
    blocking = {o.name: o.blocking_inputs for o in d.done().operators if isinstance(o, Spark)}
    both = ("hot", "readings")
    assert blocking == {"all": both, "any": (), "one": ("hot",), "list": both}


def test_only_branches_can_be_chosen() -> None:
    d, readings = builder()
    parts = d.split("parts", readings, by=["room"], into=2)
    assert parts[1].name == "parts.1"
    with pytest.raises(UserError, match=r"'parts' has no branch '2' \(known: 0, 1\)"):
        parts[2]
    with pytest.raises(UserError, match=r"'readings' has no branch 'x' \(known: none\)"):
        readings["x"]


def test_a_mistake_is_told_with_the_line_that_made_it() -> None:
    d, readings = builder()
    with pytest.raises(UserError) as caught:
        d.filter("not a name", readings, "celsius > 30")
    assert caught.value.place is not None
    assert caught.value.place.file == __file__
    assert caught.value.place.line == inspect.currentframe().f_lineno - 3  # type: ignore[union-attr]


def test_a_mistake_of_the_whole_is_told_with_the_line_of_the_part() -> None:
    d, readings = builder()
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    d.filter("random", readings, "rand() > 0.5")
    with pytest.raises(UserError, match="uses rand") as caught:
        d.done()
    assert str(caught.value.place) == f"{__file__}:{line}"


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"bucket": "soon"}, "'bucket' is not a duration: 'soon'"),
        ({"bucket": "1 ms"}, "'bucket' is not a bucket size: 1 ms"),
        ({"fragments": "some"}, "'fragments' should be 'none', 'fan-out'"),
        ({"fragments": {"a": "x"}}, "'a' should be a list of operators, not 'x'"),
        ({"fragments": {"a": ["y"]}}, "'a' names an unknown operator 'y'"),
    ],
)
def test_mistakes_of_the_diagram(settings: dict[str, Any], sentence: str) -> None:
    def build() -> None:
        d, readings = builder(**settings)
        d.bsort("x", readings)
        d.done()

    with pytest.raises(UserError) as caught:
        build()
    assert sentence in str(caught.value)
    assert caught.value.place is not None
    assert caught.value.place.file == __file__


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"where": "a"}, {"where": "b"}),
        ({"where": {"x": "a"}}, {"where": {"y": "b"}}),
        ({"where": {"x": "a"}}, {"where": "b"}),
    ],
)
def test_a_name_cannot_be_used_twice(first: dict[str, Any], second: dict[str, Any]) -> None:
    d, readings = builder()
    d.filter("x", readings, **first)
    d.filter("X", readings, **second)
    with pytest.raises(UserError, match="'X' has a name that is taken: an operator has it"):
        d.done()


def test_options_are_what_yaml_can_hold() -> None:
    d = au.diagram("d")
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    a = d.source("a", csv=(Path("a.csv"), "b.csv"), schema="at timestamp", time="at")
    b = d.source("b", generate="connections", start=start)
    d.sink("out", a, jsonl=Path("out.jsonl"))
    d.bsort("x", b)
    diagram = d.done()
    assert diagram.sources[0].options == {"path": ["a.csv", "b.csv"]}
    assert diagram.sources[1].options["start"] == "2026-01-01T00:00:00+00:00"
    assert diagram.sinks[0].options == {"path": "out.jsonl"}


def test_a_function_cannot_be_written_down() -> None:
    d, readings = builder()
    d.sink("alerts", d.bsort("x", readings), callback=print)
    diagram = d.done()
    for write in (dump, to_python):
        with pytest.raises(UserError, match="'alerts' calls a Python function"):
            write(diagram)


# --- from a file -------------------------------------------------------------

HEAD = """\
import australis as au
d = au.diagram("d")
s = d.source("s", push=True, schema="a int")
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "my.py"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("end", ["diagram = d.done()\n", "diagram = d\n", ""])
def test_a_file_gives_its_diagram(tmp_path: Path, end: str) -> None:
    path = written(tmp_path, f"{HEAD}d.filter('x', s, 'a > 1')\n{end}")
    diagram = load(path)
    assert diagram.results == ("x",)
    assert str(diagram.place) == str(path)


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("d.filter('x', s, 'rand() > 1')\n\ndiagram = d.done()", 4, "'x' uses rand"),
        ("d.filter('x', s, 'rand() > 1')\n\ndiagram = d", 4, "'x' uses rand"),
        ("\nd.filter('x y', s, 'a > 1')", 5, "'x y' is not a name"),
        ("s['b']\n", 4, "'s' has no branch 'b' (known: none)"),
        ("def f():\n    return 1 / 0\nf()", 5, "ZeroDivisionError: division by zero"),
        ("raise ValueError('two\\nlines')", 4, "ValueError: two lines"),
        ("import sys\nsys.exit(3)", 5, "SystemExit: 3"),
        ("x = (\n", 4, "SyntaxError: '(' was never closed"),
        ("import nothing_like_it", 4, "ModuleNotFoundError: No module named 'nothing_like_it'"),
        ("d = s = None", None, "defines no 'diagram'"),
        ("e = au.diagram('e')", None, "defines no 'diagram'"),
    ],
)
def test_mistakes_in_a_file(tmp_path: Path, text: str, line: int | None, sentence: str) -> None:
    path = written(tmp_path, HEAD + text)
    with pytest.raises(UserError) as caught:
        load(path)
    place = str(path) if line is None else f"{path}:{line}"
    assert str(caught.value).startswith(f"{place}: {sentence}")
    assert "\n" not in str(caught.value)


def test_a_function_of_the_file_goes_by_the_name_of_the_file(tmp_path: Path) -> None:
    path = written(
        tmp_path, HEAD + "def double(frame): return frame\nd.spark('x', s, function=double)\n"
    )
    diagram = load(path)
    spark = diagram.operators[0]
    assert isinstance(spark, Spark)
    assert spark.function == "my.py:double"
    assert spark.call is not None
    other = tmp_path / "other.yaml"
    other.write_text(dump(diagram), encoding="utf-8")
    assert load(other) == diagram


def test_files_that_hold_no_diagram(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("diagram: d")
    (tmp_path / "b.yaml").write_bytes(b"diagram: \xff\xfe")
    for name, sentence in (
        ("missing.yaml", "there is no such file"),
        ("", "is a directory, not a diagram"),
        ("a.txt", "a diagram is a .yaml file or a .py file"),
        ("b.yaml", r":1: cannot be read: it is not UTF-8"),
    ):
        with pytest.raises(UserError, match=sentence) as caught:
            load(tmp_path / name)
        assert str(caught.value).startswith(f"{tmp_path / name}:")
