"""Diagrams as YAML, in both directions.

Every mistake is told with the file and line where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import yaml

from australis.diagram.check import check
from australis.diagram.model import Cut, Diagram
from australis.diagram.parts import (
    PlaceOf,
    Settings,
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
from australis.kernel.durations import format_duration, parse_duration
from australis.kernel.errors import Place, UserError
from australis.streams.buckets import DEFAULT_BUCKET_US

T = TypeVar("T")
Sections = Mapping[str, tuple[int, yaml.Node]]
"""The sections of a file, each with its line."""
_SECTIONS = ("diagram", "bucket", "sources", "operators", "outputs", "sinks", "fragments")


def load(text: str, file: str) -> Diagram:
    """Read a diagram and check what can be checked without Spark."""
    try:
        diagram = _read(text, file)
    except RecursionError:
        raise UserError("the file is nested too deeply", place=Place(file)) from None
    check(diagram)
    # The Python form can name a stream only after its operator, so that order is the diagram's.
    return replace(diagram, operators=diagram.in_order)


def _read(text: str, file: str) -> Diagram:
    root = _compose(text, file)
    sections = _entries(root, file, "the file")
    for name, (line, _) in sections.items():
        if name not in _SECTIONS:
            known = ", ".join(_SECTIONS)
            raise UserError(
                f"is not a section of a diagram (known: {known})",
                name=name,
                place=Place(file, line),
            )
    for needed in ("diagram", "sources", "operators"):
        if needed not in sections:
            raise UserError(f"has no section '{needed}'", name=file, place=Place(file))

    places = {k: v for name in sections for k, v in _places(name, sections[name], file).items()}

    def section(name: str, default: T, make: Callable[[Any], T]) -> T:
        if name not in sections:
            return default
        try:
            return make(_plain(sections[name][1], file))
        except UserError as error:
            raise error.at(places[name], name) from None

    def fragment_place(fragment: str | None) -> Place | None:
        return places.get(f"fragments {fragment}")

    uncut: Cut = "none"
    return Diagram(
        name=str(sections["diagram"][1].value),
        sources=_parts(sections, "sources", file, make_source),
        operators=_parts(sections, "operators", file, make_operator),
        sinks=_parts(sections, "sinks", file, make_sink),
        outputs=section("outputs", (), make_outputs),
        bucket_us=section("bucket", DEFAULT_BUCKET_US, parse_duration),
        cut=section("fragments", uncut, lambda v: make_cut(v, fragment_place)),
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


def _places(name: str, section: tuple[int, yaml.Node], file: str) -> dict[str, Place]:
    """Where a section begins, and where the names in it stand."""
    line, node = section
    named = [key for key, _ in node.value] if isinstance(node, yaml.MappingNode) else node.value
    entries = [n for n in named if isinstance(n, yaml.ScalarNode)] if named else []
    return {name: Place(file, line)} | {
        f"{name} {entry.value}": Place(file, entry.start_mark.line + 1) for entry in entries
    }


def _parts(
    sections: Sections,
    name: str,
    file: str,
    make: Callable[[str, Settings, PlaceOf], T],
) -> tuple[T, ...]:
    if name not in sections:
        return ()
    line, node = sections[name]
    made = []
    for part, (part_line, part_node) in _entries(node, file, f"the section '{name}'").items():
        entries = _entries(part_node, file, f"'{part}'")
        lines: dict[str | None, int] = {key: at for key, (at, _) in entries.items()}

        def place_of(
            key: str | None, lines: dict[str | None, int] = lines, line: int = part_line
        ) -> Place:
            return Place(file, lines.get(key, line))

        settings = {key: _plain(value, file) for key, (_, value) in entries.items()}
        made.append(make(part, settings, place_of))
    if not made:
        raise UserError("is empty", name=name, place=Place(file, line))
    return tuple(made)


def _compose(text: str, file: str) -> yaml.Node:
    try:
        root: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        said = ", ".join(filter(None, (error.context, error.problem)))
        raise UserError(f"not YAML: {said}", place=Place(file, line)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UserError(
            f"not YAML: a character that it forbids (number {error.character})",
            place=Place(file, line),
        ) from None
    if root is None:
        raise UserError("the file is empty", place=Place(file))
    return root


def _entries(node: yaml.Node, file: str, what: str) -> dict[str, tuple[int, yaml.Node]]:
    if not isinstance(node, yaml.MappingNode):
        raise UserError(
            f"{what} should be names with settings", place=Place(file, node.start_mark.line + 1)
        )
    entries: dict[str, tuple[int, yaml.Node]] = {}
    for key, value in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise UserError(f"{what} has a key that is not a name", place=Place(file, line))
        if name in entries:
            raise UserError(
                f"is defined twice (first in line {entries[name][0]})",
                name=name,
                place=Place(file, line),
            )
        entries[name] = (line, value)
    return entries


def _plain(node: yaml.Node, file: str) -> Any:
    """The node's value; times stay text, since only our own parsers read them."""
    if isinstance(node, yaml.MappingNode):
        return {k: _plain(v, file) for k, (_, v) in _entries(node, file, "this").items()}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, file) for item in node.value]
    if node.tag == "tag:yaml.org,2002:timestamp":
        return node.value
    try:
        return yaml.SafeLoader("").construct_object(node)
    except (yaml.YAMLError, ValueError) as error:
        said = error.problem if isinstance(error, yaml.MarkedYAMLError) else error
        raise UserError(
            f"cannot be read: {said}", place=Place(file, node.start_mark.line + 1)
        ) from None
