"""The interface of a protocol machine, and the effects that every world executes.

A machine is a class with one mutator, `handle(event, now) -> effects`. Events say
what happened, effects what is to be done, and the world that drives the machine
executes them in list order before it hands over the next event. Machines read no
clock and do no I/O: `now` is the local clock of their node, in microseconds, and
random numbers come from a generator that they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """A message from one node to another; its name is a noun."""


class Event(msgspec.Struct, frozen=True, gc=False):
    """An input of a machine; its name is in the past tense."""


class Effect(msgspec.Struct, frozen=True, gc=False):
    """A request of a machine to its world; its name is an imperative."""


class MessageReceived(Event, frozen=True, gc=False):
    """A message arrived; it may be late, repeated or out of order."""

    sender: str
    message: Message


class TimerFired(Event, frozen=True, gc=False):
    """A timer that was set has come due."""

    name: str


class Send(Effect, frozen=True, gc=False):
    """Send a message, which the network may lose."""

    to: str
    message: Message


class SetTimer(Effect, frozen=True, gc=False):
    """Fire once when the node's clock shows `at`; a later timer of the same name replaces it."""

    name: str
    at: int


class Machine(Protocol):
    """A protocol core."""

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        """Process one event; returns the effects in order."""
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
    if hasattr(value, "brief"):
        return str(value.brief)
    if isinstance(value, msgspec.Struct):
        return describe(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_short(v) for v in value) + "]"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return str(value)
