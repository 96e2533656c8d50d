"""The distances in seconds from a cell to some servers.

A chain should not lead past the ends of other chains that join it or split off from it. So a cell
visited by scouts for such a chain pings these ends, and takes half the round-trip time.
"""

from __future__ import annotations

from collections.abc import Iterable

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect, Send
from australis.protocols.ants.events import AntOptions
from australis.protocols.ants.messages import Ping, Pong

Far = tuple[tuple[str, float], ...]
"""Servers with their distances in seconds."""


class Distances:
    """The distances that one cell knows."""

    def __init__(self, name: str, options: AntOptions) -> None:
        self._name = name
        self._options = options
        self._far_s: dict[str, float] = {}
        self._asked_us: dict[str, int] = {}

    def ask(self, servers: Iterable[str], now: int) -> list[Effect]:
        """Ping servers that have not been asked recently."""
        due = [
            server
            for server in servers
            if server != self._name
            and now - self._asked_us.get(server, -(1 << 62)) >= self._after(server)
        ]
        self._asked_us |= dict.fromkeys(due, now)
        return [Send(server, Ping(now)) for server in due]

    def _after(self, server: str) -> int:
        """The time after which a server is asked again, which is longer once it has answered."""
        known = server in self._far_s
        return self._options.expiry_us if known else self._options.resend_us

    def answered(self, server: str, pong: Pong, now: int) -> None:
        """Note a server's distance from its answer."""
        self._far_s[server] = (now - pong.asked_us) / 2 / SECOND

    def expire(self, now: int) -> None:
        """Forget distances that no scout has needed recently."""
        for server, asked in list(self._asked_us.items()):
            if now - asked > 2 * self._options.expiry_us:
                del self._asked_us[server]
                self._far_s.pop(server, None)

    def of(self, servers: Iterable[str]) -> Far:
        """The known distances to these servers."""
        far = {**self._far_s, self._name: 0.0}
        return tuple((server, far[server]) for server in servers if server in far)
