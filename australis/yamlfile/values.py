"""The types of settings: constrained numbers and texts, and texts with a meaning."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from ipaddress import IPv6Address, ip_address
from typing import Annotated, Any, Final, Self

from msgspec import Meta

from australis.kernel.durations import SECOND, parse_duration
from australis.kernel.errors import UserError
from australis.kernel.names import MAX_NAME
from australis.yamlfile.schema import Value, shown

_MOST = sys.float_info.max
Text = Annotated[str, Meta(min_length=1, description="text")]
Name = Annotated[
    str,
    Meta(min_length=1, max_length=MAX_NAME, description=f"a name of at most {MAX_NAME} characters"),
]
Finite = Annotated[float, Meta(ge=-_MOST, le=_MOST, description="a number")]
Number = Annotated[float, Meta(ge=0, le=_MOST, description="a number that is not negative")]
Positive = Annotated[float, Meta(gt=0, le=_MOST, description="a number above 0")]
Part = Annotated[float, Meta(gt=0, le=1, description="above 0 and at most 1")]
Count = Annotated[int, Meta(ge=1, le=2**31, description="a whole number of at least 1")]
Port = Annotated[int, Meta(ge=1, le=65535, description="a port from 1 to 65535")]
OneOrMore = Annotated[
    Name | Annotated[tuple[Name, ...], Meta(min_length=1)],
    Meta(description="a name or a list of names"),
]


def several(names: str | tuple[str, ...]) -> tuple[str, ...]:
    """One name, or several, as a tuple."""
    return (names,) if isinstance(names, str) else names


class Duration(Value):
    """A duration such as '500 ms', in microseconds; zero is allowed."""

    longest_us = 10**18
    """Thirty thousand years."""

    @property
    def us(self) -> int:
        """The duration in microseconds."""
        return int(self.meaning)

    @property
    def s(self) -> float:
        """The duration in seconds."""
        return self.us / SECOND

    @classmethod
    def read(cls, written: Any) -> Self:
        us = parse_duration(written)
        if us > cls.longest_us:
            raise UserError(
                f"should be at most {cls.longest_us // SECOND:,} s, not {shown(written)}"
            )
        return cls(us)


class Span(Duration):
    """A duration longer than zero."""

    @classmethod
    def read(cls, written: Any) -> Self:
        span = super().read(written)
        if span.us < 1:
            raise UserError(f"should be longer than nothing, not {shown(written)}")
        return span


class SpanOrNever(Value):
    """A duration longer than zero in microseconds, or 'never', which is None."""

    @classmethod
    def read(cls, written: Any) -> Self:
        return cls(None if written == "never" else Span.read(written).us)


class LogSize(Value):
    """A size of logs such as '2 GB', or '200 buckets', as (bytes, buckets); one of them is None."""

    units: Final = {"MB": 10**6, "GB": 10**9, "TB": 10**12}

    @classmethod
    def read(cls, written: Any) -> Self:
        found = re.fullmatch(r"(\d{1,9}) *(MB|GB|TB|buckets?)", str(written))
        number = int(found[1]) if found else 0
        if not found or number < 1:
            raise UserError(f"should be a size such as 2 GB or 200 buckets, not {shown(written)}")
        if found[2] in cls.units:
            return cls((number * cls.units[found[2]], None))
        return cls((None, number))


class Memory(Value):
    """An amount of memory as Spark writes it, such as 512m or 2g, in megabytes."""

    least_mb = 512
    """Spark does not start with less."""

    @classmethod
    def read(cls, written: Any) -> Self:
        found = re.fullmatch(r"(\d{1,6})([mg])", str(written).lower())
        mb = int(found[1]) * (1024 if found[2] == "g" else 1) if found else 0
        if mb < cls.least_mb:
            raise UserError(f"should be {cls.least_mb}m or more, such as 1g, not {shown(written)}")
        return cls(mb)


class Probability(Value):
    """A part of 1, or a quotient of two whole numbers, such as 1/4."""

    @classmethod
    def read(cls, written: Any) -> Self:
        part = written
        if isinstance(written, str) and "/" in written:
            try:
                part = float(Fraction(written))
            except (ValueError, ArithmeticError):
                raise UserError(f"should be a probability, not {shown(written)}") from None
        if isinstance(part, bool) or not isinstance(part, int | float) or not 0 < part <= 1:
            raise UserError(f"should be above 0 and at most 1, not {shown(part)}")
        return cls(float(part))


class Moment(Value):
    """A time such as 2026-01-01T00:00:00Z, by default in UTC, in microseconds."""

    @classmethod
    def read(cls, written: Any) -> Self:
        try:
            moment = datetime.fromisoformat(written)
        except (TypeError, ValueError):
            raise UserError(
                f"should be a time such as 2026-01-01T00:00:00Z, not {shown(written)}"
            ) from None
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return cls((zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))


_ADDRESS = re.compile(r"(?:\[([^\]]+)\]|([A-Za-z0-9._-]+)):([0-9]{1,9})")


class Address(Value):
    """The address of a listener: host:port, an IPv6 address in brackets."""

    @classmethod
    def read(cls, written: Any) -> Self:
        if not isinstance(written, str) or not written:
            raise UserError(f"should be text, not {shown(written)}")
        found = _ADDRESS.fullmatch(written)
        if not found:
            raise UserError(f"is not host:port: {shown(written)}")
        bracketed, host, port = found.groups()
        if not 1 <= int(port) <= 65535:
            raise UserError(f"has a port that is not one of 1 to 65535: {shown(written)}")
        try:
            address = IPv6Address(bracketed) if bracketed else ip_address(host)
        except ValueError:
            if bracketed:
                raise UserError(f"is not host:port: {shown(written)}") from None
            return cls((host.lower(), int(port)))
        if address.is_unspecified:
            raise UserError(f"is everywhere, so other nodes could not find it: {shown(written)}")
        return cls((str(address), int(port)))
