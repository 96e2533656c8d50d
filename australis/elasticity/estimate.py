"""What the next control step will be like, from those before (games 6.2)."""

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
    """So much the newest value counts; 1: nothing else does."""
    value: float | None = None
    """None before the first one."""

    def add(self, value: float) -> float:
        """Take one more in; the average with it."""
        before = value if self.value is None else self.value
        self.value = before + self.newest * (value - before)
        return self.value
