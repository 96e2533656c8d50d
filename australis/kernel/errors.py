"""The two kinds of error: a user's mistake and a stop of the system.

A `UserError` is one clear sentence that names the user's file, line and
operator; the command line prints it and exits with code 2. A `Stopped` gives the
reason why a running system could not continue without breaking a guarantee; no
acknowledged data is lost, and the command line exits with code 1. `Damaged` is a
stop because a stored file is not what was written. A bug in
Australis is an assertion, never one of these.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from australis.kernel.names import known_names

MAX_CHARACTERS = 2_000
"""The largest length of what is said about a mistake."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the user's files."""

    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @classmethod
    def of_caller(cls, file: str) -> Place:
        """The line of the nearest caller outside of this Python file."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename in (file, __file__):
            frame = frame.f_back
        return cls(frame.f_code.co_filename, frame.f_lineno)


class AustralisError(Exception):
    """The base of all errors that Australis reports to people."""


class UserError(AustralisError):
    """A mistake in the user's input, described in one sentence.

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
        said = said if self.place is None else f"{self.place}: {said}"
        line = said if said.isprintable() else " ".join(said.splitlines())
        line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)
        return line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - 3] + "..."

    def at(self, place: Place | None, name: str | None = None) -> UserError:
        """The same mistake with its place and name, unless it has them already."""
        return UserError(self.sentence, name=self.name or name, place=self.place or place)


def unknown_name(
    name: str,
    known: Iterable[str],
    sentence: str,
    *,
    heading: str = "known",
    place: Place | None = None,
) -> UserError:
    """The error for an unknown name, with the name that was probably meant.

    >>> str(unknown_name("z", ["a", "b"], "is not a node of this cluster", heading="nodes"))
    "'z' is not a node of this cluster (nodes: a, b)"
    """
    hint = known_names(name, known, heading)
    return UserError(f"{sentence} ({hint})", name=name, place=place)


class Stopped(AustralisError):
    """The system stopped by itself rather than break a guarantee."""


class Damaged(Stopped):
    """A stored file is not what was written: its bytes differ, are missing, or are old ones."""

    def __init__(self, sentence: str, *, file: str = "", byte: int = 0) -> None:
        self.file = file
        self.byte = byte
        self.bucket: int | None = None
        """The bucket of a log whose tuples cannot be read."""
        super().__init__(sentence)


class OperatorFailed(Stopped):
    """An operator raises for tuples of certain buckets, as it will at every replica and try.

    >>> str(OperatorFailed(["f"], "results", "behind bucket 7", "ValueError: odd"))
    "the operator 'f' fails on tuples behind bucket 7 of 'results': ValueError: odd"
    """

    def __init__(self, operators: Iterable[str], output: str, where: str, why: str) -> None:
        self.operators = tuple(operators)
        self.output = output
        self.where = where
        self.why = why
        named = ", ".join(f"'{name}'" for name in self.operators)
        among = "the operator" if len(self.operators) == 1 else "one of the operators"
        super().__init__(f"{among} {named} fails on tuples {where} of '{output}': {why}")
