"""Diagrams as YAML, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import yaml
from msgspec import UNSET, field

from australis.diagram.check import check
from australis.diagram.model import Cut, Diagram
from australis.diagram.parts import (
    SINK_KINDS,
    SOURCE_KINDS,
    PlaceOf,
    cut_settings,
    make_cut,
    make_operator,
    make_outputs,
    make_sink,
    make_source,
    operator_settings,
    sink_settings,
    source_settings,
)
from australis.kernel.durations import format_duration
from australis.kernel.errors import Place, UserError
from australis.streams.buckets import DEFAULT_BUCKET_US
from australis.yamlfile.document import QUOTE, Document, parse
from australis.yamlfile.schema import Section, Settings, read
from australis.yamlfile.values import Duration

T = TypeVar("T")
Part = dict[str, Any]
"""The settings of a part, which its kind reads (`parts`)."""


class DiagramFile(Settings, frozen=True, kw_only=True):
    """The sections of a diagram file."""

    diagram: Any
    bucket: Duration = Duration(DEFAULT_BUCKET_US)
    sources: Section[Part]
    operators: Section[Part]
    outputs: Any = UNSET
    sinks: Section[Part] = field(default_factory=dict)
    fragments: Any = "none"


def load(text: str, file: str) -> Diagram:
    """Read a diagram and check what can be checked without Spark."""
    return load_document(parse(text, file))


def load_document(document: Document) -> Diagram:
    """Read a diagram from a document, which may be a part of another file."""
    said = read(document, DiagramFile, "a diagram")
    diagram = Diagram(
        name=document.word("diagram"),
        sources=_made(document, "sources", said.sources, make_source),
        operators=_made(document, "operators", said.operators, make_operator),
        sinks=_made(document, "sinks", said.sinks, make_sink),
        outputs=_outputs(document, said),
        bucket_us=said.bucket.us,
        cut=_cut(document, said),
        place=document.origin,
        places=document.places,
    )
    check(diagram)
    # The Python form can name a stream only after its operator, so that order is the diagram's.
    return replace(diagram, operators=diagram.in_order)


def _made(
    document: Document,
    section: str,
    parts: dict[str, Part],
    make: Callable[[str, Part, PlaceOf], T],
) -> tuple[T, ...]:
    """The parts made of the settings in a section."""

    def made(name: str, settings: Part) -> T:
        def place(key: str | None) -> Place:
            return document.place(section, name, *filter(None, [key]))

        others = [key for key in settings if key not in SOURCE_KINDS and key not in SINK_KINDS]
        alone = next((key for key in others if document.marks[section, name, key].alone), None)
        try:
            part = make(name, settings, place)
        except UserError as error:
            if alone is None:
                raise
            raise UserError(
                f"{error.sentence}; {QUOTE}", name=error.name, place=error.place
            ) from None
        if alone is not None:  # an option, which is read later
            raise UserError(
                f"has an option '{alone}' without a value; {QUOTE}", name=name, place=place(alone)
            )
        return part

    return tuple(made(name, settings) for name, settings in parts.items())


def _outputs(document: Document, said: DiagramFile) -> tuple[str, ...]:
    with document.blaming("outputs", name="outputs"):
        return () if said.outputs is UNSET else make_outputs(said.outputs)


def _cut(document: Document, said: DiagramFile) -> Cut:
    with document.blaming("fragments", name="fragments"):
        return make_cut(said.fragments, lambda fragment: document.place("fragments", str(fragment)))


def dump(diagram: Diagram) -> str:
    """Write a diagram so that `load` gives an equal one."""
    data: dict[str, Any] = {"diagram": diagram.name}
    if diagram.bucket_us != DEFAULT_BUCKET_US:
        data["bucket"] = format_duration(diagram.bucket_us)
    data["sources"] = {s.name: source_settings(s) for s in diagram.sources}
    data["operators"] = {o.name: operator_settings(o) for o in diagram.operators}
    if diagram.outputs:
        data["outputs"] = list(diagram.outputs)
    if diagram.sinks:
        data["sinks"] = {s.name: sink_settings(s) for s in diagram.sinks}
    if diagram.cut != "none":
        data["fragments"] = cut_settings(diagram)
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


class _Dumper(yaml.SafeDumper):
    """Escapes the line breaks that PyYAML would otherwise fold into spaces."""


def _text_node(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if any(c in text for c in "\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text_node)
