"""A peer's load: the scarcest of several resources, averaged over one, five and fifteen minutes.

The paper considers the processor alone, as the number of components that wait for it, and leaves
other resources to future work. Here each resource is brought to that scale: a utilisation u counts
as the length of a queue at that utilisation, u / (1 - u). The load is that of the scarcest
resource: a component that waits for memory does not wait less because the processor is idle, and a
component that leaves releases its share of all resources.
"""

from __future__ import annotations

from math import exp

import msgspec

from australis.kernel.durations import MINUTE

SPANS_MIN = (1, 5, 15)
FULL = 0.99
"""Higher utilisations of a resource count as this one."""


class Used(msgspec.Struct, frozen=True, gc=False):
    """The resources in use at one moment: the processor's queue length, else utilisations."""

    queue: float = 0.0
    memory: float = 0.0
    bandwidth: float = 0.0

    @property
    def load(self) -> float:
        """The load of the scarcest resource.

        >>> Used(queue=2.0, memory=0.5).load, Used(queue=0.5, bandwidth=0.75).load
        (2.0, 3.0)
        """
        return max(self.queue, _waiting(self.memory), _waiting(self.bandwidth))


def _waiting(used: float) -> float:
    used = min(used, FULL)
    return used / (1 - used)


class Averages(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The load averaged over three spans, as a peer announces it."""

    one: float
    five: float
    fifteen: float

    def over(self, minutes: int) -> float:
        """The average over this number of minutes."""
        return (self.one, self.five, self.fifteen)[SPANS_MIN.index(minutes)]


class LoadMeter:
    """Exponentially decaying averages, like the load averages of an operating system.

    >>> meter = LoadMeter()
    >>> for minute in range(10):
    ...     averages = meter.sample(4.0, minute * MINUTE)
    >>> [round(averages.over(n), 1) for n in SPANS_MIN]
    [4.0, 4.0, 4.0]
    """

    def __init__(self) -> None:
        self._at_us: int | None = None
        self._values = [0.0] * len(SPANS_MIN)

    def sample(self, load: float, now: int) -> Averages:
        """Add a load and return the averages; the first load stands for all time before it."""
        if self._at_us is None:
            self._values = [load] * len(SPANS_MIN)
        else:
            for i, span in enumerate(SPANS_MIN):
                kept = exp(-(now - self._at_us) / (span * MINUTE))
                self._values[i] = kept * self._values[i] + (1 - kept) * load
        self._at_us = now
        return Averages(*self._values)
