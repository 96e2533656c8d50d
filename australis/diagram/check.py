"""Finds the mistakes in a diagram that can be found without Spark."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from australis.diagram.expressions import fault
from australis.diagram.model import Diagram, Operator, Part, Sink, Source
from australis.diagram.parts import SINK_KINDS, SOURCE_KINDS
from australis.kernel.errors import UserError
from australis.kernel.names import MAX_NAME, meant, nearest

__all__ = ["check", "nearest"]


def check(diagram: Diagram) -> None:
    """Raise a `UserError` for the first mistake."""
    if not re.fullmatch(rf"[A-Za-z0-9_-]{{1,{MAX_NAME}}}", diagram.name):
        raise UserError(
            f"is not a name for a diagram: use up to {MAX_NAME} letters, digits, _ and -",
            name=diagram.name,
            place=diagram.place_of("diagram"),
        )
    try:
        _ = diagram.buckets
    except UserError as error:
        raise error.at(diagram.place_of("bucket"), "bucket") from None
    _not_empty(diagram)
    _unique_names(diagram)
    _known_streams(diagram)
    _no_cycle(diagram)
    for operator in diagram.operators:
        _sound_expressions(operator)
    _cut_by_hand(diagram)
    _own_paths(diagram)


def _wrong(part: Part, sentence: str) -> UserError:
    return UserError(sentence, name=part.name, place=part.place)


def _not_empty(diagram: Diagram) -> None:
    for section, parts in (("sources", diagram.sources), ("operators", diagram.operators)):
        if not parts:
            raise UserError(
                f"has no {section}: a diagram needs at least one source and one operator",
                name=diagram.name,
                place=diagram.place_of(section),
            )


def _unique_names(diagram: Diagram) -> None:
    seen: dict[str, str] = {}
    for part in (*diagram.sources, *diagram.operators):
        if part.name.lower() in seen:
            holder = seen[part.name.lower()]
            raise _wrong(part, f"has a name that is taken: {holder} has it already")
        seen[part.name.lower()] = "an operator" if isinstance(part, Operator) else "a source"
    sinks: set[str] = set()
    for sink in diagram.sinks:
        if sink.name.lower() in sinks:
            raise _wrong(sink, "has a name that is taken: a sink has it already")
        sinks.add(sink.name.lower())


def _known_streams(diagram: Diagram) -> None:
    for operator in diagram.operators:
        for stream in operator.inputs:
            if stream not in diagram.producers:
                raise _wrong(
                    operator, f"reads the unknown stream '{stream}'{_hint(stream, diagram)}"
                )
    for sink in diagram.sinks:
        if sink.stream not in diagram.producers:
            raise _wrong(
                sink, f"reads the unknown stream '{sink.stream}'{_hint(sink.stream, diagram)}"
            )
    for stream in diagram.outputs:
        if stream not in diagram.producers:
            raise UserError(
                f"is named as an output but is unknown{_hint(stream, diagram)}",
                name=stream,
                place=diagram.place_of("outputs", stream),
            )


def _hint(stream: str, diagram: Diagram) -> str:
    branches = [known for known in diagram.producers if known.startswith(f"{stream}.")]
    if branches:
        return f" (it has branches: {', '.join(branches)})"
    return meant(stream, diagram.producers)


def _no_cycle(diagram: Diagram) -> None:
    state: dict[str, int] = {}

    def visit(operator: Operator, path: tuple[str, ...]) -> None:
        if state.get(operator.name) == 2:
            return
        if operator.name in path:
            loop = " -> ".join([operator.name, *reversed(path[path.index(operator.name) :])])
            raise _wrong(operator, f"is part of a cycle: {loop}")
        for stream in operator.inputs:
            producer = diagram.producers[stream]
            if isinstance(producer, Operator):
                visit(producer, (*path, operator.name))
        state[operator.name] = 2

    for operator in diagram.operators:
        visit(operator, ())


def _sound_expressions(operator: Operator) -> None:
    for expression in operator.expressions():
        found = fault(expression)
        if found is not None:
            raise _wrong(operator, found)


def _cut_by_hand(diagram: Diagram) -> None:
    if isinstance(diagram.cut, str):
        if diagram.cut not in ("none", "fan-out"):
            raise UserError(
                f"should be 'none', 'fan-out', or names with operators, not {diagram.cut!r}",
                name="fragments",
                place=diagram.place_of("fragments"),
            )
        return
    names = {operator.name for operator in diagram.operators}
    seen: dict[str, str] = {}
    for fragment, members in diagram.cut:
        for name in members:
            if name not in names:
                raise UserError(
                    f"names an unknown operator '{name}'{meant(name, names)}",
                    name=fragment,
                    place=diagram.place_of("fragments", fragment),
                )
            if name in seen:
                raise UserError(
                    f"holds '{name}', which is in '{seen[name]}' already",
                    name=fragment,
                    place=diagram.place_of("fragments", fragment),
                )
            seen[name] = fragment
    for operator in diagram.operators:
        if operator.name not in seen:
            raise _wrong(operator, "is in no fragment, though fragments are given by hand")


def _own_paths(diagram: Diagram) -> None:
    """Refuse a sink that would write where another part reads or writes.

    Only the paths as written are compared; that links and folders do not lead two paths to one file
    is checked where the diagram runs.
    """
    taken = {p: f"'{source.name}' reads" for source in diagram.sources for p in _paths(source)}
    for sink in diagram.sinks:
        for path in _paths(sink):
            if path in taken:
                raise _wrong(sink, f"would write to {path}, which {taken[path]}")
            taken[path] = f"'{sink.name}' writes"


def _paths(part: Source | Sink) -> Iterator[str]:
    kinds = SOURCE_KINDS if isinstance(part, Source) else SINK_KINDS
    if kinds.get(part.kind) == "path":
        given = part.options.get("path")
        for path in given if isinstance(given, list | tuple) else [given]:
            if isinstance(path, str):
                yield posixpath.normpath(path)
