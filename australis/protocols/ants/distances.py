"""Distances: how far some servers are from a cell.

A chain that others join or split off from should not lead past where those come from or go to. So a
cell that ants come by, which look for servers for such a chain, asks these servers, and takes half the
time until they answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect, Send
from australis.protocols.ants.events import AntOptions
from australis.protocols.ants.messages import Ping, Pong

Far = tuple[tuple[str, float], ...]
"""Servers, and how many seconds away they are."""


class Distances:
    """What one cell knows of them."""

    def __init__(self, name: str, options: AntOptions) -> None:
        self._name = name
        self._options = options
        self._far_s: dict[str, float] = {}
        self._asked_us: dict[str, int] = {}

    def ask(self, servers: Iterable[str], now: int) -> list[Effect]:
        """Ask servers that have not been asked lately."""
        due = [
            server
            for server in servers
            if server != self._name
            and now - self._asked_us.get(server, -(1 << 62)) >= self._after(server)
        ]
        self._asked_us |= dict.fromkeys(due, now)
        return [Send(server, Ping(now)) for server in due]

    def _after(self, server: str) -> int:
        """One that has answered need not be asked again for long."""
        known = server in self._far_s
        return self._options.expiry_us if known else self._options.resend_us

    def answered(self, server: str, pong: Pong, now: int) -> None:
        """A server has answered."""
        self._far_s[server] = (now - pong.asked_us) / 2 / SECOND

    def expire(self, now: int) -> None:
        """Forget those that nobody has asked for."""
        for server, asked in list(self._asked_us.items()):
            if now - asked > 2 * self._options.expiry_us:
                del self._asked_us[server]
                self._far_s.pop(server, None)

    def of(self, servers: Iterable[str]) -> Far:
        """Those that are known."""
        far = {**self._far_s, self._name: 0.0}
        return tuple((server, far[server]) for server in servers if server in far)
