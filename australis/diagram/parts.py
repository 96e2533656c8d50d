"""Builds parts from plain settings, and writes them back as such.

Settings are what a YAML file holds: strings, numbers, lists and mappings. The
YAML reader and the Python builder both come through here, so the two forms
cannot drift apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any

from australis.diagram.aggregates import parse_aggregate
from australis.diagram.model import (
    ARRIVAL,
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
from australis.kernel.durations import MILLISECOND, format_duration, parse_duration
from australis.kernel.errors import Place, UserError
from australis.streams.schema import Schema, parse_schema

Settings = Mapping[str, Any]
PlaceOf = Callable[[str | None], Place | None]
"""Where a setting stands (None: where the part begins)."""

SOURCE_KINDS = {"csv": "path", "jsonl": "path", "parquet": "path"} | {
    "generate": "generator",
    "tcp": "address",
    "push": "",
}
"""The kinds of source, each with the option that the kind's own value becomes."""
SINK_KINDS = {"jsonl": "path", "parquet": "path", "console": "", "callback": "call"}

GENERATED: dict[str, tuple[Schema, str]] = {
    "connections": (
        parse_schema(
            "time timestamp, src string, dst string, port int, protocol string, bytes bigint"
        ),
        "time",
    )
}
"""Schema and time column of what can be generated."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_COUNT_WINDOW = re.compile(r"\s*(\d+)\s*(?:tuples?|rows?)\s*", re.IGNORECASE)


class _Taker:
    """Takes settings one by one and complains about what is left."""

    def __init__(self, name: str, settings: Settings, place_of: PlaceOf) -> None:
        self.name = name
        self.place = place_of(None)
        self._settings = dict(settings)
        self._place_of = place_of
        if not _NAME.fullmatch(name):
            raise self.wrong(
                None, "is not a name: use letters, digits, _ and -, and begin with a letter"
            )

    def wrong(self, key: str | None, sentence: str) -> UserError:
        return UserError(sentence, name=self.name, place=self._place_of(key))

    def kind(self, kinds: Mapping[str, Any], what: str) -> str:
        found = [key for key in self._settings if key in kinds]
        if len(found) != 1:
            known = ", ".join(kinds)
            said = "does not say" if not found else f"says more than once ({', '.join(found)})"
            raise self.wrong(None, f"{said} which kind of {what} it is (one of: {known})")
        return found[0]

    def take(self, key: str, parse: Callable[[Any], Any], default: Any = ...) -> Any:
        if key not in self._settings:
            if default is ...:
                raise self.wrong(None, f"needs '{key}'")
            return default
        try:
            return parse(self._settings.pop(key))
        except UserError as error:
            raise UserError(
                f"has a setting '{key}' that {error.sentence}",
                name=self.name,
                place=self._place_of(key),
            ) from None

    def rest(self) -> dict[str, Any]:
        rest, self._settings = self._settings, {}
        return rest

    def finish(self, known: str) -> None:
        for key in self._settings:
            raise self.wrong(key, f"has an unknown setting '{key}' (known: {known})")


# --- values ------------------------------------------------------------------


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UserError(f"should be text, not {value!r}")
    return str(value)


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"should be a whole number, not {value!r}")
    return value


def _one(value: Any) -> tuple[str, ...]:
    if not isinstance(value, str):
        raise UserError(f"should name one stream, not {value!r}")
    return (value,)


def _several(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple) or not value:
        raise UserError(f"should be a list of streams, not {value!r}")
    return tuple(_text(v) for v in value)


def _plain(value: Any) -> Any:
    """An option as YAML would hold it, whatever Python gave."""
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def _named(value: Any) -> tuple[tuple[str, str], ...]:
    if isinstance(value, Mapping):
        pairs = [(_text(k), _text(v)) for k, v in value.items()]
    elif isinstance(value, list | tuple):
        pairs = [(_text(v), _text(v)) for v in value]
    else:
        raise UserError(f"should be columns (a list, or names with expressions), not {value!r}")
    if not pairs:
        raise UserError("is empty")
    return tuple(pairs)


def _columns(value: Any) -> tuple[tuple[str, str], ...]:
    pairs = _named(value)
    seen: set[str] = set()
    for name, _ in pairs:
        if name.startswith("_"):
            raise UserError(
                f"has a column named '{name}': names that begin with _ are the header's"
            )
        if name.lower() in seen:
            raise UserError(f"has two columns named '{name}'")
        seen.add(name.lower())
    return pairs


def _predicates(value: Any) -> tuple[tuple[str, str], ...]:
    if isinstance(value, Mapping):
        return tuple((_branch(branch), predicate) for branch, predicate in _named(value))
    return (("", _text(value)),)


def _branch(value: Any) -> str:
    if not re.fullmatch(r"\w+", _text(value)):
        raise UserError(f"has a branch '{value}', which is not a name")
    return str(value)


def _schema(value: Any) -> Schema:
    if isinstance(value, Schema):
        return value
    if isinstance(value, Mapping):
        value = ", ".join(f"`{k}` {v}" for k, v in value.items())
    return parse_schema(_text(value))


def _length(value: Any) -> tuple[type[TimeWindow | CountWindow], int]:
    """How long a window or its slide is, in microseconds or in tuples."""
    counted = _COUNT_WINDOW.fullmatch(str(value))
    length = int(counted[1]) if counted else parse_duration(value)
    if length < 1:
        raise UserError("should be longer than nothing")
    if not counted and length % MILLISECOND:
        raise UserError("should be whole milliseconds")
    return (CountWindow if counted else TimeWindow), length


def _window(t: _Taker) -> TimeWindow | CountWindow:
    kind, size = t.take("window", _length)
    slide_kind, slide = t.take("slide", _length, (kind, size))
    if slide_kind is not kind:
        raise t.wrong("slide", "has a window and a slide that must both be times or both tuples")
    if slide > size:
        raise t.wrong(
            "slide",
            "has a slide longer than its window, so that tuples between windows would be lost",
        )
    window: TimeWindow | CountWindow = kind(size, slide)
    return window


# --- parts -------------------------------------------------------------------


def make_source(name: str, settings: Settings, place_of: PlaceOf) -> Source:
    """A source from its settings."""
    taker = _Taker(name, settings, place_of)
    kind = taker.kind(SOURCE_KINDS, "source")
    value = taker.take(kind, _plain)
    option = SOURCE_KINDS[kind]
    options = {option: value} if option else {}
    schema, time = None, ARRIVAL
    if kind == "generate":
        if not isinstance(value, str) or value not in GENERATED:
            known = ", ".join(GENERATED)
            raise taker.wrong(kind, f"cannot generate {value!r} (known: {known})")
        schema, time = GENERATED[value]
    else:
        schema = taker.take("schema", _schema)
        time = taker.take("time", _text, ARRIVAL)
        if time == ARRIVAL and kind in ("csv", "jsonl", "parquet"):
            raise taker.wrong(None, "needs 'time': the column that sets the order of its tuples")
        if time != ARRIVAL and time not in schema.names:
            raise taker.wrong("time", f"has no column '{time}' to take its time from")
        if time != ARRIVAL:
            column = next(f for f in schema if f.name == time)
            if column.type not in ("timestamp", "bigint", "int", "double"):
                raise taker.wrong(
                    "time", f"takes its time from '{time}', which is {column.type}, not a time"
                )
    slack = taker.take("slack", parse_duration, 0)
    options |= _plain(taker.rest())
    return Source(
        name=name,
        kind=kind,
        schema=schema,
        time=time,
        slack_us=slack,
        options=options,
        place=taker.place,
    )


def make_sink(name: str, settings: Settings, place_of: PlaceOf) -> Sink:
    """A sink from its settings."""
    taker = _Taker(name, settings, place_of)
    kind = taker.kind(SINK_KINDS, "sink")
    value = taker.take(kind, _plain)
    stream = taker.take("from", _text)
    options = {SINK_KINDS[kind]: value} if SINK_KINDS[kind] else {}
    options |= _plain(taker.rest())
    return Sink(name=name, kind=kind, stream=stream, options=options, place=taker.place)


def _filter(t: _Taker, kind: str = "filter") -> Filter:
    inputs = t.take(kind, _one)
    where, rest = t.take("where", _predicates), t.take("rest", _branch, None)
    if rest is not None and where[0][0] == "":
        raise t.wrong("rest", "names a rest, so its predicates need names too")
    branches = [branch.lower() for branch in (*dict(where), rest) if branch is not None]
    for branch in branches:
        if branches.count(branch) > 1:
            raise t.wrong("where", f"has two branches named '{branch}'")
    t.finish(f"{kind}, where, rest")
    return Filter(name=t.name, inputs=inputs, where=where, rest=rest, place=t.place)


def _map(t: _Taker) -> Map:
    inputs, select = t.take("map", _one), t.take("select", _columns)
    t.finish("map, select")
    return Map(name=t.name, inputs=inputs, select=select, place=t.place)


def _union(t: _Taker) -> Union:
    inputs = t.take("union", _several)
    t.finish("union")
    return Union(name=t.name, inputs=inputs, place=t.place)


def _bsort(t: _Taker) -> BSort:
    inputs = t.take("bsort", _one)
    t.finish("bsort")
    return BSort(name=t.name, inputs=inputs, place=t.place)


def _aggregate(t: _Taker) -> Aggregate:
    inputs = t.take("aggregate", _one)
    window = _window(t)
    by = t.take("by", _columns, ())
    calls = t.take("compute", lambda v: tuple((n, parse_aggregate(e)) for n, e in _columns(v)))
    for name, _ in calls:
        if name.lower() in (group.lower() for group, _ in by):
            raise t.wrong("compute", f"computes '{name}', which is a column of 'by' already")
    scale = t.take("scale", _integer, 6)
    if not 0 <= scale <= 12:
        raise t.wrong("scale", "keeps 0 to 12 decimal places")
    t.finish("aggregate, window, slide, by, compute, scale")
    return Aggregate(
        name=t.name,
        inputs=inputs,
        window=window,
        by=by,
        compute=calls,
        scale=scale,
        place=t.place,
    )


def _join(t: _Taker) -> Join:
    inputs = t.take("join", _several)
    if len(inputs) != 2:
        raise t.wrong("join", f"joins {len(inputs)} streams; a join has two")
    within = t.take("within", parse_duration)
    on, select = t.take("on", _text), t.take("select", _columns, ())
    t.finish("join, within, on, select")
    return Join(name=t.name, inputs=inputs, within_us=within, on=on, select=select, place=t.place)


def _split(t: _Taker) -> Operator:
    if "where" in t._settings:
        return _filter(t, "split")
    inputs = t.take("split", _one)
    by = t.take("by", lambda v: tuple(e for _, e in _named(v)))
    into = t.take("into", _integer)
    if not 2 <= into <= 64:
        raise t.wrong("into", "splits into 2 to 64 streams")
    t.finish("split, by, into; or split, where, rest")
    return Split(name=t.name, inputs=inputs, by=by, into=into, place=t.place)


def _spark(t: _Taker) -> Spark:
    inputs = t.take("spark", lambda v: _one(v) if isinstance(v, str) else _several(v))
    function = t.take("function", lambda v: v)
    t.finish("spark, function")
    if callable(function):
        named = f"{function.__module__}:{function.__qualname__}"
        return Spark(name=t.name, inputs=inputs, function=named, call=function, place=t.place)
    if not isinstance(function, str) or ":" not in function:
        raise t.wrong("function", "needs a function as 'module:name' or 'file.py:name'")
    return Spark(name=t.name, inputs=inputs, function=function, place=t.place)


OPERATORS: dict[str, Callable[[_Taker], Operator]] = {
    "filter": _filter,
    "map": _map,
    "union": _union,
    "bsort": _bsort,
    "aggregate": _aggregate,
    "join": _join,
    "split": _split,
    "spark": _spark,
}

_TIMEOUT = (
    "would make the output depend on the clock of the node, so replicas would differ"
    " (thesis 5.8.1); boundaries close windows without it"
)


def make_operator(name: str, settings: Settings, place_of: PlaceOf) -> Operator:
    """An operator from its settings."""
    taker = _Taker(name, settings, place_of)
    if "timeout" in settings:
        raise taker.wrong("timeout", f"has a timeout, which {_TIMEOUT}")
    if "slack" in settings:
        raise taker.wrong("slack", "has a slack; slack belongs to sources here")
    return OPERATORS[taker.kind(OPERATORS, "operator")](taker)


def make_outputs(value: Any) -> tuple[str, ...]:
    """The streams that are named as outputs."""
    return tuple(dict.fromkeys(_several(value)))


def make_cut(value: Any, place_of: PlaceOf) -> Cut:
    """How a diagram is to be cut: a word, or names with operators."""
    if not isinstance(value, Mapping):
        return str(value)
    for fragment, operators in value.items():
        if isinstance(operators, str | Mapping) or not isinstance(operators, Iterable):
            raise UserError(
                f"should be a list of operators, not {operators!r}",
                name=str(fragment),
                place=place_of(str(fragment)),
            )
    return tuple((str(name), tuple(map(str, operators))) for name, operators in value.items())


# --- and back ----------------------------------------------------------------


def cut_settings(diagram: Diagram) -> str | dict[str, list[str]]:
    """The setting that cuts a diagram like this."""
    if isinstance(diagram.cut, str):
        return diagram.cut
    return {name: list(operators) for name, operators in diagram.cut}


def source_settings(source: Source) -> dict[str, Any]:
    """The settings that make this source."""
    option = SOURCE_KINDS[source.kind]
    options = dict(source.options)
    settings: dict[str, Any] = {source.kind: options.pop(option) if option else True}
    if source.kind != "generate":
        settings["schema"] = str(source.schema)
        if source.time != ARRIVAL:
            settings["time"] = source.time
    if source.slack_us:
        settings["slack"] = format_duration(source.slack_us)
    return settings | options


def sink_settings(sink: Sink) -> dict[str, Any]:
    """The settings that make this sink."""
    option = SINK_KINDS[sink.kind]
    options = dict(sink.options)
    value = options.pop(option) if option else True
    if callable(value):
        raise UserError(
            "calls a Python function, which cannot be written down",
            name=sink.name,
            place=sink.place,
        )
    return {"from": sink.stream, sink.kind: value} | options


def operator_settings(operator: Operator) -> dict[str, Any]:
    """The settings that make this operator."""
    inputs: Any = list(operator.inputs)
    if not isinstance(operator, Union | Join) and len(inputs) == 1:
        inputs = inputs[0]
    return {operator.kind: inputs} | _own_settings(operator)


def _own_settings(operator: Operator) -> dict[str, Any]:
    match operator:
        case Filter():
            plain = operator.where[0][0] == ""
            where = operator.where[0][1] if plain else dict(operator.where)
            return {"where": where} | ({} if operator.rest is None else {"rest": operator.rest})
        case Map():
            return {"select": dict(operator.select)}
        case Aggregate():
            return _aggregate_settings(operator)
        case Join():
            select = {"select": dict(operator.select)} if operator.select else {}
            return {"within": format_duration(operator.within_us), "on": operator.on} | select
        case Split():
            return {"by": list(operator.by), "into": operator.into}
        case Spark():
            return {"function": operator.function}
        case _:
            return {}


def _aggregate_settings(operator: Aggregate) -> dict[str, Any]:
    window = operator.window
    if isinstance(window, TimeWindow):
        size, slide = format_duration(window.size_us), format_duration(window.slide_us)
    else:
        size, slide = f"{window.size} tuples", f"{window.slide} tuples"
    settings: dict[str, Any] = {"window": size}
    if slide != size:
        settings["slide"] = slide
    if operator.by:
        plain = all(name == expression for name, expression in operator.by)
        settings["by"] = [n for n, _ in operator.by] if plain else dict(operator.by)
    settings["compute"] = {name: str(call) for name, call in operator.compute}
    if operator.scale != 6:
        settings["scale"] = operator.scale
    return settings
