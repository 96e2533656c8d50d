"""What can be wrong in a YAML diagram is told in one sentence with file, line and name."""

from __future__ import annotations

import pytest

from australis.diagram.diagram_file import load
from australis.diagram.model import (
    Aggregate,
    CountWindow,
    Filter,
    Join,
    Source,
    Spark,
    TimeWindow,
)
from australis.kernel.errors import UserError

FILE = "my.yaml"
HEAD = """\
diagram: d
sources:
  readings: {push: true, schema: "room string, celsius double"}
operators:
"""


def mistake(text: str) -> UserError:
    with pytest.raises(UserError) as caught:
        load(text, FILE)
    assert "\n" not in str(caught.value)
    return caught.value


def tells(text: str, line: int | None, *words: str) -> None:
    said = str(mistake(text))
    place = FILE if line is None else f"{FILE}:{line}"
    assert said.startswith(f"{place}: "), said
    for word in words:
        assert word in said, said


# --- the file ----------------------------------------------------------------

WHOLE_FILES = {
    "empty": ("", None, ["the file is empty"]),
    "only comments": ("# nothing\n", None, ["the file is empty"]),
    "a list": ("- a\n", 1, ["the file should be names with settings"]),
    "a word": ("\nhello\n", 2, ["the file should be names with settings"]),
    "unknown section": (HEAD + "  x: {bsort: readings}\nsink:\n", 6, ["'sink'", "sinks"]),
    "section twice": (HEAD + "  x: {bsort: readings}\nsources:\n", 6, ["'sources'", "line 2"]),
    "no operators": ("diagram: d\nsources: {a: {push: true, schema: a int}}", None, ["operators"]),
    "no sources": ("diagram: d\noperators: {}\n", None, ["no section 'sources'"]),
    "no name": ("sources: {}\noperators: {}\n", None, ["no section 'diagram'"]),
    "empty name": (HEAD.replace(" d\n", "\n", 1) + "  x: {bsort: readings}", 1, ["name"]),
    "bad name": (HEAD.replace(" d\n", " a/b\n", 1) + "  x: {bsort: readings}", 1, ["'a/b'"]),
    "name is a list": (HEAD.replace(" d\n", " [d]\n", 1) + "  x: {bsort: readings}", 1, ["name"]),
    "empty section": ("diagram: d\nsources: {}\noperators: {}\n", 2, ["'sources' is empty"]),
    "null section": ("diagram: d\nsources:\noperators: {}\n", 2, ["'sources' should be names"]),
    "section of words": ("diagram: d\nsources: [a]\noperators: {}\n", 2, ["'sources' should be names"]),
    "not closed": (HEAD + "  x: {bsort: readings\n", 6, ["not YAML", "expected ',' or '}'"]),
    "tab": ("diagram: d\n\tsources: 1\n", 2, ["not YAML: a tab"]),
    "two documents": ("diagram: d\n---\ndiagram: e\n", 2, ["not YAML", "another document"]),
    "forbidden character": ("diagram: d\nsources: \x07\n", 2, ["not YAML", "(number 7)"]),
    "unknown alias": ("diagram: *d\n", 1, ["not YAML", "undefined alias"]),
    "tagged": (HEAD + "  x: {bsort: !thing readings}\n", 5, ["cannot be read", "'!thing'"]),
    "list as a key": (HEAD + "  ? [x]\n  : {bsort: readings}\n", 5, ["a key that is not a name"]),
    "a text that contains itself": (HEAD + "  x: {union: &x [*x]}\n", 5, ["nested too deeply"]),
    "nested for ever": ("[" * 10_000, 1, ["nested too deeply"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "words"), WHOLE_FILES.values(), ids=WHOLE_FILES)
def test_mistakes_of_the_file(text: str, line: int | None, words: list[str]) -> None:
    tells(text, line, *words)


# --- sections beside the parts -----------------------------------------------

SECTIONS = {
    "bucket too small": ("bucket: 5 ms", 6, ["'bucket'", "5 ms", "at least 10 ms"]),
    "bucket between ms": ("bucket: 10500 us", 6, ["'bucket'", "whole milliseconds"]),
    "bucket no duration": ("bucket: soon", 6, ["'bucket' is not a duration: 'soon'"]),
    "bucket without unit": ("bucket: 5", 6, ["'bucket' is not a duration: '5'"]),
    "outputs a word": ("outputs: x", 6, ["'outputs' should be a list of streams, not 'x'"]),
    "outputs a number": ("outputs: 5", 6, ["'outputs' should be a list of streams, not 5"]),
    "outputs nested": ("outputs: [[x]]", 6, ["'outputs' should be text, not ['x']"]),
    "unknown output": ("outputs:\n- x\n- reading", 8, ["'reading'", "did you mean 'readings'?"]),
    "unknown word": ("fragments: each", 6, ["'fragments'", "'none', 'fan-out'", "not 'each'"]),
    "empty cut": ("fragments:", 6, ["'fragments'", "not 'None'"]),
    "cut is a list": ("fragments: [x]", 6, ["'fragments'", "names with operators"]),
    "fragment a word": ("fragments:\n  a: x", 7, ["'a' should be a list of operators, not 'x'"]),
    "fragment a number": ("fragments:\n  a: 5", 7, ["'a' should be a list of operators, not 5"]),
    "unknown operator": ("fragments:\n  a: [x]\n  b: [X1]", 8, ["'b'", "'X1'"]),
    "close operator": ("fragments: {a: [xx]}", 6, ["'a'", "'xx' (did you mean 'x'?)"]),
    "double operator": ("fragments:\n  a: [x]\n  b: [x]", 8, ["'b' holds 'x'", "'a' already"]),
    "missing operator": ("fragments:\n  a: []", 5, ["'x' is in no fragment"]),
    "a source": ("fragments:\n  a: [x, readings]", 7, ["'a'", "unknown operator 'readings'"]),
}  # fmt: skip


@pytest.mark.parametrize(("section", "line", "words"), SECTIONS.values(), ids=SECTIONS)
def test_mistakes_of_sections(section: str, line: int, words: list[str]) -> None:
    tells(f"{HEAD}  x: {{bsort: readings}}\n{section}\n", line, *words)


# --- sources and sinks -------------------------------------------------------

SOURCES = {
    "unknown kind": ("s: {cvs: a.csv}", 3, ["'s' does not say", "csv, jsonl, parquet"]),
    "two kinds": ("s: {csv: a, jsonl: b}", 3, ["'s' says more than once (csv, jsonl)"]),
    "no settings": ("s:", 3, ["'s' should be names with settings"]),
    "bad name": ("9s: {push: true}", 3, ["'9s' is not a name"]),
    "no schema": ("s:\n    push: true", 3, ["'s' needs 'schema'"]),
    "csv without time": ("s:\n    csv: a\n    schema: a int", 3, ["'s' needs 'time'", "order"]),
    "jsonl on arrival": ("s: {jsonl: a, schema: a int, time: arrival}", 3, ["'s' needs 'time'"]),
    "time missing": ("s:\n    csv: a\n    schema: a int\n    time: at", 6, ["'s'", "'at'"]),
    "time a string": ("s:\n    csv: a\n    schema: a string\n    time: a", 6, ["string, not a time"]),
    "time a list": ("s:\n    push: true\n    schema: a int\n    time: [a]", 6, ["'time'", "text"]),
    "schema no text": ("s:\n    push: true\n    schema: [a]", 5, ["'schema'", "should be text"]),
    "schema empty": ("s:\n    push: true\n    schema: ''", 5, ["'schema' that is not a schema"]),
    "schema no type": ("s:\n    push: true\n    schema: a", 5, ["'s'", "unknown type ''"]),
    "schema comma": ("s:\n    push: true\n    schema: 'a int,'", 5, ["'s'", "not a schema"]),
    "schema character": ("s:\n    push: true\n    schema: 'a int; b int'", 5, ["not a schema"]),
    "unknown type": ("s:\n    push: true\n    schema: a text", 5, ["unknown type 'text'", "string"]),
    "array": ("s:\n    push: true\n    schema: a array<int>", 5, ["type array", "no canonical order"]),
    "map": ("s:\n    push: true\n    schema: 'a map<int, int>'", 5, ["type map", "scalars"]),
    "decimal": ("s:\n    push: true\n    schema: 'a decimal(99,1)'", 5, ["decimal(99,1)", "range"]),
    "header name": ("s:\n    push: true\n    schema: _id int", 5, ["'_id'", "the header's"]),
    "column twice": ("s:\n    push: true\n    schema: a int, A int", 5, ["two columns named 'A'"]),
    "schema mapping": ("s:\n    push: true\n    schema: {a: text}", 5, ["unknown type 'text'"]),
    "bad slack": ("s:\n    push: true\n    schema: a int\n    slack: 5", 6, ["'slack'", "duration"]),
    "slack below zero": ("s: {push: true, schema: a int, slack: -1 s}", 3, ["'slack'", "'-1 s'"]),
    "idle file": (
        "s: {csv: a.csv, schema: a bigint, time: a, idle: 5 s}", 3,
        ["'idle'", "from tcp or push", "it is read as fast as it is to be"],
    ),
    "idle on arrival": ("s: {push: true, schema: a int, idle: 5 s}", 3, ["'idle'", "has no 'time'"]),
    "idle at once": (
        "s: {push: true, schema: a bigint, time: a, idle: 0 s}", 3, ["every row could be late"],
    ),
    "generator": ("s:\n    seed: 1\n    generate: noise", 5, ["cannot generate 'noise'", "connections"]),
    "generator list": ("s: {generate: [connections]}", 3, ["cannot generate ['connections']"]),
    "generator misspelt": ("s: {generate: conections}", 3, ["did you mean 'connections'?"]),
    "comma in a number": (
        "s: {generate: connections, rate: 1,000}", 3,
        ["has an option '000' without a value; a value with a comma needs quotes"],
    ),
    "setting twice": ("s:\n    push: true\n    push: true", 5, ["'push' is defined twice", "line 4"]),
    "name twice": ("s: {push: true, schema: a int}\n  s: {push: true}", 4, ["'s' is defined twice"]),
    "name in other case": (
        "s: {push: true, schema: a int}\n  S: {push: true, schema: a int}", 4,
        ["'S' has a name that is taken: a source has it already"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "line", "words"), SOURCES.values(), ids=SOURCES)
def test_mistakes_of_sources(source: str, line: int, words: list[str]) -> None:
    tells(f"diagram: d\nsources:\n  {source}\noperators:\n  x: {{bsort: s}}\n", line, *words)


SINKS = {
    "unknown kind": ("out: {from: x, file: a}", 7, ["'out' does not say", "jsonl, parquet"]),
    "two kinds": ("out: {from: x, jsonl: a, console: true}", 7, ["(jsonl, console)"]),
    "comma in a path": (
        "out: {from: x, jsonl: out,1.jsonl}", 7,
        ["'out' has an option '1.jsonl' without a value; a value with a comma needs quotes"],
    ),
    "no stream": ("out: {jsonl: a}", 7, ["'out' needs 'from'"]),
    "stream is a list": ("out:\n    from: [x]\n    jsonl: a", 8, ["'from'", "should be text"]),
    "unknown stream": ("out: {from: reading, jsonl: a}", 7, ["'out'", "did you mean 'readings'?"]),
    "name twice": ("out: {from: x, jsonl: a}\n  out: {}", 8, ["'out' is defined twice", "line 7"]),
    "name in other case": (
        "out: {from: x, jsonl: a}\n  OUT: {from: x, jsonl: b}", 8, ["'OUT'", "a sink has it"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sink", "line", "words"), SINKS.values(), ids=SINKS)
def test_mistakes_of_sinks(sink: str, line: int, words: list[str]) -> None:
    tells(f"{HEAD}  x: {{bsort: readings}}\nsinks:\n  {sink}\n", line, *words)


# --- operators ---------------------------------------------------------------

AGGREGATE = "x:\n    aggregate: readings\n    window: 60 s\n    compute: {n: count(*)}\n"
"""A right one; its settings stand in the lines 6, 7 and 8."""

OPERATORS = {
    "unknown kind": ("x: {fliter: readings}", 5, ["'x' does not say", "filter, map, union"]),
    "two kinds": ("x: {filter: readings, map: readings}", 5, ["'x'", "(filter, map)"]),
    "no settings": ("x:", 5, ["'x' should be names with settings"]),
    "a word": ("x: readings", 5, ["'x' should be names with settings"]),
    "bad name": ("a.b: {bsort: readings}", 5, ["'a.b' is not a name"]),
    "header name": ("_x: {bsort: readings}", 5, ["'_x' is not a name"]),
    "name twice": ("x: {bsort: readings}\n  x: {bsort: readings}", 6, ["'x'", "twice", "line 5"]),
    "name of a source": ("readings: {bsort: readings}", 5, ["'readings'", "a source has it"]),
    "branching name of a source": (
        "readings: {split: readings, by: [room], into: 2}", 5, ["'readings'", "a source has it"],
    ),
    "unknown stream": ("x: {bsort: reading}", 5, ["'x'", "'reading' (did you mean 'readings'?)"]),
    "nothing like it": ("x: {bsort: zzz}", 5, ["'x' reads the unknown stream 'zzz'"]),
    "branch left out": (
        "x: {split: readings, by: [room], into: 2}\n  y: {bsort: x}", 6,
        ["'y' reads the unknown stream 'x' (it has branches: x.0, x.1)"],
    ),
    "unknown branch": (
        "x: {filter: readings, where: {hot: celsius > 30}}\n  y: {bsort: x.hott}", 6,
        ["'y'", "did you mean 'x.hot'?"],
    ),
    "itself": ("x: {bsort: x}", 5, ["'x' is part of a cycle: x -> x"]),
    "cycle": (
        "x: {bsort: z}\n  y: {bsort: x}\n  z: {union: [y, readings]}", 5,
        ["is part of a cycle: x -> y -> z -> x"],
    ),
    "cycle further up": (
        "top: {bsort: x}\n  x: {bsort: y}\n  y: {bsort: x}", 6, ["cycle: x -> y -> x"],
    ),
    "timeout": (
        "x:\n    aggregate: readings\n    timeout: 5 s", 7, ["timeout", "replicas", "5.8.1"],
    ),
    "slack": ("x:\n    bsort: readings\n    slack: 5 s", 7, ["'x'", "slack belongs to sources"]),
    "unknown setting": ("x:\n    bsort: readings\n    by: room", 7, ["'by'", "(known: bsort)"]),
    "two streams": ("x: {bsort: [readings, readings]}", 5, ["'bsort'", "should name one stream"]),
    "union of a word": ("x: {union: readings}", 5, ["'union'", "a list of streams"]),
    "union of nothing": ("x: {union: []}", 5, ["'union'", "a list of streams"]),
    "filter without where": ("x: {filter: readings}", 5, ["'x' needs 'where'"]),
    "where a list": ("x:\n    filter: readings\n    where: [a]", 7, ["'where'", "text"]),
    "where nothing": ("x:\n    filter: readings\n    where:", 7, ["'where'", "not None"]),
    "where empty": ("x:\n    filter: readings\n    where: {}", 7, ["'where' that is empty"]),
    "bad branch": ("x:\n    filter: readings\n    where: {a b: c}", 7, ["branch 'a b'"]),
    "bad rest": (
        "x:\n    filter: readings\n    where: {a: b}\n    rest: c d", 8, ["'rest'", "'c d'"],
    ),
    "rest without names": (
        "x:\n    filter: readings\n    where: b\n    rest: c", 8, ["names a rest"],
    ),
    "split with a rest without names": (
        "x:\n    split: readings\n    where: b\n    rest: c", 8, ["names a rest"],
    ),
    "rest is a branch": (
        "x:\n    filter: readings\n    where: {a: b}\n    rest: A", 7, ["two branches named 'a'"],
    ),
    "map without select": ("x: {map: readings}", 5, ["'x' needs 'select'"]),
    "select a word": ("x:\n    map: readings\n    select: room", 7, ["'select'", "columns"]),
    "select empty": ("x:\n    map: readings\n    select: []", 7, ["'select' that is empty"]),
    "select nested": ("x:\n    map: readings\n    select: [[a]]", 7, ["'select'", "text"]),
    "select twice": ("x:\n    map: readings\n    select: [a, A]", 7, ["two columns named 'A'"]),
    "select twice by name": ("x: {map: readings, select: {a: b, a: c}}", 5, ["'a'", "twice"]),
    "select a header": (
        "x:\n    map: readings\n    select: {_stime: now}", 7, ["'_stime'", "the header's"],
    ),
    "group by a header": (
        AGGREGATE + "    by: [_stime]", 9, ["'_stime'", "the header's"],
    ),
    "group and compute": (
        AGGREGATE + "    by: [N]", 8, ["computes 'n', which is a column of 'by' already"],
    ),
    "join of one": (
        "x:\n    join: [readings]\n    within: 1 s\n    on: a", 6, ["joins 1 streams", "two"],
    ),
    "join without within": ("x: {join: [readings, readings], on: a}", 5, ["needs 'within'"]),
    "join without on": ("x: {join: [readings, readings], within: 1 s}", 5, ["needs 'on'"]),
    "within": (
        "x:\n    join: [readings, readings]\n    within: 1\n    on: a", 7, ["'within'", "duration"],
    ),
    "split without into": ("x: {split: readings, by: [room]}", 5, ["'x' needs 'into'"]),
    "split into text": (
        "x:\n    split: readings\n    by: [room]\n    into: two", 8, ["'into'", "whole number"],
    ),
    "split into yes": ("x: {split: readings, by: [room], into: yes}", 5, ["whole number"]),
    "split into one": (
        "x:\n    split: readings\n    by: [room]\n    into: 1", 8, ["2 to 64 streams"],
    ),
    "spark without function": ("x: {spark: readings}", 5, ["'x' needs 'function'"]),
    "spark function": (
        "x:\n    spark: readings\n    function: look_up", 7, ["'module:name' or 'file.py:name'"],
    ),
    "spark number": ("x:\n    spark: readings\n    function: 5", 7, ["'module:name'"]),
    "needs a number": ("x: {spark: readings, function: 'a:b', needs: 5}", 5, ["'all', 'any' or"]),
    "needs another": (
        "x:\n    spark: readings\n    function: 'a:b'\n    needs: [reading]", 8,
        ["'x' needs 'reading', which it does not read (did you mean 'readings'?)"],
    ),
    "spark of nothing": ("x: {spark: [], function: 'a:b'}", 5, ["a list of streams"]),
}  # fmt: skip


@pytest.mark.parametrize(("operator", "line", "words"), OPERATORS.values(), ids=OPERATORS)
def test_mistakes_of_operators(operator: str, line: int, words: list[str]) -> None:
    tells(f"{HEAD}  {operator}\n", line, *words)


WINDOWS = {
    "no size": ("slide: 1 s", 5, ["'x' needs 'window'"]),
    "no unit": ("window: 60", 7, ["'window'", "is not a duration: '60'"]),
    "unknown unit": ("window: 60 parsecs", 7, ["'window'", "'60 parsecs'"]),
    "a list": ("window: [60 s]", 7, ["'window'", "is not a duration"]),
    "nothing": ("window: 0 s", 7, ["'window'", "longer than nothing"]),
    "no tuples": ("window: 0 tuples", 7, ["'window'", "longer than nothing"]),
    "between ms": ("window: 1500 us", 7, ["'window'", "whole milliseconds"]),
    "slide no duration": ("window: 60 s\n    slide: often", 8, ["'slide'", "'often'"]),
    "slide nothing": ("window: 60 s\n    slide: 0 s", 8, ["'slide'", "longer than nothing"]),
    "slide longer": ("window: 60 s\n    slide: 2 min", 8, ["slide longer than its window", "lost"]),
    "slide more": ("window: 5 tuples\n    slide: 6 tuples", 8, ["slide longer than its window"]),
    "time and tuples": ("window: 60 s\n    slide: 5 tuples", 8, ["both be times or both tuples"]),
    "tuples and time": ("window: 5 tuples\n    slide: 60 s", 8, ["both be times or both tuples"]),
    "scale": ("window: 60 s\n    scale: 13", 8, ["0 to 12 decimal places"]),
    "scale text": ("window: 60 s\n    scale: '3'", 8, ["'scale'", "whole number"]),
    "compute twice": ("window: 60 s\n    n: 5", 8, ["unknown setting 'n'", "compute, scale"]),
}  # fmt: skip


@pytest.mark.parametrize(("setting", "line", "words"), WINDOWS.values(), ids=WINDOWS)
def test_mistakes_of_windows(setting: str, line: int, words: list[str]) -> None:
    settings = f"    {setting}\n    compute: {{n: count(*)}}\n"
    tells(f"{HEAD}  x:\n    aggregate: readings\n{settings}", line, "'x'", *words)


COMPUTED = {
    "no call": ("celsius", ["not one aggregate call"]),
    "a number": ("5", ["not one aggregate call: '5'"]),
    "two calls": ("sum(celsius) / count(*)", ["not one aggregate call", "a map behind it"]),
    "misspelt": ("cuont(*)", ["unknown aggregate 'cuont'", "did you mean 'count'?"]),
    "unknown": ("average(celsius)", ["unknown aggregate 'average'", "avg"]),
    "order": ("any_value(celsius)", ["any_value", "order", "replicas", "use first or last"]),
    "ties": ("max_by(room, celsius)", ["max_by", "replicas", "when keys tie"]),
    "lists": ("collect_list(room)", ["collect_list", "not lists"]),
    "approximate": ("percentile_approx(celsius, 0.5)", ["use percentile"]),
    "distinct sum": ("sum(distinct celsius)", ["distinct in sum", "only count takes it"]),
    "distinct average": ("avg(distinct celsius)", ["distinct in avg", "only count takes it"]),
    "star": ("sum(*)", ["* in sum"]),
    "too many": ("sum(a, b)", ["gives sum 2 arguments; it takes 1"]),
    "trailing comma": ("count(distinct room,)", ["gives count an empty argument"]),
    "only a comma": ("percentile(,)", ["gives percentile an empty argument"]),
    "random": ("sum(celsius * rand())", ["uses rand", "random", "two replicas"]),
}


@pytest.mark.parametrize(("call", "words"), COMPUTED.values(), ids=COMPUTED)
def test_mistakes_of_aggregates(call: str, words: list[str]) -> None:
    settings = f"    aggregate: readings\n    window: 1 s\n    compute:\n      n: '{call}'\n"
    line = 5 if "rand" in call else 8
    tells(f"{HEAD}  x:\n{settings}", line, "'x'", *words)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("celsius > rand()", ["uses rand: it is random"]),
        ("celsius > `rand`()", ["uses rand: it is random"]),
        ("celsius > rand /* why */ ()", ["uses rand"]),
        ("celsius > now()", ["uses now: it reads the clock"]),
        ("_stime < timestamp 'now'", ["uses timestamp 'now': it reads the clock"]),
        ("_stime < date 'today'", ["uses date 'today': it reads the clock"]),
        ("room = session_user", ["uses session_user: it depends on who runs the query"]),
        ("celsius > spark_partition_id()", ["where a tuple is processed"]),
        ("room = reflect('a', 'b')", ["calls code Australis cannot see"]),
    ],
)
@pytest.mark.parametrize(
    "operator",
    [
        "filter: readings\n    where: {}",
        "map: readings\n    select: {{a: {}}}",
        "join: [readings, readings]\n    within: 1 s\n    on: {}",
        "split: readings\n    into: 2\n    by: [{}]",
        "aggregate: readings\n    window: 1 s\n    by: {{a: {}}}\n    compute: {{n: count(*)}}",
    ],
)
def test_what_replicas_would_compute_differently(
    operator: str, expression: str, words: list[str]
) -> None:
    quoted = '"' + expression + '"'
    tells(f"{HEAD}  x:\n    {operator.format(quoted)}\n", 5, "'x'", "two replicas", *words)


# --- what is read ------------------------------------------------------------


def test_a_whole_diagram() -> None:
    diagram = load(
        """
diagram: whole
bucket: 2 s
sources:
  a: {csv: [a.csv, b.csv], schema: {at: timestamp, "odd name": int}, time: at, slack: 1 min}
  b: {push: true, schema: at timestamp}
operators:
  parts: {filter: a, where: {low: "`odd name` < 3", high: "on"}, rest: other}
  counted: {aggregate: parts.low, window: 10 tuples, compute: {n: count(*)}}
  timed: {aggregate: a, window: 1 min, slide: 30 s, by: [at], compute: {n: sum(1)}, scale: 2}
  pairs: {join: [a, b], within: 0 s, on: left.at = right.at}
  own: {spark: b, function: "mine.py:f"}
outputs: [pairs, pairs, a]
fragments:
  first: [parts, counted]
  second: [timed, pairs, own]
""",
        FILE,
    )
    source = diagram.sources[0]
    assert source == Source(
        name="a",
        kind="csv",
        schema=source.schema,
        time="at",
        slack_us=60_000_000,
        options={"path": ["a.csv", "b.csv"]},
    )
    assert str(source.schema) == "at timestamp, `odd name` int"
    parts, counted, timed, pairs, own = diagram.operators
    assert isinstance(parts, Filter)
    assert parts.outputs == ("parts.low", "parts.high", "parts.other")
    assert isinstance(counted, Aggregate)
    assert counted.window == CountWindow(10, 10)
    assert isinstance(timed, Aggregate)
    assert (timed.window, timed.scale) == (TimeWindow(60_000_000, 30_000_000), 2)
    assert isinstance(pairs, Join)
    assert pairs.select == ()
    assert isinstance(own, Spark)
    assert own.function == "mine.py:f"
    assert diagram.outputs == ("pairs", "a")
    assert diagram.bucket_us == 2_000_000
    assert diagram.cut == (("first", ("parts", "counted")), ("second", ("timed", "pairs", "own")))
    assert str(parts.place) == "my.yaml:8"


def test_names_that_yaml_takes_for_something_else_are_names() -> None:
    diagram = load(
        """
diagram: 007
sources:
  on: {push: true, schema: {yes: int}}
operators:
  no: {map: "on", select: {null: "yes", 1: 2026-01-01}}
""",
        FILE,
    )
    assert diagram.name == "007"
    assert diagram.results == ("no",)
    assert list(diagram.operators[0].expressions()) == ["yes", "2026-01-01"]


def test_anchors_may_be_used() -> None:
    diagram = load(
        """
diagram: d
sources:
  a: &source {push: true, schema: &schema a int}
  b: *source
  c: {push: true, schema: *schema}
operators:
  x: {union: [a, b, c]}
""",
        FILE,
    )
    assert {str(source.schema) for source in diagram.sources} == {"a int"}


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        ("sum(if(x = ')', 1, 0))", "if(x = ')', 1, 0)"),
        ("sum(if(x = '(', 1, 0))", "if(x = '(', 1, 0)"),
        ("sum(`a)b`)", "`a)b`"),
        ("sum(x /* :) */)", "x /* :) */"),
        ("sum(if(x = 'it\\'s (', 1, 0))", "if(x = 'it\\'s (', 1, 0)"),
    ],
)
def test_parentheses_inside_quotes_do_not_count(call: str, argument: str) -> None:
    text = f"{HEAD}  x:\n    aggregate: readings\n    window: 1 s\n    compute:\n      n: |-\n"
    operator = load(f"{text}        {call}\n", FILE).operators[0]
    assert list(operator.expressions()) == [argument]
