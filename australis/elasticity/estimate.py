"""Estimates for the next control step from earlier ones (games 6.2)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Average:
    """An exponentially weighted moving average (EWMA).

    >>> average = Average(0.5)
    >>> average.add(4.0), average.add(2.0), average.add(2.0)
    (4.0, 3.0, 2.5)
    """

    newest: float
    """The weight of the newest value; 1: no averaging."""
    value: float | None = None
    """The average; None before the first value."""

    def add(self, value: float) -> float:
        """Add a value and return the average."""
        before = value if self.value is None else self.value
        self.value = before + self.newest * (value - before)
        return self.value
