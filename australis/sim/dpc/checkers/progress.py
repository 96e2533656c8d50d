"""Frequent failures do not stop the system: stable tuples go on (thesis property 7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from australis.protocols.dpc.proxies import Insertions
from australis.sim.dpc.probes import Checker


class ForwardProgress(Checker):
    """Every client gets something stable at least every so often.

    It is for schedules in which some input is always down, but none for longer than a
    part of that time.
    """

    name = "progress"

    def __init__(self, clients: Iterable[str], every_us: int, until_us: int) -> None:
        self._last = dict.fromkeys(clients, 0)
        self._every = every_us
        self._until = until_us
        self.longest = 0

    def delivered(self, client: str, what: Any, now: int) -> None:
        if isinstance(what, Insertions):
            self._look(client, min(now, self._until))
            self._last[client] = now

    def _look(self, client: str, now: int) -> None:
        waited = now - self._last[client]
        self.longest = max(self.longest, waited)
        if waited > self._every:
            self.fail(
                f"{client} got nothing stable for {waited / 1e6:.2f} s;"
                f" {self._every / 1e6:.2f} s are allowed"
            )

    def finish(self) -> None:
        for client in self._last:
            self._look(client, self._until)
