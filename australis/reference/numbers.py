"""Numbers as the JVM computes them: integers that wrap, halves rounded up, floats of 32 bits."""

from __future__ import annotations

import math
from decimal import Decimal
from struct import Struct

_FLOAT = Struct("<f")
NAN = float("nan")
"""The single NaN object, so that keys that contain it compare equal."""


def wrap(value: int, bits: int) -> int:
    """The low bits of an integer, as a signed number.

    >>> wrap(2**31, 32), wrap(-1, 32)
    (-2147483648, -1)
    """
    half = 1 << (bits - 1)
    return value if -half <= value < half else ((value + half) & ((1 << bits) - 1)) - half


def saturate(value: float, bits: int) -> int:
    """A floating-point number as an integer: NaN is 0, what is too large is the largest."""
    if value != value:
        return 0
    half = 1 << (bits - 1)
    return half - 1 if value >= half else -half if value < -half else int(value)


def float32(value: float) -> float:
    """The nearest number of 32 bits."""
    try:
        (found,) = _FLOAT.unpack(_FLOAT.pack(value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(found)


def divide_half_up(value: int, divisor: int) -> int:
    """A quotient of integers, with halves rounded away from zero.

    >>> divide_half_up(-5, 2), divide_half_up(7, 3)
    (-3, 2)
    """
    if divisor < 0:
        value, divisor = -value, -divisor
    whole = (2 * abs(value) + divisor) // (2 * divisor)
    return whole if value >= 0 else -whole


def truncate(value: int, divisor: int) -> int:
    """A quotient of integers, with its fraction cut off.

    >>> truncate(-7, 2)
    -3
    """
    whole = abs(value) // abs(divisor)
    return whole if (value < 0) == (divisor < 0) else -whole


def remainder(value: int, divisor: int) -> int:
    """The remainder that `truncate` leaves; it has the sign of the value."""
    return value - divisor * truncate(value, divisor)


def rescale(value: int, scale: int, to: int) -> int:
    """An unscaled decimal with other decimal places."""
    if to >= scale:
        return int(value * 10 ** (to - scale))
    return divide_half_up(value, 10 ** (scale - to))


def fitting(value: int, precision: int) -> int | None:
    """The unscaled decimal, or None if it has too many digits."""
    return value if abs(value) < 10**precision else None


def unscaled(value: Decimal, scale: int) -> int:
    """A decimal as an integer, with this number of decimal places; halves are rounded up."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "NaN and infinity have no digits"
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    return rescale(number, -exponent, scale) if exponent < 0 else number * 10 ** (exponent + scale)


def to_double(value: int, scale: int) -> float:
    """The double nearest to an unscaled decimal."""
    return float(value) if scale == 0 else value / 10**scale


def round_half_up(value: float) -> float:
    """A double without its fraction, halves rounded away from zero.

    >>> round_half_up(0.49999999999999994), round_half_up(-2.5)
    (0.0, -3.0)
    """
    if abs(value) >= 2**52 or value != value:
        return value
    whole = math.floor(abs(value))
    return math.copysign(whole + (abs(value) - whole >= 0.5), value)
