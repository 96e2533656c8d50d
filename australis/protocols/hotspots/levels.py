"""Overlapping load levels: a peer announces its load when it leaves its level (synergy 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf

from australis.kernel.errors import UserError

TOP = 10.0
"""Any load above this is in the highest level."""
Interval = tuple[float, float]


def even_levels(count: int, overlap: float, top: float = TOP) -> tuple[Interval, ...]:
    """A number of levels: all but the highest divide 0 to `top`, and neighbours overlap.

    >>> even_levels(3, 0.2)
    ((0.0, 5.1), (4.9, 10.1), (9.9, inf))
    """
    if count < 2:
        raise UserError(f"should be at least 2, not {count}", name="levels")
    width = top / (count - 1)
    if not 0 <= overlap < width:
        raise UserError(
            f"is {overlap:g}, but a level is only {width:g} wide: it should be less", name="overlap"
        )
    half = overlap / 2
    edges = [width * i for i in range(1, count)]
    lows = [0.0, *(edge - half for edge in edges)]
    highs = [*(edge + half for edge in edges), inf]
    return tuple(zip(lows, highs, strict=True))


class Levels:
    """The level of a load, which stays the same while the load is in the overlap of two levels.

    >>> levels = Levels(even_levels(3, 0.2))
    >>> [levels.changed(load) for load in (1.0, 5.05, 5.2, 4.95, 4.8, 30.0)]
    [True, False, True, False, True, True]
    """

    def __init__(self, intervals: Sequence[Interval]) -> None:
        _check(intervals)
        self._intervals = tuple(intervals)
        self._at: int | None = None

    def changed(self, load: float) -> bool:
        """Take a new load; return whether it has left its level or is the first."""
        if self._at is not None:
            low, high = self._intervals[self._at]
            if low <= load < high:
                return False
        # In an overlap, the level whose middle is nearer to the previous load.
        fitting = [i for i, (low, high) in enumerate(self._intervals) if low <= load < high]
        self._at = fitting[0] if self._at is None else min(fitting, key=self._steps)
        return True

    def _steps(self, level: int) -> int:
        assert self._at is not None
        return abs(level - self._at)


def _check(intervals: Sequence[Interval]) -> None:
    """Check that every load from zero up is in a level."""
    if not intervals or intervals[0][0] > 0:
        raise UserError("do not cover the range: none begins at 0", name="levels")
    if intervals[-1][1] != inf:
        raise UserError("do not cover the range: the highest should have no end", name="levels")
    for low, high in intervals:
        if low >= high:
            raise UserError(f"end before they begin: {low:g} to {high:g}", name="levels")
    for (_, high), (low, _) in pairwise(intervals):
        if low > high:
            raise UserError(
                f"do not cover the range: nothing between {high:g} and {low:g}", name="levels"
            )
