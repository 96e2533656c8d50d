"""Diagrams as YAML, in both directions.

Every mistake is told with the file and line where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import yaml

from australis.diagram.check import check
from australis.diagram.model import Diagram
from australis.diagram.parts import (
    PlaceOf,
    Settings,
    cut_settings,
    make_operator,
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
_SECTIONS = ("diagram", "bucket", "sources", "operators", "outputs", "sinks", "fragments")


def load(text: str, file: str) -> Diagram:
    """Read a diagram and check what can be checked without Spark."""
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

    def section(name: str, default: Any) -> Any:
        return _plain(sections[name][1], file) if name in sections else default

    diagram = Diagram(
        name=str(section("diagram", "")),
        sources=_parts(sections, "sources", file, make_source),
        operators=_parts(sections, "operators", file, make_operator),
        sinks=_parts(sections, "sinks", file, make_sink),
        outputs=tuple(section("outputs", ())),
        bucket_us=_bucket(sections, section, file),
        cut=_cut(section("fragments", "none")),
        place=Place(file),
    )
    check(diagram)
    return diagram


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
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)


def _bucket(
    sections: Mapping[str, tuple[int, yaml.Node]], section: Callable[[str, Any], Any], file: str
) -> int:
    if "bucket" not in sections:
        return DEFAULT_BUCKET_US
    try:
        return parse_duration(section("bucket", None))
    except UserError as error:
        raise error.at(Place(file, sections["bucket"][0]), "bucket") from None


def _cut(value: Any) -> str | tuple[tuple[str, tuple[str, ...]], ...]:
    if isinstance(value, Mapping):
        return tuple((str(name), tuple(operators)) for name, operators in value.items())
    return str(value)


def _parts(
    sections: Mapping[str, tuple[int, yaml.Node]],
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
        raise UserError(f"not YAML: {error.problem}", place=Place(file, line)) from None
    except yaml.YAMLError as error:
        raise UserError(f"not YAML: {error}", place=Place(file)) from None
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
        raise UserError(
            f"cannot be read: {error}", place=Place(file, node.start_mark.line + 1)
        ) from None
