"""What an experiment hands back: claims with verdicts, tables, plots and deviations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Protocol

Value = float | int | str | None
Progress = Callable[[str], None]
"""Tells a person what is being done."""


class Source(Enum):
    """Where the paper's side of a claim is from."""

    TABLE = "table"
    PROSE = "prose"
    UNAVAILABLE = "unavailable"
    """It is in a plot, which the stored text of the paper does not have, or in no paper."""


@dataclass(frozen=True)
class Claim:
    """One statement that can turn out false."""

    text: str
    ours: Value
    ok: bool
    paper: Value = None
    source: Source = Source.PROSE
    tolerance: str = ""


def own_claim(text: str, value: float, ok: bool, tolerance: str) -> Claim:
    """A claim of ours, of which no paper speaks."""
    return Claim(text, round(value, 4), ok, None, Source.UNAVAILABLE, tolerance)


@dataclass(frozen=True)
class Table:
    """Measured values, the paper's beside them where there are any."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A plot as SVG; its name becomes that of a file."""

    name: str
    svg: str


@dataclass(frozen=True)
class Result:
    """The outcome of one experiment."""

    claims: tuple[Claim, ...]
    tables: tuple[Table, ...] = ()
    deviations: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    drawings: tuple[str, ...] = field(default=())
    """Text for the terminal."""

    @property
    def ok(self) -> bool:
        """Whether every claim holds."""
        return all(claim.ok for claim in self.claims)


class Experiment(Protocol):
    """One evaluation of a paper."""

    name: str
    description: str
    reproduces: str
    duration: str
    """Roughly, in full and quick."""

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run it; a quick run is a reduced one."""
        ...


def within(ours: float, paper: float, relative: float) -> bool:
    """Whether a value is near the paper's.

    >>> within(105, 100, 0.1), within(115, 100, 0.1)
    (True, False)
    """
    return abs(ours - paper) <= relative * abs(paper)


def near(text: str, ours: float, paper: float, relative: float, source: Source) -> Claim:
    """The claim that a value is near the one in the paper."""
    ok = within(ours, paper, relative)
    return Claim(text, round(ours, 3), ok, paper, source, f"±{relative:.0%}")


def at_least(text: str, ours: float, bound: float, unit: str = "", **more: object) -> Claim:
    """The claim that a value does not fall below a bound."""
    return Claim(text, round(ours, 3), ours >= bound, tolerance=f"≥ {bound:g}{unit}", **more)  # type: ignore[arg-type]


def steps(values: Sequence[float]) -> list[float]:
    """The differences between neighbours.

    >>> steps([1, 3, 6])
    [2, 3]
    """
    return [b - a for a, b in pairwise(values)]
