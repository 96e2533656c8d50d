"""Ids for handled events, so that each one can name its cause.

An *entry* is one event that a machine of a node was handed. Its id consists of the node, the
incarnation and a count: `a.86400000.17`. Every message carries the entry that led to it, and so
does every timer and every piece of work; so each line of `events` can be followed back over all
nodes, as far as their `trace` reaches.
"""

from __future__ import annotations

from australis.kernel.machine import Event, MessageReceived, TimerFired

NO_ENTRY = ""
"""The id for the cause of an event that has none, such as incoming rows."""


class Entries:
    """The counter that numbers the entries of one node."""

    def __init__(self, node: str) -> None:
        self.count = 0
        """The number of entries in this incarnation."""
        self._node = node
        self._incarnation = f"{node}.0."

    def begin(self, incarnation: int) -> None:
        """Start counting for an incarnation, which becomes part of every id."""
        self._incarnation = f"{self._node}.{incarnation}."

    def next(self) -> str:
        """The id of the next entry."""
        self.count += 1
        return f"{self._incarnation}{self.count}"


def no_entries() -> str:
    """A stand-in for `Entries.next` where entries are not counted."""
    return NO_ENTRY


def entry_of(node: str | None, cause: str) -> str:
    """The cause that a node gives for its message, if it is an entry of that node; else empty.

    >>> entry_of("a", "a.1.7"), entry_of("b", "a.1.7"), entry_of(None, "a.1.7")
    ('a.1.7', '', '')
    """
    return cause if node is not None and cause.startswith(f"{node}.") else NO_ENTRY


def brief(event: Event) -> str:
    """An event in a few words.

    >>> brief(TimerFired("heartbeat"))
    'timer heartbeat'
    """
    match event:
        case MessageReceived(sender=sender, message=message):
            return f"{type(message).__name__} from {sender}"
        case TimerFired(name=name):
            return f"timer {name}"
    return type(event).__name__
