"""The result of an experiment: claims with verdicts, tables, plots and deviations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from math import isfinite
from typing import Any, Protocol

from research.predicates import Predicate

Value = float | int | str | None
Progress = Callable[[str], None]
"""Receives progress messages."""
DIGITS = 4


class Source(Enum):
    """The origin of the paper's side of a claim."""

    TABLE = "table"
    PROSE = "prose"
    UNAVAILABLE = "unavailable"
    """The value is in a plot, which the stored text of the paper does not have, or in no paper."""


class ClaimVerdict(Enum):
    """The outcome of a claim, compared with what is known about it."""

    HOLDS = "ok"
    FAILS = "FAILS"
    """The claim fails unexpectedly: something is wrong."""
    KNOWN_MISS = "known miss"
    """The claim fails as expected."""
    NO_MISS = "HOLDS, though marked as a known miss"
    """The claim holds although it is marked as a known miss."""


@dataclass(frozen=True)
class Claim:
    """One statement that can turn out false."""

    text: str
    measured: Any
    """The value that the predicate tests."""
    expected: Predicate
    paper: Value = None
    source: Source = Source.PROSE
    shown: Value = None
    """The value shown in a report, if it differs from the measured value."""
    known_miss: str | None = None
    """The reason why our runs do not satisfy the claim, where it is known."""

    @property
    def ok(self) -> bool:
        """Whether the claim holds."""
        return self.expected(self.measured)

    @property
    def tolerance(self) -> str:
        """The predicate as text."""
        return str(self.expected)

    @property
    def ours(self) -> Value:
        """The measured value for a report."""
        return said(self.measured) if self.shown is None else self.shown

    @property
    def verdict(self) -> ClaimVerdict:
        """The verdict on the claim."""
        if self.known_miss is None:
            return ClaimVerdict.HOLDS if self.ok else ClaimVerdict.FAILS
        return ClaimVerdict.NO_MISS if self.ok else ClaimVerdict.KNOWN_MISS

    @property
    def surprising(self) -> bool:
        """Whether the claim fails unexpectedly, or holds although it is marked as a known miss."""
        return self.verdict in (ClaimVerdict.FAILS, ClaimVerdict.NO_MISS)


def own_claim(
    text: str,
    measured: Any,
    expected: Predicate,
    shown: Value = None,
    known_miss: str | None = None,
) -> Claim:
    """A claim of our own, without a counterpart in a paper."""
    return Claim(text, measured, expected, None, Source.UNAVAILABLE, shown, known_miss)


def said(measured: Any) -> Value:
    """A measured value of any shape, as one value.

    >>> said(0.123456), said(3), said([0.5, 2]), said({"slope": 1.0})
    (0.1235, 3, '0.5, 2', 'slope: 1.0')
    """
    if measured is None or isinstance(measured, int | str):
        return measured
    if isinstance(measured, float):
        return round(measured, DIGITS) if isfinite(measured) else str(measured)
    if isinstance(measured, Mapping):
        return ", ".join(f"{name.replace('_', ' ')}: {said(v)}" for name, v in measured.items())
    if isinstance(measured, Iterable):
        return ", ".join(str(said(v)) for v in measured) or "none"
    return str(measured)


@dataclass(frozen=True)
class Table:
    """Measured values, beside the paper's where there are any."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


class Drawing(Protocol):
    """An object that can be drawn as SVG."""

    def svg(self) -> str:
        """The SVG document."""
        ...


@dataclass(frozen=True)
class Picture:
    """A drawing and the name of its file."""

    name: str
    drawing: Drawing


@dataclass(frozen=True)
class Result:
    """The outcome of one experiment."""

    claims: tuple[Claim, ...]
    tables: tuple[Table, ...] = ()
    deviations: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    drawings: tuple[str, ...] = field(default=())
    """Drawings as text, for the terminal."""

    @property
    def ok(self) -> bool:
        """Whether every claim has the expected verdict."""
        return not self.surprises

    @property
    def surprises(self) -> list[Claim]:
        """The claims that fail unexpectedly, and known misses that hold."""
        return [claim for claim in self.claims if claim.surprising]


class Experiment(Protocol):
    """One evaluation of a paper."""

    name: str
    description: str
    reproduces: str
    duration: str
    """The approximate duration, in full and quick."""

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run the experiment; a quick run is reduced."""
        ...


def steps(values: Sequence[float]) -> list[float]:
    """The differences between neighbours.

    >>> steps([1, 3, 6])
    [2, 3]
    """
    return [b - a for a, b in pairwise(values)]
