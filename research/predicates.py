"""Predicates on measured values: each one decides a claim, and describes its own tolerance.

The test and the text of a predicate are built from the same bounds, so they cannot differ.

    within(100, relative=0.05)(103)     # True
    str(at_most(0.05))                  # "≤ 0.05"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class Predicate:
    """A condition on a value, and its text."""

    text: str
    holds: Callable[[Any], bool]

    def __call__(self, value: Any) -> bool:
        """Whether a value satisfies the predicate."""
        return bool(self.holds(value))

    def __str__(self) -> str:
        return self.text


# --- of a number ------------------------------------------------------------------------------------


def within(
    expected: float, *, relative: float | None = None, absolute: float | None = None
) -> Predicate:
    """Within a relative or absolute distance of an expected value.

    >>> near = within(100, relative=0.1)
    >>> near(105), near(115), str(near), str(within(1 / 3, absolute=0.01))
    (True, False, '100 ±10%', '0.3333 ±0.01')
    """
    if (relative is None) == (absolute is None):
        raise ValueError("say either relative or absolute")
    if relative is not None:
        allowed, said = relative * abs(expected), f"{relative * 100:g}%"
    else:
        assert absolute is not None
        allowed, said = absolute, f"{absolute:g}"
    return Predicate(f"{expected:.4g} ±{said}", lambda v: abs(v - expected) <= allowed)


def at_most(bound: float, unit: str = "") -> Predicate:
    """Not above a bound.

    >>> at_most(3, " s")(3), str(at_most(3, " s"))
    (True, '≤ 3 s')
    """
    return Predicate(f"≤ {bound:g}{unit}", lambda v: v <= bound)


def below(bound: float, unit: str = "") -> Predicate:
    """Below a bound.

    >>> below(1)(1), str(below(1))
    (False, '< 1')
    """
    return Predicate(f"< {bound:g}{unit}", lambda v: v < bound)


def at_least(bound: float, unit: str = "") -> Predicate:
    """Not below a bound."""
    return Predicate(f"≥ {bound:g}{unit}", lambda v: v >= bound)


def above(bound: float, unit: str = "") -> Predicate:
    """Above a bound."""
    return Predicate(f"> {bound:g}{unit}", lambda v: v > bound)


def between(low: float, high: float, unit: str = "") -> Predicate:
    """In a range, both ends included.

    >>> between(2, 3)(3), str(between(2, 3))
    (True, '2 to 3')
    """
    return Predicate(f"{low:g} to {high:g}{unit}", lambda v: low <= v <= high)


# --- of anything ------------------------------------------------------------------------------------


def exactly(expected: object) -> Predicate:
    """Equal to a value.

    >>> exactly(0)(0), str(exactly(0)), str(exactly("UNDO"))
    (True, 'exactly 0', 'exactly UNDO')
    """
    said = f"{expected:,}" if isinstance(expected, int) else str(expected)
    return Predicate(f"exactly {said}", lambda v: v == expected)


def none(of: str = "exception") -> Predicate:
    """A collection of counterexamples is empty.

    >>> none()([]), none()([3]), str(none())
    (True, False, 'no exception')
    """

    def empty(found: Sized) -> bool:
        return len(found) == 0

    return Predicate(f"no {of}", empty)


def each(predicate: Predicate) -> Predicate:
    """Each of several values satisfies a predicate; there must be at least one value.

    >>> each(at_most(2))([1, 2]), each(at_most(2))([1, 3]), str(each(at_most(2)))
    (True, False, 'each ≤ 2')
    """

    def all_meet(values: Iterable[Any]) -> bool:
        found = [predicate(v) for v in values]
        return bool(found) and all(found)

    return Predicate(f"each {predicate}", all_meet)


def fields(**predicates: Predicate) -> Predicate:
    """Each of several named values satisfies the predicate of its name.

    >>> both = fields(slope=within(1, absolute=0.1), correlation=at_least(0.99))
    >>> both({"slope": 1.05, "correlation": 0.999}), str(both)
    (True, 'slope: 1 ±0.1, correlation: ≥ 0.99')
    """

    def all_meet(values: Mapping[str, Any]) -> bool:
        assert values.keys() == predicates.keys(), (values.keys(), predicates.keys())
        return all(predicate(values[name]) for name, predicate in predicates.items())

    said = ", ".join(f"{name.replace('_', ' ')}: {p}" for name, p in predicates.items())
    return Predicate(said, all_meet)


# --- of a sequence ----------------------------------------------------------------------------------


def _neighbours(text: str, holds: Callable[[Any, Any], bool]) -> Predicate:
    """Each value and the next one satisfy a condition; there must be at least two values."""

    def all_meet(values: Sequence[float]) -> bool:
        return len(values) > 1 and all(holds(a, b) for a, b in pairwise(values))

    return Predicate(text, all_meet)


def never_falling(slack: float = 0.0) -> Predicate:
    """No value is smaller than its predecessor, up to some slack.

    >>> never_falling()([1, 1, 2]), never_falling()([2, 1]), str(never_falling(0.01))
    (True, False, 'never less by more than 0.01')
    """
    said = f"never less by more than {slack:g}" if slack else "never less"
    return _neighbours(said, lambda a, b: a <= b + slack)


def rising() -> Predicate:
    """Each value is larger than the one before it.

    >>> rising()([1, 2]), rising()([1, 1]), rising()([1]), str(rising())
    (True, False, False, 'always more')
    """
    return _neighbours("always more", lambda a, b: a < b)


def falling() -> Predicate:
    """Each value is smaller than the one before it."""
    return _neighbours("always less", lambda a, b: a > b)


def never_rising() -> Predicate:
    """No value is larger than the one before it."""
    return _neighbours("never more", lambda a, b: a >= b)
