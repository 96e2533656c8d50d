"""The contract of a protocol machine, and the effects every world carries out.

A machine is a class with one mutator, `handle(event, now) -> effects`. Events say
what happened, effects what is to be done, and the world that drives the machine
carries them out in list order before it hands over the next event. Machines read
no clock and touch nothing: `now` is the local clock of their node, in
microseconds, and chance comes from a generator they were given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """What one node says to another; a noun."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """What happened; past tense."""


class Effect(msgspec.Struct, frozen=True, gc=False):
    """What the world is to do; imperative."""


class MessageReceived(Event, frozen=True, gc=False):
    """A message arrived; it may be late, repeated or out of order."""

    sender: str
    message: Message


class TimerFired(Event, frozen=True, gc=False):
    """A timer that was set has come due."""

    name: str


class Send(Effect, frozen=True, gc=False):
    """Send a message; whether it arrives is up to the network."""

    to: str
    message: Message


class SetTimer(Effect, frozen=True, gc=False):
    """Fire once when the node's clock shows `at`; a later one of the same name replaces it."""

    name: str
    at: int


class Machine(Protocol):
    """A protocol core."""

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        """Take in what happened; what is to be done about it, in order."""
        ...


def describe(thing: Any) -> str:
    """An event, effect or message in one short line, the same in every run.

    >>> describe(SetTimer("tick", 5))
    'SetTimer(name=tick, at=5)'
    """
    fields = (f"{f}={_short(getattr(thing, f))}" for f in thing.__struct_fields__)
    return f"{type(thing).__name__}({', '.join(fields)})"


def _short(value: Any) -> str:
    if hasattr(value, "num_rows"):
        return f"{value.num_rows} rows"
    if isinstance(value, msgspec.Struct):
        return describe(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_short(v) for v in value) + "]"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return str(value)
