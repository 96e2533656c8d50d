"""Diagrams as YAML, in both directions.

Every mistake is told with the file and line where it stands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml

from australis.diagram.check import check
from australis.diagram.model import Cut, Diagram
from australis.diagram.parts import (
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
from australis.diagram.yaml_lines import not_too_deep, read_sections
from australis.kernel.durations import format_duration, parse_duration
from australis.kernel.errors import Place
from australis.streams.buckets import DEFAULT_BUCKET_US

_SECTIONS = ("diagram", "bucket", "sources", "operators", "outputs", "sinks", "fragments")
_NEEDED = ("diagram", "sources", "operators")


def load(text: str, file: str) -> Diagram:
    """Read a diagram and check what can be checked without Spark."""
    with not_too_deep(file):
        diagram = _read(text, file)
    check(diagram)
    # The Python form can name a stream only after its operator, so that order is the diagram's.
    return replace(diagram, operators=diagram.in_order)


def _read(text: str, file: str) -> Diagram:
    sections = read_sections(text, file, "a diagram", _SECTIONS, _NEEDED)
    places = sections.places

    def fragment_place(fragment: str | None) -> Place | None:
        return places.get(f"fragments {fragment}")

    uncut: Cut = "none"
    return Diagram(
        name=sections.word("diagram"),
        sources=sections.parts("sources", make_source),
        operators=sections.parts("operators", make_operator),
        sinks=sections.parts("sinks", make_sink),
        outputs=sections.value("outputs", (), make_outputs),
        bucket_us=sections.value("bucket", DEFAULT_BUCKET_US, parse_duration),
        cut=sections.value("fragments", uncut, lambda v: make_cut(v, fragment_place)),
        place=Place(file),
        places=places,
    )


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
