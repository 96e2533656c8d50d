"""Stream schemas: Spark SQL types on the outside, Arrow types on the inside.

Every stream carries three header columns before its attributes:

- `_type`: what kind of tuple this is (`TupleType`),
- `_id`: bucket and rank (`kernel.ids`), growing along the stream,
- `_stime`: the processing order, in microseconds since 1970 UTC.

>>> schema = parse_schema("src string, port int, place struct<lat: double, lon: double>")
>>> schema.names
('src', 'port', 'place')
>>> str(schema)
'src string, port int, place struct<lat: double, lon: double>'
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import pyarrow as pa

from australis.kernel.errors import UserError


class TupleType(IntEnum):
    """The kinds of tuple on a stream (thesis table 4.1)."""

    INSERTION = 0
    TENTATIVE = 1
    BOUNDARY = 2
    TENTATIVE_BOUNDARY = 3
    UNDO = 4
    REC_DONE = 5


TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADER = (pa.field("_type", pa.int8()), pa.field("_id", pa.int64()), pa.field("_stime", TIMESTAMP))
HEADER_NAMES = tuple(field.name for field in HEADER)

_SCALARS: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
_ALIASES = {
    "bool": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
}
MAX_DEPTH = 20
"""How deep structs may be nested."""
_TOKEN = re.compile(r"\s*(`[^`]+`|\w+|[<>(),:])")


@dataclass(frozen=True)
class Field:
    """One attribute: its name and its Spark SQL type."""

    name: str
    type: str

    @cached_property
    def arrow(self) -> pa.DataType:
        """The Arrow type that holds this attribute."""
        return parse_type(self.type)


@dataclass(frozen=True)
class Schema:
    """The attributes of a stream, in order."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for field in self.fields:
            if field.name.lower() in seen:
                raise UserError(f"has two columns named '{field.name}'")
            if field.name.startswith("_"):
                raise UserError(
                    f"has a column named '{field.name}': names that begin with _ are the header's"
                )
            seen.add(field.name.lower())

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __str__(self) -> str:
        return ", ".join(f"{_quoted(f.name)} {f.type}" for f in self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names."""
        return tuple(f.name for f in self.fields)

    @cached_property
    def attributes(self) -> pa.Schema:
        """The Arrow schema of the attributes alone."""
        return pa.schema([pa.field(f.name, f.arrow) for f in self.fields])

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the whole tuple, header first."""
        return pa.schema([*HEADER, *self.attributes])


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"


def parse_schema(text: str) -> Schema:
    """Read a schema as Spark SQL writes it: `name type, name type`."""
    reader = _Reader(text)
    fields = reader.fields(end=None)
    return Schema(tuple(fields))


def parse_type(text: str) -> pa.DataType:
    """Read one Spark SQL type."""
    reader = _Reader(text)
    found = reader.type()
    reader.expect(None)
    return found[1]


def from_arrow(schema: pa.Schema) -> Schema:
    """The stream schema of these Arrow columns (header columns left out)."""
    return Schema(
        tuple(Field(f.name, type_name(f.type)) for f in schema if f.name not in HEADER_NAMES)
    )


def type_name(arrow: pa.DataType) -> str:
    """The Spark SQL name of an Arrow type; a `UserError` for one streams cannot carry."""
    if pa.types.is_struct(arrow):
        inner = ", ".join(f"{_quoted(f.name)}: {type_name(f.type)}" for f in arrow)
        return f"struct<{inner}>"
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        return "timestamp"
    for name, candidate in _SCALARS.items():
        if arrow == candidate:
            return name
    raise UserError(
        f"has the type {arrow}, which a stream cannot carry"
        " (scalars and structs can; lists and maps have no canonical order)"
    )


class _Reader:
    """A reader for Spark SQL's type syntax."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while at < len(text.rstrip()):
            token = _TOKEN.match(text, at)
            if token is None:
                raise self._wrong()
            self._tokens.append(token[1])
            at = token.end()
        self._at = 0
        self._depth = 0

    def _wrong(self) -> UserError:
        return UserError(
            f"is not a schema: {self._text!r} (write for example 'src string, port int')"
        )

    def _next(self) -> str | None:
        self._at += 1
        return self._tokens[self._at - 1] if self._at <= len(self._tokens) else None

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def expect(self, token: str | None) -> None:
        """The next token must be this one."""
        if self._next() != token:
            raise self._wrong()

    def fields(self, end: str | None) -> list[Field]:
        """Names and types up to the closing token."""
        fields: list[Field] = []
        while True:
            name = self._next()
            if name is None or not re.match(r"[`\w]", name):
                raise self._wrong()
            if self._peek() == ":":
                self._next()
            fields.append(Field(name.strip("`"), self.type()[0]))
            separator = self._next()
            if separator == end:
                return fields
            if separator != ",":
                raise self._wrong()

    def type(self) -> tuple[str, pa.DataType]:
        """One type: its canonical name and its Arrow type."""
        word = (self._next() or "").lower()
        word = _ALIASES.get(word, word)
        if word in _SCALARS:
            return word, _SCALARS[word]
        if word in ("decimal", "numeric"):
            return self._decimal()
        if word == "struct":
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise UserError(f"has structs that are nested deeper than {MAX_DEPTH}")
            self.expect("<")
            inner = self.fields(end=">")
            self._depth -= 1
            name = "struct<" + ", ".join(f"{_quoted(f.name)}: {f.type}" for f in inner) + ">"
            return name, pa.struct([pa.field(f.name, f.arrow) for f in inner])
        if word in ("array", "map"):
            raise UserError(
                f"uses the type {word}: lists and maps have no canonical order,"
                " so a stream carries scalars and structs only"
            )
        known = ", ".join([*_SCALARS, "decimal(p,s)", "struct<...>"])
        raise UserError(f"uses an unknown type '{word}' (known: {known})")

    def _decimal(self) -> tuple[str, pa.DataType]:
        precision, scale = 10, 0
        if self._peek() == "(":
            self._next()
            precision = self._number()
            separator = self._next()
            if separator == ",":
                scale = self._number()
                separator = self._next()
            if separator != ")":
                raise self._wrong()
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise UserError(f"uses decimal({precision},{scale}), which is out of range")
        return f"decimal({precision},{scale})", pa.decimal128(precision, scale)

    def _number(self) -> int:
        token = self._next() or ""
        if not re.fullmatch(r"[0-9]{1,9}", token):
            raise self._wrong()
        return int(token)
