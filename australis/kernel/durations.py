"""Durations as people write them, in whole microseconds.

>>> parse_duration("1 min 30 s")
90000000
>>> format_duration(90_000_000)
'90 s'
"""

from __future__ import annotations

import re
from fractions import Fraction

from australis.kernel.errors import UserError

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND

MAX_WRITTEN = 1_000
"""The largest number of characters of a written duration."""
_UNITS = {
    "us": 1,
    "µs": 1,
    "microsecond": 1,
    "ms": MILLISECOND,
    "millisecond": MILLISECOND,
    "s": SECOND,
    "sec": SECOND,
    "second": SECOND,
    "m": 60 * SECOND,
    "min": 60 * SECOND,
    "minute": 60 * SECOND,
    "h": 3600 * SECOND,
    "hour": 3600 * SECOND,
    "d": 86400 * SECOND,
    "day": 86400 * SECOND,
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)\s*")


def parse_duration(text: object) -> int:
    """The duration in microseconds; a `UserError` for anything else."""
    total, at = Fraction(), 0
    written = str(text).strip().lower()
    if len(written) > MAX_WRITTEN:
        raise UserError(f"is not a duration: {written[:40]!r}...")
    while at < len(written):
        part = _PART.match(written, at)
        unit = part and _UNITS.get(part[2], _UNITS.get(part[2].removesuffix("s")))
        if not part or unit is None:
            raise UserError(
                f"is not a duration: {str(text)!r} (write for example '500 ms', '60 s' or '1 h')"
            )
        total += Fraction(part[1]) * unit
        at = part.end()
    if not written or total.denominator != 1:
        raise UserError(f"is not a duration of whole microseconds: {str(text)!r}")
    return int(total)


def format_duration(us: int) -> str:
    """The shortest exact way to write a duration."""
    for name, unit in (("d", 86400), ("h", 3600), ("min", 60)):
        if us and us % (unit * SECOND) == 0 and us // (unit * SECOND) > 1:
            return f"{us // (unit * SECOND)} {name}"
    if us % SECOND == 0:
        return f"{us // SECOND} s"
    if us % MILLISECOND == 0:
        return f"{us // MILLISECOND} ms"
    return f"{us} us"
