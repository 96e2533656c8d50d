"""Settings: the written form of a part, in a file and in Python.

Settings are strings, numbers, lists and mappings. A `Form` defines how values of one type are read
from such a setting and written back; a field that is declared with `setting(FORM)` is thereby a
setting of its class, in every form of a diagram.

>>> COLUMNS.read(["room"]), COLUMNS.write((("n", "a + 1"),))
((('room', 'room'),), {'n': 'a + 1'})
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Generic, TypeVar, overload

from australis.kernel.durations import format_duration, parse_duration
from australis.kernel.errors import Place, UserError
from australis.kernel.names import MAX_NAME, listed

T = TypeVar("T")
D = TypeVar("D")
Settings = Mapping[str, Any]
PlaceOf = Callable[[str | None], Place | None]
"""The place of a setting (None: the place of the part)."""
Wrong = Callable[[str | None, str], UserError]
"""Makes the error for a mistake in a setting (None: in the part as a whole)."""
Pairs = tuple[tuple[str, str], ...]
"""Pairs of a name and an expression."""

MAX_SHOWN_CHARACTERS = 200
_SIZES = {"kB": 10**3, "MB": 10**6, "GB": 10**9}
MAX_INTEGER = 2**31 - 1
MAX_DURATION_US = 36_500 * 86_400 * 1_000_000
"""A hundred years."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_METADATA = "setting"


def shown(value: Any) -> str:
    """A value as one line of a message."""
    text = repr(value)
    if "\n" in text:
        text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 3] + "..."


class Taker:
    """Takes the settings of one part one by one, and reports mistakes in them."""

    def __init__(self, name: str, settings: Settings, place_of: PlaceOf) -> None:
        self.place = place_of(None)
        if not isinstance(name, str):
            raise UserError(f"a name should be text, not {shown(name)}", place=self.place)
        self.name = name
        self._settings = dict(settings)
        self._place_of = place_of
        if not _NAME.fullmatch(name):
            raise self.wrong(
                None, "is not a name: use letters, digits, _ and -, and begin with a letter"
            )
        if len(name) > MAX_NAME:
            raise UserError(
                f"is a name of more than {MAX_NAME} characters",
                name=name[:20] + "…",
                place=self.place,
            )

    def wrong(self, key: str | None, sentence: str) -> UserError:
        """The error for a mistake, with the place of the setting."""
        return UserError(sentence, name=self.name, place=self._place_of(key))

    def kind(self, kinds: Collection[str], what: str) -> str:
        """The one setting that gives the kind of the part."""
        found = [key for key in self._settings if key in kinds]
        if len(found) == 1:
            return found[0]
        said = "does not say" if not found else f"says more than once ({', '.join(found)})"
        unknown = () if found else tuple(map(str, self._settings))
        known = listed(kinds, *unknown)
        raise self.wrong(None, f"{said} which kind of {what} it is (one of: {known})")

    def take(self, key: str, read: Callable[[Any], Any], default: Any = MISSING) -> Any:
        """Take one setting and read it."""
        if key not in self._settings:
            if default is MISSING:
                raise self.wrong(None, f"needs '{key}'")
            return default
        try:
            return read(self._settings.pop(key))
        except UserError as error:
            raise self.wrong(key, f"has a setting '{key}' that {error.sentence}") from None

    def rest(self) -> dict[str, Any]:
        """Take all remaining settings."""
        rest, self._settings = self._settings, {}
        return rest

    def refuse_unknown(self, known: Collection[str], also: str = "") -> None:
        """Refuse the first setting that is not known."""
        for key in self._settings:
            if key not in known:
                names = listed(known, str(key), also=also)
                raise self.wrong(key, f"has an unknown setting '{key}' (known: {names})")


# --- forms -------------------------------------------------------------------


def _same(value: Any) -> Any:
    return value


def _none(_: Any) -> Iterable[str]:
    return ()


@dataclass(frozen=True)
class Form(Generic[T]):
    """How values of one type are written as a setting."""

    read: Callable[[Any], T]
    """Reads a value from a file's data; a `UserError` for anything else."""
    write: Callable[[T], Any] = _same
    """Converts a value back to a file's data."""
    expressions: Callable[[T], Iterable[str]] = _none
    """The Spark SQL that the user wrote in a value."""
    given: Callable[[Any], Any] = _same
    """Converts what a Python program passes to a file's data."""

    def keys(self, key: str) -> tuple[str, ...]:
        """The settings that are read under this one's name."""
        return (key,)

    def take(self, taker: Taker, key: str, default: Any) -> T:
        """The value, from the settings of a part."""
        value: T = taker.take(key, self.read, default)
        return value

    def put(self, key: str, value: T) -> dict[str, Any]:
        """The settings that give the value."""
        return {key: self.write(value)}


@dataclass(frozen=True)
class Streams(Form[tuple[str, ...]]):
    """How the inputs of an operator are written."""

    names: tuple[str, ...] = ()
    """The name of each input; empty if any number of inputs is allowed."""

    @property
    def sides(self) -> tuple[str, ...]:
        """The names that distinguish the inputs, if they must be distinguished."""
        return self.names if len(self.names) > 1 else ()


@dataclass(frozen=True)
class Setting:
    """One field of a class that is a setting."""

    field: str
    key: str
    form: Form[Any]
    default: Any

    @property
    def keys(self) -> tuple[str, ...]:
        """The settings that are read for it."""
        return self.form.keys(self.key)


@overload
def setting(form: Form[T], *, key: str = ...) -> T: ...
@overload
def setting(form: Form[T], *, default: D, key: str = ...) -> T | D: ...
def setting(form: Form[Any], *, default: Any = MISSING, key: str = "") -> Any:
    """Declare a field of a part as a setting, called like the field unless it has a `key`."""
    metadata = {_METADATA: (form, key)}
    if default is MISSING:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


def settings_of(cls: type) -> tuple[Setting, ...]:
    """The settings that a class declares, in the order of its fields."""
    return tuple(
        Setting(f.name, f.metadata[_METADATA][1] or f.name, f.metadata[_METADATA][0], f.default)
        for f in fields(cls)
        if _METADATA in f.metadata
    )


# --- reading -----------------------------------------------------------------


def read_text(value: Any) -> str:
    """Read a text; numbers are sometimes written without quotes."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UserError(f"should be text, not {shown(value)}")
    return str(value)


def _condition(value: Any) -> str:
    """A predicate; a number is none."""
    if not isinstance(value, str):
        raise UserError(f"should be text, not {shown(value)}")
    return value


def read_integer(value: Any) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"should be a whole number, not {shown(value)}")
    if abs(value) > MAX_INTEGER:
        raise UserError(f"should be at most {MAX_INTEGER:,}, not {shown(value)}")
    return value


def read_duration(value: Any) -> int:
    """A duration in microseconds."""
    us = parse_duration(value)
    if us > MAX_DURATION_US:
        raise UserError(f"should be at most {format_duration(MAX_DURATION_US)}, not {shown(value)}")
    return us


def read_size(value: Any) -> int:
    """A size in bytes, such as 16 MB."""
    found = re.fullmatch(r"([0-9]{1,9}) *(kB|MB|GB)", value) if isinstance(value, str) else None
    if found is None:
        raise UserError(f"should be a size such as 16 MB, not {shown(value)}")
    return int(found[1]) * _SIZES[found[2]]


def format_size(size: int) -> str:
    """The shortest exact way to write a size that was read."""
    unit = next(unit for unit in reversed(_SIZES) if size % _SIZES[unit] == 0)
    return f"{size // _SIZES[unit]} {unit}" if size else "0 MB"


def read_several(value: Any) -> tuple[str, ...]:
    """A list of streams that is not empty."""
    if isinstance(value, str) or not isinstance(value, list | tuple) or not value:
        raise UserError(f"should be a list of streams, not {shown(value)}")
    return tuple(read_text(v) for v in value)


def read_pairs(value: Any) -> Pairs:
    """Read names with expressions, or a list of plain columns; not empty."""
    if isinstance(value, Mapping):
        pairs = [(read_text(k), read_text(v)) for k, v in value.items()]
    elif isinstance(value, list | tuple):
        pairs = [(read_text(v), read_text(v)) for v in value]
    else:
        raise UserError(
            f"should be columns (a list, or names with expressions), not {shown(value)}"
        )
    if not pairs:
        raise UserError("is empty")
    return tuple(pairs)


def read_columns(value: Any) -> Pairs:
    """Read pairs whose names can be columns of one stream."""
    pairs = read_pairs(value)
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


def _one_stream(value: Any) -> tuple[str, ...]:
    if not isinstance(value, str):
        raise UserError(f"should name one stream, not {shown(value)}")
    return (value,)


def _one_or_more(value: Any) -> tuple[str, ...]:
    return _one_stream(value) if isinstance(value, str) else read_several(value)


def _few(streams: tuple[str, ...]) -> Any:
    return streams[0] if len(streams) == 1 else list(streams)


def _name(value: Any) -> str:
    if not re.fullmatch(r"\w+", read_text(value)) or len(str(value)) > MAX_NAME:
        raise UserError(f"has a branch {shown(value)}, which is not a name")
    return str(value)


def _predicates(value: Any) -> Pairs:
    if isinstance(value, Mapping):
        if not value:
            raise UserError("is empty")
        return tuple((_name(branch), _condition(written)) for branch, written in value.items())
    return (("", _condition(value)),)


def _write_predicates(pairs: Pairs) -> Any:
    return pairs[0][1] if pairs[0][0] == "" else dict(pairs)


def _write_groups(pairs: Pairs) -> Any:
    plain = all(name == expression for name, expression in pairs)
    return [name for name, _ in pairs] if plain else dict(pairs)


def _values(pairs: Pairs) -> Iterable[str]:
    return (expression for _, expression in pairs)


def given_columns(value: Any) -> Any:
    """Convert columns as Python passes them: also a single name, or any iterable of names."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Iterable) else value


ONE_STREAM = Streams(_one_stream, _few, names=("stream",))
TWO_STREAMS = Streams(read_several, list, names=("left", "right"))
STREAMS = Streams(read_several, list)
ONE_OR_MORE_STREAMS = Streams(_one_or_more, _few)

INTEGER = Form(read_integer)
DURATION = Form(read_duration, format_duration)
"""Microseconds, written as durations with a unit."""
NAME = Form(_name)
CONDITION = Form(_condition, expressions=lambda text: (text,))
EXPRESSIONS: Form[tuple[str, ...]] = Form(
    lambda value: tuple(_values(read_pairs(value))),
    write=list,
    expressions=_same,
    given=given_columns,
)
PREDICATES = Form(_predicates, _write_predicates, _values)
"""One predicate, or several named ones."""
COLUMNS: Form[Pairs] = Form(read_columns, dict, _values, given_columns)
GROUPS = Form(read_columns, _write_groups, _values, given_columns)
"""Columns that are mostly plain, and are then written as a list."""
