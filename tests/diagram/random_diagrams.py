"""Random valid diagrams with every kind of part, and with names and texts that are hard to write."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from australis.diagram.aggregates import AggregateCall
from australis.diagram.expressions import fault
from australis.diagram.model import (
    DEFAULT_REJECTED_BYTES,
    Aggregate,
    BSort,
    CountWindow,
    Cut,
    Diagram,
    Filter,
    Join,
    Map,
    Operator,
    Sink,
    Source,
    Spark,
    Split,
    TimeWindow,
    Union,
)
from australis.diagram.parts import GENERATED, MAX_AHEAD_US
from australis.streams.schema import parse_schema

NAMES = [
    *("a", "b", "site-1", "class", "d", "au", "diagram", "yes", "on", "Null", "no", "x_1", "x-1"),
    *("import", "true", "e1", "load", "None", "left", "right", "Hot", "union", "filter"),
]
COLUMNS = ["a", "Mixed", "odd name", "on", "yes", "1", "ünï", "x:y", "null", "a, b", "# no", "2026"]
EXPRESSIONS = st.one_of(
    st.sampled_from(
        [
            *("a > 1", "name = 'it''s: # x'", "x = ')'", "yes", "null", "`odd name` + 1", "1"),
            *("a\nand b", " a", "{a: b}", "- x", "'", '"', "%", "\\d", "*", "&a", "!x", "é", "007"),
            *("[a]", "a: b", "x -- no\n", "1e3", "0x10", "2026-01-01", "", "~", "on"),
        ]
    ),
    st.text(max_size=12).map(lambda text: "'" + text.replace("\\", "").replace("'", "''") + "'"),
).filter(lambda text: fault(text) is None)
ARGUMENTS = st.sampled_from(
    ["x", "a.b", "if(x = ')', 1, 0)", "`a)b`", "x /* , ) */", "r'\\'", "concat('k, l')", "'\\')'"]
)
SCHEMAS = st.sampled_from(
    [
        "at timestamp, room string, celsius double",
        "at bigint, `odd name` decimal(12,3), place struct<lat: double, `l o n`: float>",
        "at double, ok boolean, raw binary, day date, n tinyint, m smallint",
    ]
).map(parse_schema)
OPTIONS = st.dictionaries(
    st.sampled_from(["speed", "unit", "with-dash", "class", "lambda"]),
    st.recursive(
        st.one_of(
            st.booleans(),
            st.integers(),
            st.floats(allow_nan=False, allow_infinity=False),
            st.text(max_size=8),
            st.sampled_from(["max", "yes", "1", "2026-01-01T00:00:00Z", "12:30"]),
        ),
        lambda values: st.lists(values, max_size=3),
        max_leaves=4,
    ),
    max_size=2,
)
DURATIONS = st.one_of(st.integers(0, 10**12), st.integers(0, 10**5).map(lambda n: n * 60_000_000))
BRANCHES = st.lists(
    st.sampled_from(["hot", "cold", "yes", "no", "1", "ü"]), min_size=1, max_size=3, unique=True
)


def columns() -> st.SearchStrategy[tuple[tuple[str, str], ...]]:
    """Columns with names, some plain: the name is the expression."""
    plain = st.tuples(st.sampled_from([c for c in COLUMNS if fault(c) is None]), st.none())
    named = st.tuples(st.sampled_from(COLUMNS), EXPRESSIONS)
    return st.lists(plain | named, min_size=1, max_size=3, unique_by=lambda c: c[0]).map(
        lambda pairs: tuple((name, name if text is None else text) for name, text in pairs)
    )


@st.composite
def sources(draw: st.DrawFn, name: str) -> Source:
    """A source of any kind."""
    kind = draw(st.sampled_from(["csv", "jsonl", "parquet", "tcp", "push", "generate"]))
    schema, time = draw(SCHEMAS), draw(st.sampled_from(["at", "arrival"]))
    options: dict[str, Any] = {}
    if kind == "generate":
        options["generator"] = "connections"
        schema, time = GENERATED["connections"]
    elif kind == "tcp":
        options["address"] = "localhost:7000"
    elif kind != "push":
        time = "at"
        options["path"] = draw(st.sampled_from(["in/a.csv", "x y/*.jsonl"]) | st.just(["a", "b"]))
    options |= draw(OPTIONS)
    slack = draw(DURATIONS)
    idle = draw(st.none() | DURATIONS.filter(bool)) if kind in ("tcp", "push") else None
    live = kind in ("tcp", "push") and time != "arrival"
    return Source(
        name=name,
        kind=kind,
        schema=schema,
        time=time,
        slack_us=slack,
        idle_us=None if time == "arrival" else idle,
        max_ahead_us=draw(DURATIONS | st.just(MAX_AHEAD_US)) if live else None,
        rejected_bytes=draw(st.sampled_from([DEFAULT_REJECTED_BYTES, 0, 1_000, 10**9, 1_500_000])),
        options=options,
    )


@st.composite
def operators(draw: st.DrawFn, name: str, streams: list[str]) -> Operator:
    """An operator of any kind that reads some of these streams."""
    one = st.sampled_from(streams)
    kind = draw(st.sampled_from([Filter, Map, Union, BSort, Aggregate, Join, Split, Spark]))
    if kind is Filter:
        plain = EXPRESSIONS.map(lambda text: Filter(name=name, inputs=(), where=(("", text),)))
        made = draw(plain | branching(name))
        return Filter(name=name, inputs=(draw(one),), where=made.where, rest=made.rest)
    if kind is Map:
        return Map(name=name, inputs=(draw(one),), select=draw(columns()))
    if kind is Union:
        return Union(name=name, inputs=tuple(draw(st.lists(one, min_size=1, max_size=3))))
    if kind is BSort:
        return BSort(name=name, inputs=(draw(one),))
    if kind is Aggregate:
        return draw(aggregates(name, one))
    if kind is Join:
        within, on = draw(DURATIONS), draw(EXPRESSIONS)
        inputs, select = (draw(one), draw(one)), draw(columns() | st.just(()))
        return Join(name=name, inputs=inputs, within_us=within, on=on, select=select)
    if kind is Split:
        by = tuple(draw(st.lists(EXPRESSIONS, min_size=1, max_size=2)))
        return Split(name=name, inputs=(draw(one),), by=by, into=draw(st.integers(2, 64)))
    function = draw(st.sampled_from(["side.py:look_up", "package.module:name"]))
    inputs_of_spark = tuple(draw(st.lists(one, min_size=1, max_size=2)))
    needs = draw(st.sampled_from([Spark.needs, (), (inputs_of_spark[0],), inputs_of_spark]))
    return Spark(name=name, inputs=inputs_of_spark, function=function, needs=needs)


@st.composite
def branching(draw: st.DrawFn, name: str) -> Filter:
    """A filter with branches, perhaps one for the rest."""
    where = tuple((branch, draw(EXPRESSIONS)) for branch in draw(BRANCHES))
    return Filter(name=name, inputs=(), where=where, rest=draw(st.sampled_from([None, "rest"])))


@st.composite
def aggregates(draw: st.DrawFn, name: str, one: st.SearchStrategy[str]) -> Aggregate:
    """An aggregate over time or tuples."""
    small, large = sorted((draw(st.integers(1, 10**6)), draw(st.integers(1, 10**6))))
    windows: list[CountWindow | TimeWindow] = [
        CountWindow(large, small),
        TimeWindow(large * 1000, small * 1000),
    ]
    calls = [
        AggregateCall("count"),
        AggregateCall("sum", (draw(ARGUMENTS),)),
        AggregateCall("count", (draw(ARGUMENTS), draw(ARGUMENTS)), distinct=True),
        AggregateCall("percentile", (draw(ARGUMENTS), "0.5")),
        AggregateCall("window_end"),
    ]
    names = draw(st.lists(st.sampled_from(["n", "Total", "so many"]), min_size=1, unique=True))
    return Aggregate(
        name=name,
        inputs=(draw(one),),
        window=draw(st.sampled_from(windows)),
        by=draw(columns() | st.just(())),
        compute=tuple((n, draw(st.sampled_from(calls))) for n in names),
        scale=draw(st.integers(0, 12)),
    )


@st.composite
def diagrams(draw: st.DrawFn) -> Diagram:
    """A valid diagram; its operators stand upstream first."""
    unique = st.lists(st.sampled_from(NAMES), min_size=2, max_size=9, unique_by=lambda n: n.lower())
    names = draw(unique)
    entries = draw(st.integers(1, min(3, len(names) - 1)))
    made_sources = tuple(draw(sources(name)) for name in names[:entries])
    streams = [source.name for source in made_sources]
    made: list[Operator] = []
    for name in names[entries:]:
        operator = draw(operators(name, streams))
        made.append(operator)
        streams += operator.outputs
    return Diagram(
        name=draw(st.sampled_from(["d", "my-diagram", "007", "yes", "null"])),
        sources=made_sources,
        operators=tuple(made),
        sinks=draw(sinks(streams)),
        outputs=tuple(draw(st.lists(st.sampled_from(streams), max_size=3, unique=True))),
        bucket_us=draw(st.integers(10, 10**6)) * 1000,
        cut=draw(cuts([operator.name for operator in made])),
    )


@st.composite
def sinks(draw: st.DrawFn, streams: list[str]) -> tuple[Sink, ...]:
    """Sinks of every kind that can be written down."""
    made = []
    for name in draw(st.lists(st.sampled_from(["alerts", "from", "class"]), unique=True)):
        kind = draw(st.sampled_from(["jsonl", "parquet", "console"]))
        own = st.text(max_size=8).filter(lambda path: ".." not in path).map(f"{name}-".__add__)
        options = {} if kind == "console" else {"path": draw(own)}
        stream = draw(st.sampled_from(streams))
        made.append(Sink(name=name, kind=kind, stream=stream, options=options))
    return tuple(made)


@st.composite
def cuts(draw: st.DrawFn, names: list[str]) -> Cut:
    """No cut, a cut at every fan-out, or every operator in one of three fragments."""
    homes = {name: draw(st.sampled_from(["f1", "yes", "odd fragment"])) for name in names}
    by_hand = {home: tuple(n for n in names if homes[n] == home) for home in homes.values()}
    ways: list[Cut] = ["none", "fan-out", tuple(by_hand.items())]
    return draw(st.sampled_from(ways))
