"""Mailboxes for guests: consumers that read for a while and are in no cluster file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from australis.protocols.dpc.subscribers import GUEST, GUEST_US, GUESTS
from australis.runtime.node.mailbox import Mailbox
from australis.runtime.node.wire import WireError

MAX_QUEUED_BYTES = 1 << 20
"""The largest number of bytes queued for one guest, unless a single message has more."""

GUESTS_PER_IDENTITY = 32
"""The largest number of guests with one certificate, so that it leaves room for others."""


@dataclass
class _Guest:
    """One guest: its identity by certificate, and the time of its last heartbeat."""

    node: str | None
    heard_s: float
    mailbox: Mailbox = field(default_factory=lambda: Mailbox(MAX_QUEUED_BYTES))


class Guests:
    """The mailboxes of all guests: made while there is room, dropped when a guest is gone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._all: dict[str, _Guest] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._all)

    @property
    def names(self) -> list[str]:
        """The guests that are there."""
        return list(self._all)

    def heard(self, name: str, node: str | None) -> Mailbox:
        """The mailbox of a guest from which a message has just arrived."""
        with self._lock:
            now = self._clock()
            guest = self._all.get(name)
            if guest is None:
                self._let_go(now)
                if len(self._all) >= GUESTS:
                    raise WireError(f"there are {GUESTS} guests already: come back later")
                named = sum(1 for one in self._all.values() if one.node == node)
                if node is not None and named >= GUESTS_PER_IDENTITY:
                    raise WireError(f"'{node}' has {named} guests already")
                guest = self._all[name] = _Guest(node, now)
            if guest.node != node:
                raise WireError(f"'{node}' may not speak for '{name}'")
            guest.heard_s = now
            return guest.mailbox

    def _let_go(self, now: float) -> None:
        for name in [n for n, g in self._all.items() if now - g.heard_s > GUEST_US / 1e6]:
            self._all.pop(name).mailbox.close()

    def send(self, name: str, message: bytes) -> None:
        """Queue a message for a guest, if its mailbox still exists."""
        guest = self._all.get(name)
        if guest is not None:
            guest.mailbox.send(message)

    def close(self) -> None:
        """End the streams of all guests."""
        for guest in list(self._all.values()):
            guest.mailbox.close()


def is_guest(name: str) -> bool:
    """Whether this is the name of a guest."""
    return name.startswith(GUEST)
