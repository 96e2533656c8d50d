"""Reading the options of a source or a sink, with one clear sentence per mistake."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from australis.diagram.model import Sink, Source
from australis.kernel.durations import parse_duration
from australis.kernel.errors import UserError
from australis.kernel.names import known_names


class Options:
    """The options of one part; an unknown name is a mistake at once.

    >>> from australis.streams.schema import parse_schema
    >>> source = Source(name="s", kind="csv", schema=parse_schema("a int"), options={"pth": "x"})
    >>> Options(source, ["path", "speed"])
    Traceback (most recent call last):
    australis.kernel.errors.UserError: 's' has an unknown option 'pth' (did you mean 'path'?)
    """

    def __init__(self, part: Source | Sink, known: Collection[str]) -> None:
        self._part = part
        self._given = part.options
        for name in self._given:
            if name not in known:
                raise self.wrong(f"has an unknown option '{name}' ({known_names(name, known)})")

    def wrong(self, sentence: str) -> UserError:
        """A mistake in this part."""
        return UserError(sentence, name=self._part.name, place=self._part.place)

    def text(self, name: str, default: str | None = None) -> str:
        """A non-empty text; required if there is no default."""
        value = self._given.get(name, default)
        if value is None:
            raise self.wrong(f"needs the option '{name}'")
        if not isinstance(value, str | Path) or not str(value):
            raise self._bad(name, "a text")
        return str(value)

    def choice(self, name: str, among: Collection[str], default: str) -> str:
        """One of a few words."""
        value = self._given.get(name, default)
        if value not in among:
            raise self._bad(name, "one of " + ", ".join(among))
        return str(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """Yes or no."""
        value = self._given.get(name, default)
        if not isinstance(value, bool):
            raise self._bad(name, "true or false")
        return value

    def number(self, name: str, default: float, *, above: float | None = None) -> float:
        """A number of at least zero, or above a limit."""
        value = self._given.get(name, default)
        known = isinstance(value, int | float) and not isinstance(value, bool)
        if not known or not value < 1e300:
            raise self._bad(name, "a number")
        if value < 0 or (above is not None and value <= above):
            raise self._bad(name, "at least 0" if above is None else f"a number above {above:g}")
        return float(value)

    def whole(self, name: str, default: int, *, least: int = 0) -> int:
        """A whole number of at least this much."""
        value = self._given.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self._bad(name, f"a whole number of at least {least}")
        if value >= 2**63:
            raise self._bad(name, "a whole number of 64 bits")
        return value

    def duration_us(self, name: str) -> int | None:
        """A duration above zero, or None if it is not given."""
        value = self._given.get(name)
        if value is None:
            return None
        try:
            duration = parse_duration(value)
        except UserError as error:
            raise self.wrong(f"has an option '{name}' that {error.sentence}") from None
        if duration <= 0:
            raise self._bad(name, "a duration above zero")
        return duration

    def time_us(self, name: str, default_us: int) -> int:
        """A point in time after 1970, in UTC unless it names a zone."""
        value = self._given.get(name)
        if value is None:
            return default_us
        try:
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        except ValueError:
            raise self._bad(name, "a time such as 2026-01-01T00:00:00Z") from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        if micros <= 0:
            raise self._bad(name, "a time after 1970")
        return micros

    def speed(self) -> float | None:
        """The speed of a replay as a multiple of the recorded one; None: as fast as possible."""
        value = self._given.get("speed", "max")
        if value == "max":
            return None
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e9:
            raise self._bad("speed", "'max' or a number above 0 (1 is as recorded)")
        return float(value)

    def texts(self, name: str) -> list[str]:
        """One text or a list of texts, at least one."""
        value: Any = self._given.get(name)
        if value is None:
            raise self.wrong(f"needs the option '{name}'")
        values = [value] if isinstance(value, str | Path) else value
        if not isinstance(values, list | tuple) or not values:
            raise self._bad(name, "a path or a list of paths")
        if not all(isinstance(v, str | Path) and str(v) for v in values):
            raise self._bad(name, "a path or a list of paths")
        return [str(v) for v in values]

    def _bad(self, name: str, wanted: str) -> UserError:
        return self.wrong(f"has the option {name}: {self._given[name]!r}, which is not {wanted}")
