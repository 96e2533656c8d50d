"""The clock of a producer, as a consumer knows it from the round trips of heartbeats.

Deadlines compare the time at which a bucket entered the system with a node's own clock, and the
clocks of nodes may be seconds apart. So entry times are converted at every hop: each node
estimates how far a producer's clock is ahead of its own, as NTP does, and translates what the
producer sends (`Monitor.in_own_clock`). What it stores and forwards is by its own clock.

*The estimate.* A reply says what the producer's clock showed (`at`). That was between the sending
of the heartbeat and the arrival of the reply: the offset is `at` less the middle of the two, and
its error at most half of the round trip. As both clocks run on, the error grows by `DRIFT_PPM`.
A sample replaces the estimate if its error is smaller by now, or if the two contradict each other,
since then one of the clocks was stepped, or stood still while its machine was suspended.

*Restarts.* A producer's clock may have been stepped while it was down. Its log holds buckets from
before, with entry times by the old clock, up to `StreamStatus.restored_upto`; a consumer converts
those by the offset that it last knew. One that knew none takes them as if by the new clock: if
both nodes were restarted, and the clock stepped meanwhile, their entry times are off by that step.
"""

from __future__ import annotations

from dataclasses import dataclass

from australis.kernel.durations import SECOND

DRIFT_PPM = 500
"""By how much two clocks may drift apart: the most that an NTP daemon slews a clock, or five times
what two bad quartzes do."""
OLDEST_US = 365 * 24 * 3600 * SECOND
"""A greater age of a bucket counts as this."""


@dataclass(frozen=True)
class ClockOffset:
    """One estimate of how far another clock is ahead of this one."""

    offset_us: int
    round_trip_us: int
    taken_us: int
    """The time of the estimate by this node's clock."""

    def error_us(self, now: int) -> int:
        """The largest error of the estimate by now."""
        return self.round_trip_us // 2 + max(0, now - self.taken_us) * DRIFT_PPM // 1_000_000

    def contradicts(self, other: ClockOffset, now: int) -> bool:
        """Whether no offset fits both estimates."""
        apart = abs(self.offset_us - other.offset_us)
        return apart > self.error_us(now) + other.error_us(now) + 1  # which is rounding


class PeerClock:
    """The clock of one producer.

    >>> clock = PeerClock()
    >>> clock.sampled(1, asked_us=1_000, at_us=2_001_100, now=1_200)
    >>> clock.estimate.offset_us, clock.estimate.error_us(1_200)
    (2000000, 100)
    >>> clock.entered(2_000_700, now=1_200)
    700
    """

    def __init__(self) -> None:
        self.estimate: ClockOffset | None = None
        self.incarnation = -1
        """The incarnation of the producer whose clock is estimated."""
        self.beyond = False
        """Whether it is known to be off beyond the bound."""
        self._before_us: int | None = None
        """The offset that was last known in its incarnation before."""

    def sampled(self, incarnation: int, *, asked_us: int, at_us: int, now: int) -> None:
        """Take a round trip: a heartbeat of `asked_us` was answered at `at_us` by the producer's
        clock, and the answer has arrived now."""
        sample = ClockOffset(at_us - (asked_us + now) // 2, now - asked_us, now)
        known = self.estimate
        if incarnation != self.incarnation:
            self.incarnation = incarnation
            self._before_us = None if known is None else known.offset_us
            known = None
        if (
            known is None
            or sample.error_us(now) <= known.error_us(now)
            or sample.contradicts(known, now)
        ):
            self.estimate = sample

    def passed(self, bound_us: int, now: int) -> bool:
        """Whether the offset has just passed a bound for certain, or come back for certain."""
        if self.estimate is None:
            return False
        off_us, error_us = abs(self.estimate.offset_us), self.estimate.error_us(now)
        was = self.beyond
        self.beyond = off_us + error_us > bound_us if was else off_us - error_us > bound_us
        return self.beyond != was

    def entered(self, entered_us: int, *, now: int, restored: bool = False) -> int:
        """An entry time of the producer by this node's clock: it is never in the future.

        It is `restored` if the producer has it from an earlier incarnation.
        """
        assert self.estimate is not None, "entry times of a clock that is not known"
        offset_us = self.estimate.offset_us
        if restored and self._before_us is not None:
            offset_us = self._before_us
        return max(now - OLDEST_US, min(now, entered_us - offset_us))
