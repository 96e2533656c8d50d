"""The mistakes between parts: names, streams, cycles, buckets and cuts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from australis.diagram.check import check
from australis.diagram.diagram_file import dump, load
from australis.diagram.model import BSort, Cut, Diagram, Filter, Operator, Sink, Source, Split
from australis.diagram.model import Union as UnionOf
from australis.kernel.errors import Place, UserError
from australis.kernel.names import nearest
from australis.streams.schema import parse_schema

SOURCE = Source(name="s", kind="push", schema=parse_schema("a int"))


def sort(name: str, stream: str, line: int = 1) -> BSort:
    return BSort(name=name, inputs=(stream,), place=Place("f", line))


def diagram(*operators: Operator, cut: Cut = "none") -> Diagram:
    return Diagram("d", (SOURCE,), operators, cut=cut, place=Place("f"))


def mistake(wrong: Diagram) -> str:
    with pytest.raises(UserError) as caught:
        check(wrong)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_empty_diagram_is_refused() -> None:
    needs = "a diagram needs at least one source and one operator"
    assert mistake(Diagram("d", (), ())) == f"'d' has no sources: {needs}"
    assert mistake(diagram()) == f"f: 'd' has no operators: {needs}"
    assert mistake(replace(diagram(), outputs=("s",))) == f"f: 'd' has no operators: {needs}"


def writes(name: str, path: object, kind: str = "jsonl") -> Sink:
    return Sink(name=name, kind=kind, stream="x", options={"path": path}, place=Place("f", 9))


@pytest.mark.parametrize("other", ["out/a", "out//a", "./out/a", "out/b/../a", "out/a/"])
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_two_sinks_do_not_write_to_one_path(kind: str, other: str) -> None:
    sinks = (writes("one", "out/a"), writes("two", other, kind))
    said = mistake(replace(diagram(sort("x", "s")), sinks=sinks))
    assert said == "f:9: 'two' would write to out/a, which 'one' writes"


@pytest.mark.parametrize("read", ["in/a.csv", ["in/b.csv", "./in/a.csv"]])
def test_a_sink_does_not_write_to_what_a_source_reads(read: object) -> None:
    files = Source(name="s", kind="csv", schema=SOURCE.schema, options={"path": read})
    whole = replace(diagram(sort("x", "s")), sources=(files,), sinks=(writes("one", "in/a.csv"),))
    assert mistake(whole) == "f:9: 'one' would write to in/a.csv, which 's' reads"


def test_paths_of_their_own_are_no_mistake() -> None:
    console = tuple(Sink(name=name, kind="console", stream="x") for name in ("c", "d"))
    sinks = (writes("one", "out/a"), writes("two", "out/A"), writes("odd", 5), *console)
    check(replace(diagram(sort("x", "s")), sinks=sinks))


@pytest.mark.parametrize("name", ["", "a b", "a/b", "..", "a.b", "a\nb", "größe", "a" * 101])
def test_a_diagram_has_a_name(name: str) -> None:
    with pytest.raises(UserError, match="is not a name for a diagram"):
        check(replace(diagram(sort("x", "s")), name=name))


@pytest.mark.parametrize("name", ["a", "A-1", "_x", "007", "a" * 100])
def test_these_are_names(name: str) -> None:
    check(replace(diagram(sort("x", "s")), name=name))


@pytest.mark.parametrize(
    ("operators", "sentence"),
    [
        ((sort("x", "s"), sort("x", "s", 2)), "f:2: 'x' has a name that is taken: an operator"),
        ((sort("x", "s"), sort("X", "s", 2)), "f:2: 'X' has a name that is taken: an operator"),
        ((sort("s", "s"),), "f:1: 's' has a name that is taken: a source"),
    ],
)
def test_names_are_unique(operators: tuple[Operator, ...], sentence: str) -> None:
    assert mistake(diagram(*operators)).startswith(sentence)


def test_a_sink_may_be_called_like_a_stream() -> None:
    sinks = (Sink(name="x", kind="console", stream="x"),)
    check(replace(diagram(sort("x", "s")), sinks=sinks))


@pytest.mark.parametrize(
    ("operators", "loop"),
    [
        ((sort("x", "x"),), "x -> x"),
        ((sort("x", "y"), sort("y", "x")), "x -> y -> x"),
        ((sort("x", "z"), sort("y", "x"), sort("z", "y")), "x -> y -> z -> x"),
        ((sort("end", "x"), sort("x", "y"), sort("y", "x")), "x -> y -> x"),
    ],
)
def test_a_cycle_is_told_in_the_direction_of_the_tuples(
    operators: tuple[Operator, ...], loop: str
) -> None:
    assert mistake(diagram(*operators)).endswith(f"is part of a cycle: {loop}")


def test_a_cycle_through_a_branch() -> None:
    split = Split(name="p", inputs=("u",), by=("a",), into=2)
    union = UnionOf(name="u", inputs=("s", "p.1"))
    assert mistake(diagram(split, union)).endswith("cycle: p -> u -> p")


def test_a_diamond_is_no_cycle() -> None:
    check(diagram(sort("a", "s"), sort("b", "a"), UnionOf(name="u", inputs=("a", "b", "s"))))


def test_the_first_random_predicate_is_found() -> None:
    where = (("hot", "a > 1"), ("cold", "uuid() = 'x'"))
    found = mistake(diagram(Filter(name="x", inputs=("s",), where=where)))
    assert found == "'x' uses uuid: it is random, so two replicas would compute different results"


@pytest.mark.parametrize("bucket_us", [0, 9_000, 10_001, -1])
def test_bucket_sizes_that_are_refused(bucket_us: int) -> None:
    said = mistake(replace(diagram(sort("x", "s")), bucket_us=bucket_us))
    assert "'bucket' is not a bucket size" in said


@pytest.mark.parametrize(
    ("cut", "sentence"),
    [
        ("all", "f: 'fragments' should be 'none', 'fan-out', or names with operators, not 'all'"),
        ((("a", ("x", "why")),), "f: 'a' names an unknown operator 'why'"),
        ((("a", ("x", "yy")),), "f: 'a' names an unknown operator 'yy' (did you mean 'y'?)"),
        ((("a", ("x", "y", "x")),), "f: 'a' holds 'x', which is in 'a' already"),
        ((("a", ("x", "y")), ("b", ("y",))), "f: 'b' holds 'y', which is in 'a' already"),
        ((("a", ("x",)),), "f:2: 'y' is in no fragment, though fragments are given by hand"),
    ],
)
def test_cuts_by_hand(cut: Cut, sentence: str) -> None:
    assert mistake(diagram(sort("x", "s"), sort("y", "x", 2), cut=cut)) == sentence


def test_the_nearest_name() -> None:
    assert nearest("conections", ["connections", "connected"]) == "connections"
    assert nearest("zzz", ["connections"]) is None


def test_limits_of_a_source_have_defaults_and_are_written_back() -> None:
    text = "diagram: d\nsources:\n  s: {push: true, schema: t timestamp, time: t%s}\noperators:\n  m: {map: s, select: {t: t}}\n"
    plain = load(text % "", "d.yaml").sources[0]
    assert (plain.max_ahead_us, plain.rejected_bytes) == (3_600_000_000, 16_000_000)
    diagram = load(text % ", max_ahead: 5 s, rejected: 2 GB", "d.yaml")
    assert (diagram.sources[0].max_ahead_us, diagram.sources[0].rejected_bytes) == (
        5_000_000,
        2 * 10**9,
    )
    assert load(dump(diagram), "d.yaml") == diagram
    assert load(text.replace(", time: t", "") % "", "d.yaml").sources[0].max_ahead_us is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("csv: a.csv, time: t, max_ahead: 1 h", "has 'max_ahead', which is for rows with times of their own"),
        ("push: true, max_ahead: 1 h", "has 'max_ahead', which is for rows with times of their own"),
        ("push: true, rejected: 16", "should be a size such as 16 MB, not 16"),
        ("push: true, rejected: 16 apples", "should be a size such as 16 MB, not '16 apples'"),
    ],
)  # fmt: skip
def test_mistakes_in_limits_of_a_source(settings: str, said: str) -> None:
    text = f"diagram: d\nsources:\n  s: {{{settings}, schema: t timestamp}}\noperators:\n  m: {{map: s, select: {{t: t}}}}\n"
    with pytest.raises(UserError) as caught:
        load(text, "d.yaml")
    assert said in str(caught.value)
