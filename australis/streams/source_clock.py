"""The time of a source whose clock lies behind the boundary that its stream had reached.

That is so after a restart if the clock was set back, or had been ahead. A boundary never goes back,
so the stream would stand still until the clock has caught up, and all that it is merged with. So the
source's time goes on from the boundary, at half the speed of the clock: buckets go on closing, and
the two meet again after twice the difference.
"""

from __future__ import annotations

SLOWED = 2
"""By how many times more slowly time passes until the clock has caught up."""


class SourceClock:
    """The time by which a source stamps its tuples and closes its buckets.

    >>> clock = SourceClock(boundary_us=100, now_us=60)
    >>> [clock.time(now) for now in (60, 80, 139, 140, 160)]
    [100, 110, 139, 140, 160]
    >>> clock.ahead_us(80), clock.ahead_us(150)
    (30, 0)
    """

    def __init__(self, boundary_us: int, now_us: int) -> None:
        self._boundary_us = boundary_us
        self._began_us = now_us

    def time(self, now_us: int) -> int:
        """The source's time when its clock shows `now_us`."""
        passed_us = max(0, now_us - self._began_us)
        return max(now_us, self._boundary_us + passed_us // SLOWED)

    def ahead_us(self, now_us: int) -> int:
        """How far the source's time is ahead of its clock."""
        return self.time(now_us) - now_us
