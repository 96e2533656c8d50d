"""What a schema says of a file: where each mistake stands, by which name, and what was meant."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from msgspec import Meta, field

from australis.deployment.cluster_file import ClusterFile
from australis.diagram.diagram_file import DiagramFile, load
from australis.kernel.errors import Place, UserError
from australis.protocols.contracts.federation_file import FederationFile
from australis.scenarios.scenario_file import ScenarioFile
from australis.sim.ants.placement_file import PlacementSections
from australis.sim.elasticity.elasticity_file import ElasticitySections
from australis.sim.hotspots.peers_file import PeersFile
from australis.yamlfile.document import parse
from australis.yamlfile.schema import Section, SettingError, Settings, arguments, read
from australis.yamlfile.values import Count, Name, Number, OneOrMore, Span, several

FILE = "f.yaml"


class Limits(Settings, frozen=True):
    """Two numbers of which the first is the smaller one."""

    low: Number = 0.0
    high: Number = 1.0

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise SettingError("high", "has limits that cross")


class Node(Settings, frozen=True):
    """One node."""

    runs: OneOrMore
    every_us: Span = field(default=Span(5), name="every")
    engine: Literal["spark", "reference"] = "spark"
    limits: dict[Literal["cpu", "memory"], Limits] = field(default_factory=dict)
    copies: Count | Annotated[tuple[Count, ...], Meta(max_length=2)] = 1
    trace: bool | None = None


class Step(Settings, frozen=True):
    """One step."""

    kill: Name


class File(Settings, frozen=True):
    """A file."""

    nodes: Section[Node]
    steps: tuple[Step, ...] = ()
    limits: Limits = Limits()
    anything: Any = None


def said(text: str) -> str:
    with pytest.raises(UserError) as caught:
        read(parse(text, FILE), File, "a test")
    return str(caught.value)


MISTAKES = {
    "unknown section": (
        "nodes: {a: {runs: x}}\nstep: []",
        "2: 'step' is not a section of a test (known: nodes, steps, limits, anything;"
        " did you mean 'steps'?)",
    ),
    "unknown setting": (
        "nodes:\n  a:\n    runs: x\n    evry: 1 s",
        "4: 'a' has an unknown setting 'evry' (known: runs, every, engine, limits, copies, trace;"
        " did you mean 'every'?)",
    ),
    "missing": ("nodes:\n  a: {every: 1 s}", "2: 'a' needs 'runs'"),
    "word": (
        "nodes: {a: {runs: x, engine: spakr}}",
        "1: 'a' has a setting 'engine' that should be 'spark' or 'reference', not 'spakr'"
        " (did you mean 'spark'?)",
    ),
    "unit": (
        "nodes:\n  a:\n    runs: x\n    every: 5",
        "4: 'a' has a setting 'every' that is not a duration: '5' (write for example '500 ms',"
        " '60 s' or '1 h')",
    ),
    "nothing": (
        "nodes: {a: {runs: x, every: }}",
        "1: 'a' has a setting 'every' that is not a duration: 'None' (write for example '500 ms',"
        " '60 s' or '1 h')",
    ),
    "no flag": ("nodes: {a: {runs: x, trace: }}",
        "1: 'a' has a setting 'trace' that should be true or false, not None"),
    "far inside": (
        "nodes:\n  a:\n    runs: x\n    limits:\n      cpu:\n        low: x",
        "6: 'a' has a setting 'limits.cpu.low' that should be a number that is not negative,"
        " not 'x'",
    ),
    "unknown key": (
        "nodes:\n  a:\n    runs: x\n    limits:\n      gpu: {}",
        "5: 'a' has an unknown setting 'limits.gpu' (known: cpu, memory; did you mean 'cpu'?)",
    ),
    "relation": (
        "nodes: {a: {runs: x}}\nlimits:\n  low: 3\n  high: 2", "4: 'limits' has limits that cross"
    ),
    "item": ("nodes: {a: {runs: x}}\nsteps:\n- kill: a\n- kill: 5",
        "4: 'step 2' has a setting 'kill' that should be a name of at most 100 characters, not 5"),
    "no item": ("nodes: {a: {runs: x}}\nsteps:\n- 5", "3: 'step 1' should be names with settings"),
    "inside a union": ("nodes:\n  a:\n    runs:\n    - x\n    - 5",
        "5: 'a' has a setting 'runs' that should be a name of at most 100 characters, not 5"),
    "no side of a union": ("nodes: {a: {runs: {}}}",
        "1: 'a' has a setting 'runs' that should be a name or a list of names, not {}"),
    "long": (
        f"nodes: {{a: {{runs: {'[' * 9}{'x, ' * 99}{']' * 9}}}}}",
        "1: 'a' has a setting 'runs' that should be a name of at most 100 characters, not " + "[" * 8 + ("'x', " * 99)[:72] + "...",
    ),
    "empty section": ("nodes: {}", "1: 'nodes' is empty"),
    "comma": (
        "nodes: {a: {runs: x, y}}",
        "1: 'a' has an unknown setting 'y' (known: runs, every, engine, limits, copies, trace; a"
        " value with a comma needs quotes, as in {where: 'a > 1, b < 2'})",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(text: str, sentence: str) -> None:
    assert said(text) == f"{FILE}:{sentence}"


def test_what_is_read() -> None:
    text = "nodes: {a: {runs: [x, y], every: 1 min, copies: [1, 2]}, b: {runs: z}}"
    one, other = read(parse(text, FILE), File, "a test").nodes.values()
    assert (several(one.runs), one.every_us.us, one.every_us.s) == (("x", "y"), 60_000_000, 60.0)
    assert (one.copies, several(other.runs), other.engine) == ((1, 2), ("z",), "spark")
    assert arguments(other)["every_us"] == 5


def test_every_part_has_a_place() -> None:
    document = parse("a:\n  b: [x,\n   {c: 007}]\n", FILE)
    assert document.data == {"a": {"b": ["x", {"c": 7}]}}
    assert document.marks["a", "b", 1, "c"].line == 3
    assert document.marks["a", "b", 1, "c"].column == 5
    assert document.place("a", "b", 1, "nothing") == Place(FILE, 3)
    assert document.place("nothing") == Place(FILE)
    assert document.word("a", "b", 1, "c") == "007"
    inner = document.within("a", "b")
    assert inner.data == ["x", {"c": 7}]
    assert inner.place(1, "c") == Place(FILE, 3)


DIAGRAM = """\
diagram: d
sources: {s: {push, schema: "a int, b int"}}
operators:
  x: {%s}
"""


@pytest.mark.parametrize(
    ("settings", "begin"),
    [
        ("filter: s, where: a > 1, b < 2", "'b < 2' has no value"),
        ("map: s, select: a, b", "'x' has a"),
        ("filter: s, where: {hot: a > 1, b < 2}", "'b < 2' has no value"),
    ],
)
def test_a_comma_in_an_expression(settings: str, begin: str) -> None:
    with pytest.raises(UserError) as caught:
        load(DIAGRAM % settings, FILE)
    assert str(caught.value).startswith(f"{FILE}:4: {begin}")
    assert "a value with a comma needs quotes" in str(caught.value)


def test_a_key_may_stand_alone_where_it_says_all() -> None:
    assert load(DIAGRAM % "filter: s, where: 'a > 1, b'", FILE).sources[0].kind == "push"


SCHEMAS = (
    *(ClusterFile, DiagramFile, FederationFile, ScenarioFile),
    *(PlacementSections, ElasticitySections, PeersFile, File),
)


def within(schema: Any) -> Iterator[Any]:
    """A schema and all that it is made of."""
    yield schema
    if isinstance(schema, type) and issubclass(schema, msgspec.Struct):
        for one in msgspec.structs.fields(schema):
            yield from within(one.type)
    for inner in get_args(schema):
        yield from within(inner)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.__name__)
def test_no_tuple_of_fixed_length_is_an_alternative_to_a_number(schema: Any) -> None:
    """msgspec 0.22 confuses its length with the limits of the number, and crashes."""
    for part in within(schema):
        if get_origin(part) in (Union, types.UnionType):
            for form in get_args(part):
                fixed = get_origin(form) is tuple and get_args(form)[-1] is not ...
                assert not fixed, part
