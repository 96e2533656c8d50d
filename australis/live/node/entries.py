"""Ids for what a node handles, so that one thing can be told as the cause of another.

An *entry* is one event that a machine of a node was handed. Its id says at which node,
in which life, and as which one: `a.86400000.17`. Every message carries the entry that led
to it, every timer and every piece of work too; so whatever a node tells (`events`) can be
followed back over all nodes, as far as they wrote it down (`trace`).
"""

from __future__ import annotations

from australis.kernel.machine import Event, MessageReceived, TimerFired

NO_ENTRY = ""
"""What has no cause, such as rows that come in, begins a story."""


class Entries:
    """Numbers the entries of one node."""

    def __init__(self, node: str) -> None:
        self.count = 0
        """How many there were in this life."""
        self._node = node
        self._life = f"{node}.0."

    def begin(self, life: int) -> None:
        """Tell the entries of this life from those of every other."""
        self._life = f"{self._node}.{life}."

    def next(self) -> str:
        """The id of one more entry."""
        self.count += 1
        return f"{self._life}{self.count}"


def no_entries() -> str:
    """For whoever keeps no count."""
    return NO_ENTRY


def entry_of(node: str | None, cause: str) -> str:
    """What a node gives as the cause of its message, if it is an entry of its own.

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
