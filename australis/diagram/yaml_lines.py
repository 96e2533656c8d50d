"""YAML files with sections, in which everything knows the line it stands in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml

from australis.diagram.parts import PlaceOf, Settings
from australis.kernel.errors import Place, UserError

T = TypeVar("T")
Entries = Mapping[str, tuple[int, yaml.Node]]
"""Names, each with its line and what is written for it."""


@dataclass(frozen=True)
class Sections:
    """The sections of a file."""

    file: str
    nodes: Entries

    def __contains__(self, name: str) -> bool:
        return name in self.nodes

    @property
    def places(self) -> dict[str, Place]:
        """Where sections begin ("sinks"), and where the names in them stand ("sinks alerts")."""
        return {k: v for name in self.nodes for k, v in self._places(name).items()}

    def _places(self, name: str) -> dict[str, Place]:
        line, node = self.nodes[name]
        named = [key for key, _ in node.value] if isinstance(node, yaml.MappingNode) else node.value
        listed = [n for n in named if isinstance(n, yaml.ScalarNode)] if named else []
        return {name: Place(self.file, line)} | {
            f"{name} {entry.value}": Place(self.file, entry.start_mark.line + 1) for entry in listed
        }

    def word(self, name: str) -> str:
        """The section's text as it is written, whatever YAML takes it for."""
        return str(self.nodes[name][1].value)

    def value(self, name: str, default: T, make: Callable[[Any], T]) -> T:
        """What is made of the section as a whole."""
        if name not in self:
            return default
        line, node = self.nodes[name]
        return _made(node, self.file, line, name, make)

    def values(self, name: str, make: Callable[[Any], T]) -> dict[str, T]:
        """What is made of each entry of the section."""
        return {
            entry: _made(node, self.file, line, entry, make)
            for entry, (line, node) in self._entries(name).items()
        }

    def part(self, name: str, make: Callable[[str, Settings, PlaceOf], T]) -> T | None:
        """What is made of the section's settings."""
        return self._part(name, self.nodes[name], make) if name in self else None

    def parts(self, name: str, make: Callable[[str, Settings, PlaceOf], T]) -> tuple[T, ...]:
        """What is made of the settings of each entry of the section."""
        return tuple(self._part(part, node, make) for part, node in self._entries(name).items())

    def _part(
        self,
        name: str,
        written: tuple[int, yaml.Node],
        make: Callable[[str, Settings, PlaceOf], T],
    ) -> T:
        line, node = written
        entries = _entries(node, self.file, f"'{name}'")
        lines: dict[str | None, int] = {key: at for key, (at, _) in entries.items()}
        settings = {key: _plain(value, self.file) for key, (_, value) in entries.items()}
        return make(name, settings, lambda key: Place(self.file, lines.get(key, line)))

    def _entries(self, name: str) -> Entries:
        if name not in self:
            return {}
        line, node = self.nodes[name]
        found = _entries(node, self.file, f"the section '{name}'")
        if not found:
            raise UserError("is empty", name=name, place=Place(self.file, line))
        return found


def read_sections(
    text: str, file: str, what: str, known: Collection[str], needed: Collection[str]
) -> Sections:
    """The sections of a diagram, or `what` else this file is."""
    sections = _entries(_compose(text, file), file, "the file")
    for name, (line, _) in sections.items():
        if name not in known:
            raise UserError(
                f"is not a section of {what} (known: {', '.join(known)})",
                name=name,
                place=Place(file, line),
            )
    for name in needed:
        if name not in sections:
            raise UserError(f"has no section '{name}'", name=file, place=Place(file))
    return Sections(file, sections)


def read_settings(
    name: str,
    settings: Settings,
    place_of: PlaceOf,
    readers: Mapping[str, Callable[[Any], Any]],
    needed: Collection[str] = (),
) -> dict[str, Any]:
    """Every setting as its reader reads it."""
    for key in settings:
        if key not in readers:
            known = ", ".join(readers) or "none"
            raise UserError(
                f"has an unknown setting '{key}' (known: {known})", name=name, place=place_of(key)
            )
    for key in needed:
        if key not in settings:
            raise UserError(f"needs '{key}'", name=name, place=place_of(None))
    taken = {}
    for key, value in settings.items():
        try:
            taken[key] = readers[key](value)
        except UserError as error:
            sentence = f"has a setting '{key}' that {error.sentence}"
            raise UserError(sentence, name=name, place=place_of(key)) from None
    return taken


@contextmanager
def not_too_deep(file: str) -> Iterator[None]:
    """Tell of a file that is nested deeper than it can be read."""
    try:
        yield
    except RecursionError:
        raise UserError("the file is nested too deeply", place=Place(file)) from None


def _made(node: yaml.Node, file: str, line: int, name: str, make: Callable[[Any], T]) -> T:
    try:
        return make(_plain(node, file))
    except UserError as error:
        raise error.at(Place(file, line), name) from None


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
