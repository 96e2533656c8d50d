"""A YAML text as plain data that knows the place of each of its parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import yaml

from australis.kernel.errors import Place, UserError

MAX_DEPTH = 50
MAX_CHARACTERS = 2_000_000
MAX_REPEATED = 10_000
"""The largest number of parts that aliases repeat, those within them included."""
QUOTE = "a value with a comma needs quotes, as in {where: 'a > 1, b < 2'}"

Path = tuple[str | int, ...]
"""The way to a part of a document: keys of mappings and indices of lists."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a part begins (its key, if it has one), counted from 1, and its text."""

    line: int
    column: int
    text: str | None
    """The text of a scalar; None for a mapping or a list."""
    alone: bool = False
    """Whether it is the empty value of a key without a colon, as `b` is in {a: 1, b}."""


@dataclass(frozen=True)
class Document:
    """Plain data, and the mark of each part; keys and times are texts."""

    origin: Place
    """Its file, and the line in which an embedded document begins."""
    data: Any
    marks: Mapping[Path, Mark] = field(repr=False)

    def place(self, *path: str | int) -> Place:
        """The place of a part, or of the innermost part around it if it is missing."""
        while path and path not in self.marks:
            path = path[:-1]
        return Place(self.origin.file, self.marks[path].line) if path else self.origin

    @property
    def places(self) -> dict[str, Place]:
        """The places of sections ("sinks"), and of their entries ("sinks alerts")."""
        named: dict[str, Place] = {}
        for path, mark in self.marks.items():
            if 1 <= len(path) <= 2:
                entry = mark.text if isinstance(path[-1], int) else path[-1]
                named.setdefault(
                    f"{path[0]} {entry}" if path[1:] else str(entry), self.place(*path)
                )
        return named

    def word(self, *path: str | int) -> str:
        """The text of a scalar, whatever type YAML gives it."""
        text = self.marks[path].text
        if text is None:
            raise UserError("should be a name", name=str(path[-1]), place=self.place(*path))
        return text

    def within(self, *path: str | int) -> Document:
        """A part as a document of its own, in the same file."""
        data = self.data
        for key in path:
            data = data[key]
        depth = len(path)
        marks = {way[depth:]: mark for way, mark in self.marks.items() if way[:depth] == path}
        return Document(self.place(*path), data, marks)

    @contextmanager
    def blaming(self, *path: str | int, name: str | None = None) -> Iterator[None]:
        """Add the place of this part to the mistakes raised inside."""
        try:
            yield
        except UserError as error:
            raise error.at(self.place(*path), name) from None

    @contextmanager
    def blaming_named(self, *sections: str) -> Iterator[None]:
        """Add to a mistake the place of the section that lists the name in question; without one,
        the last of these sections.
        """
        try:
            yield
        except UserError as error:
            ways = [(section, str(error.name)) for section in sections]
            found = next((way for way in ways if way in self.marks), sections[-1:])
            raise error.at(self.place(*found)) from None


def parse(text: str, file: str) -> Document:
    """Parse the single document in a YAML text."""
    text = text.removeprefix("\ufeff")
    if len(text) > MAX_CHARACTERS:
        raise UserError(f"the file has more than {MAX_CHARACTERS:,} characters", place=Place(file))
    root = _compose(text, file)
    reader = _Reader(text, file)
    data = reader.data(root, (), root)
    return Document(Place(file), data, reader.marks)


# --- syntax --------------------------------------------------------------------


def _compose(text: str, file: str) -> yaml.Node:
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        said = f"not YAML: a character that it forbids (number {error.character})"
        line = text.count("\n", 0, error.position) + 1
        raise UserError(said, place=Place(file, line)) from None
    try:
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, file) from None
    except (ValueError, OverflowError, RecursionError) as error:
        deep = "the file is nested too deeply"
        said = deep if isinstance(error, RecursionError) else "not YAML: an impossible character"
        raise UserError(said, place=Place(file, loader.get_mark().line + 1)) from None
    if root is None:
        raise UserError("the file is empty", place=Place(file))
    return root


def _syntax_error(error: yaml.MarkedYAMLError, file: str) -> UserError:
    mark, begun = error.problem_mark or error.context_mark, error.context_mark
    place = Place(file, mark.line + 1 if mark else None)
    said = error.problem or "cannot be parsed"
    if "\\t" in said:
        return UserError("not YAML: a tab, where YAML indents with spaces", place=place)
    if error.context and begun and mark and begun.line != mark.line:
        said += f" ({error.context}, begun in line {begun.line + 1})"
    elif error.context:
        said += f" ({error.context})"
    if "expected ',' or" in said:
        said += "; a text with [ ] { } , : or # in it needs quotes"
    return UserError(f"not YAML: {said}", place=place)


# --- data ----------------------------------------------------------------------

_YAML = "tag:yaml.org,2002:"
_TEXTS = {f"{_YAML}{tag}" for tag in ("str", "timestamp", "value", "merge")}
"""YAML types whose values stay texts, since our own parsers read them."""
_SCALARS = {f"{_YAML}{tag}" for tag in ("null", "bool", "int", "float")}
_WORD = re.compile(r"[\w.@/-]+")


class _Reader:
    """Converts nodes to plain data, and marks the place of each."""

    def __init__(self, text: str, file: str) -> None:
        self.marks: dict[Path, Mark] = {}
        self._text = text
        self._file = file
        self._scalars = yaml.constructor.SafeConstructor()
        self._seen: set[int] = set()
        self._repeated = 0

    def data(self, node: yaml.Node, path: Path, key: yaml.Node, *, alone: bool = False) -> Any:
        """The plain data of a node whose place is that of its key."""
        text = node.value if isinstance(node, yaml.ScalarNode) else None
        at = key.start_mark
        self.marks[path] = Mark(at.line + 1, at.column + 1, text, alone)
        self._repeated += id(node) in self._seen
        self._seen.add(id(node))
        if self._repeated > MAX_REPEATED:
            said = f"the file has aliases that repeat more than {MAX_REPEATED:,} parts"
            raise self._wrong(key, said)
        if len(path) > MAX_DEPTH:
            raise self._wrong(key, "the file is nested too deeply")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_YAML}map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_YAML}seq":
            return [self.data(item, (*path, i), item) for i, item in enumerate(node.value)]
        raise self._unknown_tag(node)

    def _wrong(self, node: yaml.Node, sentence: str, name: str | None = None) -> UserError:
        return UserError(sentence, name=name, place=Place(self._file, node.start_mark.line + 1))

    def _unknown_tag(self, node: yaml.Node) -> UserError:
        return self._wrong(node, f"a part of the file cannot be read: unknown tag {node.tag!r}")

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        if any("\ud800" <= character <= "\udfff" for character in node.value):
            raise self._wrong(node, "the file has an escape that is half a character")
        if node.tag in _TEXTS:
            return node.value
        if node.tag not in _SCALARS:
            raise self._unknown_tag(node)
        try:
            return self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError, LookupError):
            raise self._wrong(
                node, f"a part of the file cannot be read: {node.value[:40]!r}"
            ) from None

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self._wrong(key, "the file has a key that is not a name")
            self._scalar(key)
            name, alone = key.value, bool(node.flow_style) and self._alone(key, value)
            if alone and not _WORD.fullmatch(name):
                raise self._wrong(key, f"has no value: {QUOTE}", name)
            if name in found:
                first = self.marks[*path, name].line
                raise self._wrong(key, f"is defined twice (first in line {first})", name)
            found[name] = self.data(value, (*path, name), key, alone=alone)
        return found

    def _alone(self, key: yaml.Node, value: yaml.Node) -> bool:
        """Whether a key has neither a value nor a colon."""
        begin, end = value.start_mark.index, value.end_mark.index
        return begin == end and ":" not in self._text[key.end_mark.index : begin]
