"""The time of a source never goes back, never stands still, and meets its clock again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from australis.streams.source_clock import SLOWED, SourceClock

TIMES = st.integers(min_value=1, max_value=1 << 50)


@given(TIMES, TIMES, st.lists(st.integers(min_value=0, max_value=1 << 40), max_size=20))
def test_it_goes_on_from_the_boundary_and_never_back(
    boundary_us: int, now_us: int, passed_us: list[int]
) -> None:
    clock = SourceClock(boundary_us, now_us)
    times = [clock.time(now_us + passed) for passed in sorted(passed_us)]
    assert times == sorted(times)
    assert all(time >= boundary_us for time in times)
    assert all(
        time >= now_us + passed for time, passed in zip(times, sorted(passed_us), strict=True)
    )


@given(TIMES, TIMES)
def test_it_meets_the_clock_after_twice_the_difference(boundary_us: int, now_us: int) -> None:
    clock = SourceClock(boundary_us, now_us)
    apart_us = max(0, boundary_us - now_us)
    met_us = now_us + SLOWED * apart_us
    assert clock.ahead_us(now_us) == apart_us
    assert clock.time(met_us) == met_us
    assert clock.ahead_us(met_us + 1) == 0


@given(TIMES, st.integers(min_value=SLOWED, max_value=1 << 40))
def test_it_does_not_stand_still(ahead_us: int, passed_us: int) -> None:
    clock = SourceClock(1 + ahead_us, 1)
    assert clock.time(1 + passed_us) > 1 + ahead_us or clock.time(1 + passed_us) == 1 + passed_us


def test_a_clock_that_is_not_behind_is_followed() -> None:
    clock = SourceClock(90, 100)
    assert [clock.time(now) for now in (100, 101, 500)] == [100, 101, 500]
