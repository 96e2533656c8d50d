"""Mailboxes for guests: those who read along for a while and whom no file names."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from australis.live.node.mailbox import Mailbox
from australis.live.node.wire import WireError
from australis.protocols.dpc.subscribers import GUEST, GUEST_US, GUESTS


@dataclass
class _Guest:
    """One guest: who it is by its certificate, and when it was last heard of."""

    node: str | None
    heard_s: float
    mailbox: Mailbox = field(default_factory=Mailbox)


class Guests:
    """Makes a mailbox for whoever comes, while there is room; drops those of who has left."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._all: dict[str, _Guest] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._all)

    def heard(self, name: str, node: str | None) -> Mailbox:
        """The mailbox of a guest who has just been heard of."""
        with self._lock:
            now = self._clock()
            guest = self._all.get(name)
            if guest is None:
                self._let_go(now)
                if len(self._all) >= GUESTS:
                    raise WireError(f"there are {GUESTS} guests already: come back later")
                guest = self._all[name] = _Guest(node, now)
            if guest.node != node:
                raise WireError(f"'{node}' may not speak for '{name}'")
            guest.heard_s = now
            return guest.mailbox

    def _let_go(self, now: float) -> None:
        for name in [n for n, g in self._all.items() if now - g.heard_s > GUEST_US / 1e6]:
            self._all.pop(name).mailbox.close()

    def send(self, name: str, message: bytes) -> None:
        """Let a message wait for a guest, if it is still there."""
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
