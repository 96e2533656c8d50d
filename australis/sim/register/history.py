"""The checker of histories: what users were told agrees with one order of all edits.

A value is the list of the edits that made it, so that every value tells its whole history. That
makes linearizability cheap to check: all values of a register are prefixes of one another, and an
operation that begins after another has ended sees at least as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from australis.sim.harness.model import Violation


@dataclass
class Operation:
    """An operation of a user, and what became of it."""

    tag: str
    register: str
    edits: bool
    begun_us: int
    ended_us: int | None = None
    outcome: str = ""
    """decided, refused, unknown or unreachable; empty while it lasts, or if its node crashed."""
    history: tuple[str, ...] = ()
    """The edits in the value that it was told."""
    version: int = 0


def values(encoded: bytes) -> tuple[str, ...]:
    """The edits that made a value."""
    return msgspec.msgpack.decode(encoded, type=tuple[str, ...]) if encoded else ()


def check(operations: list[Operation]) -> Iterator[Violation]:
    """The promises that a history of all registers breaks."""
    for register in sorted({one.register for one in operations}):
        yield from _check_register([one for one in operations if one.register == register])


def _check_register(operations: list[Operation]) -> Iterator[Violation]:
    told = [one for one in operations if one.outcome in ("decided", "refused")]
    longest = max((one.history for one in told), key=len, default=())
    for one in told:
        if one.history != longest[: len(one.history)] or one.version != len(one.history):
            yield Violation("history", f"{one.tag} saw {one.history}, another one {longest}")
        if one.edits and (one.outcome == "decided") != (one.tag in one.history):
            yield Violation("told", f"{one.tag} is {one.outcome}, and its value {one.history}")
    if len(set(longest)) < len(longest):
        yield Violation("once", f"an edit was applied twice: {longest}")
    for one in operations:
        if one.outcome in ("refused", "unreachable") and one.tag in longest:
            yield Violation("told", f"{one.tag} is {one.outcome}, and stands in {longest}")
    yield from _check_order(told)


def _check_order(told: list[Operation]) -> Iterator[Violation]:
    """An operation sees what was decided before it began."""
    ends = sorted((one.ended_us or 0, len(one.history), one.tag) for one in told)
    most, at, last = 0, 0, ""
    for one in sorted(told, key=lambda operation: operation.begun_us):
        while at < len(ends) and ends[at][0] < one.begun_us:
            if ends[at][1] > most:
                most, last = ends[at][1], ends[at][2]
            at += 1
        if len(one.history) < most:
            yield Violation("order", f"{one.tag} misses what {last} was told before it began")
