"""What is wrong in a call of the Python interface is told in one sentence, with its line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import australis as au
from australis.diagram.build import DiagramBuilder, Stream
from australis.kernel.errors import UserError
from australis.runtime.load import load

Call = Callable[[Any, Any], object]


def told(call: Callable[[], object]) -> str:
    """What the mistake is; it must be told with the line of the call, which is in this file."""
    with pytest.raises(UserError) as caught:
        call()
    place = caught.value.place
    assert place is not None
    assert place.file == __file__
    lines, first = inspect.getsourcelines(call)
    assert place.line is not None
    assert first <= place.line < first + len(lines)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{place}: ")


def builder() -> tuple[DiagramBuilder, Stream]:
    d = au.diagram("d")
    return d, d.source("s", push=True, schema="a int")


def foreign() -> Stream:
    return builder()[1]


STREAMS: list[tuple[Call, str]] = [
    (lambda d, s: d.filter("x", "s", "a > 1"), "'x' reads 's', which is text, not a stream: give"),
    (lambda d, s: d.filter("x", None, "a > 1"), "'x' reads None, which is not a stream"),
    (lambda d, s: d.filter("x", d, "a > 1"), "'x' reads <australis."),
    (lambda d, s: d.filter("x", d.filter, "a > 1"), "'x' reads <bound method"),
    (lambda d, s: d.filter("x", foreign(), "a > 1"), "'x' reads 's', which is a stream of another"),
    (lambda d, s: d.map("x", 5, ["a"]), "'x' reads 5, which is not a stream"),
    (lambda d, s: d.union("x", [s, s]), "'x' reads a collection of streams: give them one by one"),
    (lambda d, s: d.union("x"), "'x' should be given at least one stream"),
    (lambda d, s: d.union("x", s, "s"), "'x' reads 's', which is text"),
    (lambda d, s: d.bsort("x", "s"), "'x' reads 's', which is text"),
    (lambda d, s: d.aggregate("x", "s", window="1 s", compute={}), "'x' reads 's', which is text"),
    (lambda d, s: d.join("x", s, "s", within="1 s", on="a"), "'x' reads 's', which is text"),
    (lambda d, s: d.split("x", "s", by="a", into=2), "'x' reads 's', which is text"),
    (lambda d, s: d.split("x", d.split("y", foreign(), by="a", into=2)[0], by="a", into=2), "'y' r"),
    (lambda d, s: d.spark("x", function="a:b"), "'x' should be given at least one stream"),
    (lambda d, s: d.spark("x", "s", function="a:b"), "'x' reads 's', which is text"),
    (lambda d, s: d.sink("x", "s", console=True), "'x' reads 's', which is text"),
    (lambda d, s: d.sink("x", foreign(), console=True), "'x' reads 's', which is a stream of anot"),
    (lambda d, s: d.output("s"), "'output' reads 's', which is text"),
    (lambda d, s: d.output(s, foreign()), "'output' reads 's', which is a stream of another"),
    (lambda d, s: s["x"], "'s' has no branch 'x' (known: none)"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "sentence"), STREAMS)
def test_streams(call: Call, sentence: str) -> None:
    _tells(call, sentence)


SETTINGS: list[tuple[Call, str]] = [
    (lambda d, s: d.filter(5, s, "a > 1"), "a name should be text, not 5"),
    (lambda d, s: d.filter(None, s, "a > 1"), "a name should be text, not None"),
    (lambda d, s: d.filter(s, "x", "a > 1"), "a name should be text, not Stream(name='s', br"),
    (lambda d, s: d.source(5, push=True, schema="a int"), "a name should be text, not 5"),
    (lambda d, s: d.sink(["x"], s, console=True), "a name should be text, not ['x']"),
    (lambda d, s: d.filter("x", s, None), "'x' needs 'where'"),
    (lambda d, s: d.filter("x", s, ["a > 1"]), "'where' that should be text, not ['a > 1']"),
    (lambda d, s: d.filter("x", s, {"hot": None}), "'where' that should be text, not None"),
    (lambda d, s: d.filter("x", s, {"hot": "a"}, rest=["x"]), "'rest' that should be text"),
    (lambda d, s: d.filter("x", s, lambda row: row), "'where' that should be text, not <function"),
    (lambda d, s: d.map("x", s, 5), "'select' that should be columns (a list, or names with ex"),
    (lambda d, s: d.map("x", s, [None]), "'select' that should be text, not None"),
    (lambda d, s: d.map("x", s, []), "'select' that is empty"),
    (lambda d, s: d.map("x", s, {"a": ["b"]}), "'select' that should be text, not ['b']"),
    (lambda d, s: _group(d, s, window=60), "'window' that is not a duration: '60'"),
    (lambda d, s: _group(d, s, window=None), "'x' needs 'window'"),
    (lambda d, s: _group(d, s, window=["1 s"]), "'window' that is not a duration"),
    (lambda d, s: _group(d, s, slide=5), "'slide' that is not a duration: '5'"),
    (lambda d, s: _group(d, s, by=5), "'by' that should be columns"),
    (lambda d, s: _group(d, s, by=[5, None]), "'by' that should be text, not None"),
    (lambda d, s: _group(d, s, compute="count(*)"), "'compute' that should be columns"),
    (lambda d, s: _group(d, s, compute=5), "'compute' that should be columns"),
    (lambda d, s: _group(d, s, compute={"n": 5}), "'compute' that is not one aggregate call: '5'"),
    (lambda d, s: _group(d, s, compute={"n": len}), "'compute' that should be text, not <built-in"),
    (lambda d, s: _group(d, s, compute={}), "'compute' that is empty"),
    (lambda d, s: _group(d, s, scale="3"), "'scale' that should be a whole number, not '3'"),
    (lambda d, s: d.join("x", s, s, within=1, on="a"), "'within' that is not a duration: '1'"),
    (lambda d, s: d.join("x", s, s, within="1 s", on=None), "'x' needs 'on'"),
    (lambda d, s: d.join("x", s, s, within="1 s", on=["a"]), "'on' that should be text"),
    (lambda d, s: d.split("x", s, by=None, into=2), "'x' needs 'by'"),
    (lambda d, s: d.split("x", s, by="a", into="two"), "'into' that should be a whole number"),
    (lambda d, s: d.spark("x", s, function=5), "'function' that should be 'module:name' or"),
    (lambda d, s: d.spark("x", s, function="a:b", needs=5), "'x' reads 5, which is not a stream"),
    (lambda d, s: d.spark("x", s, function="a:b", needs="many"), "'x' needs 'many', which it does"),
    (lambda d, s: d.spark("x", s, function=functools.partial(print)), "defined by 'def', not"),
    (lambda d, s: d.source("x", push=True, schema=5), "'schema' that uses an unknown type"),
    (lambda d, s: d.source("x", push=True), "'x' needs 'schema'"),
    (lambda d, s: d.source("x", cvs="a.csv"), "did you mean 'csv'?"),
    (lambda d, s: d.source("x"), "'x' does not say which kind of source it is"),
    (lambda d, s: d.sink("x", s, parqet="out"), "did you mean 'parquet'?"),
    (lambda d, s: d.sink("x", s), "'x' does not say which kind of sink it is"),
    (lambda d, s: d.fliter("x", s, "a > 1"), "'fliter' is not a method of a diagram (did you mean 'filter'?)"),
    (lambda d, s: d.flter("x", s, "a > 1"), "'flter' is not a method of a diagram (did you mean 'fi"),
    (lambda d, s: d.filter("x", s, 5), "'where' that should be text, not 5"),
    (lambda d, s: d.filter("x", s, {"hot": 5}), "'where' that should be text, not 5"),
    (lambda d, s: d.filter("x", s, {}), "'where' that is empty"),
    (lambda d, s: d.join("x", s, s, within="1 s", on=5), "'on' that should be text, not 5"),
    (lambda d, s: d.aggregate("x", s), "'x' needs 'window', 'compute'"),
    (lambda d, s: d.aggregate("x"), "'x' needs 'stream', 'window', 'compute'"),
    (lambda d, s: d.map(stream=s, select="a"), "'map' needs 'name'"),
    (lambda d, s: d.filter("x", s), "'x' needs 'where'"),
    (lambda d, s: d.filter("x", s, wehre="a > 1"), "unknown setting 'wehre' (known: name, stream, where"),
    (lambda d, s: d.bsort("x", s, s), "'x' should be given as bsort(name, stream)"),
    (lambda d, s: d.bsort("x", s, name="y"), "'x' should be given as bsort(name, stream)"),
    (lambda d, s: d.source(), "'source' needs 'name'"),
    (lambda d, s: d.sink("x"), "'x' needs 'stream'"),
    (lambda d, s: d.output(stream=s), "'output' has an unknown setting 'stream'"),
    (lambda d, s: d.done(5), "'done' should be given as done()"),
    (lambda d, s: au.diagram(), "'diagram' needs 'name'"),
    (lambda d, s: au.diagram("d", bukket="1 s"), "'d' has an unknown setting 'bukket'"),
    (lambda d, s: d.uotput(s), "'uotput' is not a method of a diagram (did you mean 'output'?)"),
]  # fmt: skip


def _group(d: Any, s: Stream, **settings: Any) -> Stream:
    given = {"window": "1 s", "compute": {"n": "count(*)"}} | settings
    return d.aggregate("x", s, **given)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("call", "sentence"), SETTINGS)
def test_settings(call: Call, sentence: str) -> None:
    _tells(call, sentence)


def _tells(call: Call, sentence: str) -> None:
    d, s = builder()
    with pytest.raises(UserError) as caught:
        call(d, s)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.place is not None
    assert caught.value.place.file == __file__
    assert caught.value.place.line in {call.__code__.co_firstlineno, _GROUP_LINE}


_GROUP_LINE = inspect.getsourcelines(_group)[1] + 2


def test_the_name_of_a_diagram() -> None:
    assert told(lambda: au.diagram(5)) == "the name of a diagram should be text, not 5"  # type: ignore[arg-type]


def test_a_diagram_can_be_asked_for_what_it_does_not_have() -> None:
    d, _ = builder()
    assert not hasattr(d, "fliter")
    assert not hasattr(d, "_repr_html_")


def test_streams_of_a_derived_name_are_of_the_same_diagram() -> None:
    d, s = builder()
    parts = d.split("parts", s, by=["a"], into=2)
    d.union("both", parts[0], parts[1])
    assert d.done().results == ("both",)


# --- the functions of the package --------------------------------------------


def test_what_is_started(tmp_path: Path) -> None:
    for wrong in ("nope", Path("nope.yaml")):
        said = told(lambda wrong=wrong: au.start(wrong, tmp_path))  # type: ignore[misc]
        assert said.startswith("what is started is a diagram, not ")
        assert said.endswith(": au.load reads one from a file")
    assert told(lambda: au.start("nope")).startswith("what is started is a diagram, not 'nope'")  # type: ignore[arg-type]
    assert told(lambda: au.run(5, tmp_path)) == "what is started is a diagram, not 5"  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_the_state_of_a_start() -> None:
    d, s = builder()
    d.bsort("x", s)
    sentence = "a diagram is started over the path of a state directory, not "
    assert told(lambda: au.start(d)) == f"{sentence}''"
    assert told(lambda: au.start(d, 5)) == f"{sentence}5"  # type: ignore[arg-type]
    assert told(lambda: au.run(d, None)) == f"{sentence}None"  # type: ignore[arg-type]


def test_the_options_of_a_start(tmp_path: Path) -> None:
    d, s = builder()
    d.bsort("x", s)
    said = told(lambda: au.start(d, tmp_path, frsh=True))
    assert said.startswith("a start has no option 'frsh' (known: spark, master, ")
    assert said.endswith("did you mean 'fresh'?)")


def test_what_is_loaded_and_connected_to() -> None:
    assert told(lambda: au.load(42)) == "a diagram is loaded from the path of a file, not 42"  # type: ignore[arg-type]
    sentence = "a connection is made to the path of a cluster file, not "
    assert told(lambda: au.connect(42)) == f"{sentence}42"  # type: ignore[arg-type]
    assert told(lambda: au.connect("")) == f"{sentence}''"
    said = told(lambda: au.connect("cluster.yaml", identity=5))  # type: ignore[arg-type]
    assert said == "the identity of a connection is a name, not 5"


def test_what_is_registered_with() -> None:
    said = told(lambda: au.register("spark"))  # type: ignore[arg-type]
    assert said == "what is registered with is a SparkSession, not 'spark'"


def test_a_mistake_in_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "my.py"
    head = "import australis as au\nd = au.diagram('d')\ns = d.source('s', push=True, schema='a int')\n"
    for line, sentence in (
        ("d.filter('x', 's', 'a > 1')", "'x' reads 's', which is text"),
        ("d.fliter('x', s, 'a > 1')", "'fliter' is not a method of a diagram"),
        ("au.start(d, 5)", "a diagram"),
    ):
        path.write_text(f"{head}\n{line}\n", encoding="utf-8")
        with pytest.raises(UserError) as caught:
            load(path)
        place = 2 if line.startswith("au") else 5
        assert str(caught.value).startswith((f"{path}:{place}: ", f"{path}:5: "))
        assert sentence in str(caught.value)
