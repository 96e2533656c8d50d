"""Durations: exact in both directions, and clear about what is none."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from australis.kernel.durations import format_duration, parse_duration
from australis.kernel.errors import UserError


@given(st.integers(0, 10**15))
def test_what_is_formatted_reads_back(us: int) -> None:
    assert parse_duration(format_duration(us)) == us


@given(st.integers(0, 10**12), st.sampled_from([("ms", 3), ("s", 6)]))
def test_decimal_fractions_are_exact(us: int, unit: tuple[str, int]) -> None:
    """1.001 ms is 1001 µs, whatever a float makes of it."""
    name, places = unit
    written = f"{us // 10**places}.{us % 10**places:0{places}d} {name}"
    assert parse_duration(written) == us == Fraction(written.split()[0]) * 10**places


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("500 ms", 500_000),
        ("1.001 ms", 1_001),
        ("60s", 60_000_000),
        ("1 min 30 s", 90_000_000),
        ("1 h", 3_600_000_000),
        ("2 hours", 7_200_000_000),
        ("1 Day", 86_400_000_000),
        ("7 us", 7),
        ("7 µs", 7),
        ("0 s", 0),
        ("0.5 minutes", 30_000_000),
    ],
)
def test_as_people_write_them(text: str, us: int) -> None:
    assert parse_duration(text) == us


@pytest.mark.parametrize(
    "text", ["", " ", "5", 5, None, "s", "-1 s", "1 parsec", "1 s x", "1e3 s", "0.5 us", "1..5 s"]
)
def test_what_is_no_duration_says_so(text: object) -> None:
    with pytest.raises(UserError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0 s"),
        (90_000_000, "90 s"),
        (60_000_000, "60 s"),
        (120_000_000, "2 min"),
        (7_200_000_000, "2 h"),
        (172_800_000_000, "2 d"),
        (1_500, "1500 us"),
        (250_000, "250 ms"),
    ],
)
def test_the_shortest_exact_way(us: int, text: str) -> None:
    assert format_duration(us) == text
