"""The two kinds of error: a user's mistake and a stop of the system.

A `UserError` is one clear sentence that names the user's file, line and
operator; the command line prints it and exits with code 2. A `Stopped` says why
a running system could not go on without breaking a promise; nothing that was
acknowledged is lost, and the command line exits with code 1. A bug of ours is
an assertion, never one of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the user's files something was written."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class AustralisError(Exception):
    """Anything Australis tells a person about."""


class UserError(AustralisError):
    """A mistake in what the user wrote, told in one sentence.

    >>> str(UserError("is not a duration", name="window", place=Place("a.yaml", 3)))
    "a.yaml:3: 'window' is not a duration"
    """

    exit_code: ClassVar[int] = 2

    def __init__(
        self, sentence: str, *, name: str | None = None, place: Place | None = None
    ) -> None:
        self.sentence = sentence
        self.name = name
        self.place = place
        super().__init__(sentence)

    def __str__(self) -> str:
        said = self.sentence if self.name is None else f"'{self.name}' {self.sentence}"
        return said if self.place is None else f"{self.place}: {said}"

    def at(self, place: Place | None, name: str | None = None) -> UserError:
        """The same mistake, told where it stands (what is known already stays)."""
        return UserError(self.sentence, name=self.name or name, place=self.place or place)


class Stopped(AustralisError):
    """The system stopped by itself rather than break a promise."""
