"""Converts a document to structs, and explains what does not fit them."""

from __future__ import annotations

import types
from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from australis.kernel.errors import Place, UserError
from australis.kernel.names import listed, meant
from australis.yamlfile.document import QUOTE, Document, Path

T = TypeVar("T")
Section = Annotated[dict[str, T], Meta(min_length=1)]
"""A mapping from names to their settings."""
MAX_SHOWN = 80
"""The number of characters of a wrong value shown in a message."""
_NOTHING = msgspec.ValidationError("nothing is written")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group of settings: one field for each setting, or for each section of a file."""


class Value:
    """The meaning of a text in a file, which a subclass reads."""

    def __init__(self, meaning: Any) -> None:
        self.meaning = meaning

    @classmethod
    def read(cls, written: Any) -> Self:
        """Read the meaning of a text; a `UserError` if it has none."""
        raise NotImplementedError


class SettingError(UserError):
    """A mistake in one setting that shows only in combination with others."""

    def __init__(self, setting: str, sentence: str) -> None:
        super().__init__(sentence)
        self.setting = setting


def arguments(said: Settings) -> dict[str, Any]:
    """The values by the names of the fields, with the meaning for each text that has one."""
    given = {field: getattr(said, field) for field in said.__struct_fields__}
    return {key: one.meaning if isinstance(one, Value) else one for key, one in given.items()}


def read(document: Document, schema: type[T], what: str) -> T:
    """Convert a document by its schema; `what` names the kind of file ("a cluster")."""
    refusal = _refusal(document.data, schema)
    if refusal is not None:
        raise _Blame(document, schema, what).find((), document.data, schema, refusal)
    made: T = _convert(document.data, schema)
    return made


def _convert(data: Any, schema: Any) -> Any:
    return msgspec.convert(data, schema, dec_hook=lambda kind, written: kind.read(written))


def _refusal(data: Any, schema: Any) -> Exception | None:
    try:
        _convert(data, schema)
    except (msgspec.ValidationError, UserError) as error:
        return error
    return _NOTHING if _lacks_value(data, schema) else None


def _lacks_value(data: Any, schema: Any) -> bool:
    """Whether some key has no value; a default is requested by leaving the key out."""
    if data is None:
        return _bare(schema)[0] is not Any
    parts = (part for form in _forms(schema) for part in _parts(data, form))
    return any(_lacks_value(value, inner) for _, value, inner in parts)


class _Blame:
    """Finds the innermost part that is wrong, and explains the mistake.

    msgspec reports neither the key of a mapping nor the nearest alternative of a union, so the
    parts are tried one by one.
    """

    def __init__(self, document: Document, root: Any, what: str) -> None:
        self._document = document
        self._root = root
        self._what = what

    def find(self, path: Path, data: Any, schema: Any, refusal: Exception) -> UserError:
        """The mistake in the part at this path."""
        for form in _forms(schema):
            if isinstance(data, dict):
                known = _known(form)
                for key in data:
                    if known is not None and key not in known:
                        return self._unknown((*path, key), known)
                for key in known or ():
                    if key not in data and _is_struct(form) and _fields(form)[key].required:
                        return self._missing((*path, key))
            for key, value, inner in _parts(data, form):
                refused = _refusal(value, inner)
                if refused is not None:
                    return self.find((*path, key), value, inner, refused)
        if isinstance(refusal, SettingError):
            return self._wrong(path, refusal.sentence, at=(*path, refusal.setting))
        sentence = refusal.sentence if isinstance(refusal, UserError) else _sentence(data, schema)
        if not path:
            place = Place(self._document.origin.file, self._document.marks[()].line)
            return UserError(f"the file {sentence}", place=place)
        settings = self._settings(path)
        return self._wrong(
            path, f"has a setting '{settings}' that {sentence}" if settings else sentence
        )

    def _unknown(self, path: Path, known: Collection[str]) -> UserError:
        quote = f"; {QUOTE}" if self._document.marks[path].alone else ""
        hint = f"known: {listed(known, str(path[-1]))}{quote}"
        if len(path) == 1:
            return self._wrong(path, f"is not a section of {self._what} ({hint})")
        sentence = f"has an unknown setting '{self._settings(path)}' ({hint})"
        return self._wrong(path[:-1], sentence, at=path)

    def _missing(self, path: Path) -> UserError:
        if len(path) == 1:
            origin = self._document.origin
            return UserError(f"has no section '{path[0]}'", name=origin.file, place=origin)
        return self._wrong(path[:-1], f"needs '{self._settings(path)}'")

    def _subject(self, path: Path) -> Path:
        """The part of a path that leads to a named part: a section, or an entry of a section."""
        section = _fields(self._root).get(str(path[0]))
        for form in _forms(section.type) if section else ():
            inner = get_args(form)
            if get_origin(form) is dict or (get_origin(form) is tuple and _is_struct(inner[0])):
                return path[:2]
        return path[:1]

    def _settings(self, path: Path) -> str:
        keys = path[len(self._subject(path)) :]
        return ".".join(key for key in keys if isinstance(key, str))

    def _wrong(self, path: Path, sentence: str, *, at: Path | None = None) -> UserError:
        *section, last = self._subject(path)
        item = isinstance(last, int) and f"{str(section[-1]).removesuffix('s')} {last + 1}"
        return UserError(
            sentence, name=item or str(last), place=self._document.place(*(at or path))
        )


# --- schemas -------------------------------------------------------------------

_DESCRIBED = {
    bool: "true or false",
    str: "text",
    int: "a whole number",
    float: "a number",
    tuple: "a list",
}
_UNIONS = (Union, types.UnionType)


def _bare(schema: Any) -> tuple[Any, list[Meta]]:
    """A schema without its annotations and without None, and the annotations."""
    metas: list[Meta] = []
    while True:
        forms = [form for form in get_args(schema) if form is not types.NoneType]
        if get_origin(schema) is Annotated:
            schema = forms[0]
            metas += forms[1:]
        elif get_origin(schema) in _UNIONS and len(forms) == 1:
            schema = forms[0]
        else:
            return schema, metas


def _forms(schema: Any) -> list[Any]:
    """The alternatives of a schema."""
    bare, _ = _bare(schema)
    if get_origin(bare) not in _UNIONS:
        return [bare]
    return [form for alternative in get_args(bare) for form in _forms(alternative)]


def _is_struct(form: Any) -> bool:
    return isinstance(form, type) and issubclass(form, msgspec.Struct)


def _fields(struct: Any) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(struct)}


def _known(form: Any) -> Collection[str] | None:
    """The known keys, if others are refused."""
    if _is_struct(form):
        return _fields(form)
    keys = get_args(get_args(form)[0]) if get_origin(form) is dict else ()
    return keys or None


def _parts(data: Any, form: Any) -> Iterator[tuple[str | int, Any, Any]]:
    """The parts of the data that this form has schemas for: key, data and schema of each."""
    origin, inner = get_origin(form), get_args(form)
    if isinstance(data, dict) and _is_struct(form):
        fields = _fields(form)
        yield from ((key, data[key], fields[key].type) for key in data)
    elif isinstance(data, dict) and origin is dict:
        yield from ((key, value, inner[1]) for key, value in data.items())
    elif isinstance(data, list) and origin is tuple:
        # A tuple of a fixed length has one schema for each part, any other one for all.
        schemas = [inner[0]] * len(data) if inner[-1] is ... else inner
        yield from zip(range(len(data)), data, schemas, strict=False)


# --- sentences -----------------------------------------------------------------


def _sentence(data: Any, schema: Any) -> str:
    """The description of the value expected here."""
    bare, metas = _bare(schema)
    if hasattr(bare, "read"):
        refusal = _refusal(data, bare)
        return refusal.sentence if isinstance(refusal, UserError) else f"cannot be {shown(data)}"
    described = next((meta.description for meta in metas if meta.description), None)
    if not described and (_is_struct(bare) or get_origin(bare) is dict):
        return "is empty" if data == {} else "should be names with settings"
    hint = ""
    if get_origin(bare) is Literal:
        words = get_args(bare)
        described = " or ".join(f"'{word}'" for word in words)
        hint = meant(data, words) if isinstance(data, str) else ""
    return f"should be {described or _DESCRIBED[get_origin(bare) or bare]}, not {shown(data)}{hint}"


def shown(data: Any) -> str:
    """A value as a sentence shows it."""
    said = repr(data)
    return said if len(said) <= MAX_SHOWN else f"{said[:MAX_SHOWN]}..."
