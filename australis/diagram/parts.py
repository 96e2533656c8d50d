"""Builds parts from plain settings, and writes them back as such.

Settings are what a YAML file holds: strings, numbers, lists and mappings. The YAML reader and the
Python builder both use this module, so the two forms cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from australis.diagram.model import (
    ARRIVAL,
    DEFAULT_REJECTED_BYTES,
    Cut,
    Diagram,
    Operator,
    Sink,
    Source,
)
from australis.diagram.operators import OPERATORS
from australis.diagram.settings import (
    PlaceOf,
    Settings,
    Taker,
    format_size,
    read_duration,
    read_several,
    read_size,
    read_text,
    shown,
)
from australis.kernel.durations import format_duration
from australis.kernel.errors import UserError
from australis.kernel.names import MAX_NAME, listed
from australis.streams.schema import Schema, parse_schema

__all__ = [
    "GENERATED",
    "SINK_KINDS",
    "SOURCE_KINDS",
    "PlaceOf",
    "Settings",
    "cut_settings",
    "make_cut",
    "make_operator",
    "make_outputs",
    "make_sink",
    "make_source",
    "operator_settings",
    "sink_settings",
    "source_settings",
]

SOURCE_KINDS = {"csv": "path", "jsonl": "path", "parquet": "path"} | {
    "generate": "generator",
    "tcp": "address",
    "push": "",
}
"""The kinds of source, each with the option that takes the kind's own value."""
SINK_KINDS = {"jsonl": "path", "parquet": "path", "console": "", "callback": "call"}

MAX_AHEAD_US = 3_600_000_000
"""How far ahead of the clock rows from tcp or push may be dated, unless the source says."""
GENERATED: dict[str, tuple[Schema, str]] = {
    "connections": (
        parse_schema(
            "time timestamp, src string, dst string, port int, protocol string, bytes bigint"
        ),
        "time",
    )
}
"""The schema and the time column of each kind of generated rows."""


def _plain(value: Any) -> Any:
    """An option as YAML would hold it."""
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def _schema(value: Any) -> Schema:
    if isinstance(value, Schema):
        return value
    if isinstance(value, Mapping):
        value = ", ".join(f"`{k}` {v}" for k, v in value.items())
    return parse_schema(read_text(value))


# --- parts -------------------------------------------------------------------


def make_source(name: str, settings: Settings, place_of: PlaceOf) -> Source:
    """A source from its settings."""
    taker = Taker(name, settings, place_of)
    kind = taker.kind(SOURCE_KINDS, "source")
    value = taker.take(kind, _plain)
    option = SOURCE_KINDS[kind]
    options = {option: value} if option else {}
    schema, time = None, ARRIVAL
    if kind == "generate":
        if not isinstance(value, str) or value not in GENERATED:
            known = listed(GENERATED, str(value))
            raise taker.wrong(kind, f"cannot generate {shown(value)} (known: {known})")
        schema, time = GENERATED[value]
    else:
        schema = taker.take("schema", _schema)
        time = taker.take("time", read_text, ARRIVAL)
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
    slack = taker.take("slack", read_duration, 0)
    idle = taker.take("idle", read_duration, None)
    if idle is not None and (kind not in ("tcp", "push") or time == ARRIVAL):
        reason = (
            "is read as fast as it is to be" if kind not in ("tcp", "push") else "has no 'time'"
        )
        sentence = (
            f"has 'idle', which is for rows with times of their own from tcp or push; it {reason}"
        )
        raise taker.wrong("idle", sentence)
    if idle == 0:
        raise taker.wrong("idle", "has an 'idle' of 0 s, after which every row could be late")
    live = kind in ("tcp", "push") and time != ARRIVAL
    ahead = taker.take("max_ahead", read_duration, MAX_AHEAD_US if live else None)
    if ahead is not None and not live:
        sentence = "has 'max_ahead', which is for rows with times of their own from tcp or push"
        raise taker.wrong("max_ahead", sentence)
    rejected = taker.take("rejected", read_size, DEFAULT_REJECTED_BYTES)
    options |= _plain(taker.rest())
    return Source(
        name=name,
        kind=kind,
        schema=schema,
        time=time,
        slack_us=slack,
        idle_us=idle,
        max_ahead_us=ahead,
        rejected_bytes=rejected,
        options=options,
        place=taker.place,
    )


def make_sink(name: str, settings: Settings, place_of: PlaceOf) -> Sink:
    """A sink from its settings."""
    taker = Taker(name, settings, place_of)
    kind = taker.kind(SINK_KINDS, "sink")
    value = taker.take(kind, _plain)
    stream = taker.take("from", read_text)
    options = {SINK_KINDS[kind]: value} if SINK_KINDS[kind] else {}
    options |= _plain(taker.rest())
    return Sink(name=name, kind=kind, stream=stream, options=options, place=taker.place)


_TIMEOUT = (
    "would make the output depend on the clock of the node, so replicas would differ"
    " (thesis 5.8.1); boundaries close windows without it"
)


def make_operator(name: str, settings: Settings, place_of: PlaceOf) -> Operator:
    """An operator from its settings."""
    taker = Taker(name, settings, place_of)
    if "timeout" in settings:
        raise taker.wrong("timeout", f"has a timeout, which {_TIMEOUT}")
    if "slack" in settings:
        raise taker.wrong("slack", "has a slack; slack belongs to sources here")
    kind = taker.kind(OPERATORS, "operator")
    cls = OPERATORS[kind].written_as(settings)
    own = cls.known_settings()
    taker.refuse_unknown([kind, *(key for one in own for key in one.keys)], cls.also_known)
    values = {"inputs": taker.take(kind, cls.takes.read)}
    values |= {one.field: one.form.take(taker, one.key, one.default) for one in own}
    made = cls.made_of({"name": name, "place": taker.place, **values})
    made.verify(taker.wrong)
    return made


def make_outputs(value: Any) -> tuple[str, ...]:
    """The streams that are named as outputs."""
    return tuple(dict.fromkeys(read_several(value)))


def make_cut(value: Any, place_of: PlaceOf) -> Cut:
    """The cut of a diagram from its setting: a word, or names with operators."""
    if not isinstance(value, Mapping):
        return str(value)
    for fragment, operators in value.items():
        if len(str(fragment)) > MAX_NAME:
            raise UserError(
                f"is a name of more than {MAX_NAME} characters",
                name=str(fragment)[:20] + "…",
                place=place_of(str(fragment)),
            )
        if isinstance(operators, str | Mapping) or not isinstance(operators, Iterable):
            raise UserError(
                f"should be a list of operators, not {operators!r}",
                name=str(fragment),
                place=place_of(str(fragment)),
            )
    return tuple((str(name), tuple(map(str, operators))) for name, operators in value.items())


# --- writing parts -----------------------------------------------------------


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
    if source.idle_us is not None:
        settings["idle"] = format_duration(source.idle_us)
    if source.max_ahead_us not in (None, MAX_AHEAD_US):
        settings["max_ahead"] = format_duration(source.max_ahead_us)
    if source.rejected_bytes != DEFAULT_REJECTED_BYTES:
        settings["rejected"] = format_size(source.rejected_bytes)
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
    return operator.settings()
