"""Every tentative tuple is undone or corrected in the end, and the signals are in order."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from australis.protocols.dpc.proxies import Insertions, RecDone, Skipped, Tentatives, Undo
from australis.sim.dpc.probes import Checker


class Corrected(Checker):
    """Every tentative tuple is undone or corrected in the end, as the signals announce it."""

    name = "corrected"

    def __init__(self, clients: Iterable[str], left: Collection[str] = ()) -> None:
        """A checker of these clients; those that have `left` for ever are not corrected."""
        self._left = left
        self._stable = dict.fromkeys(clients, -1)
        self._believed: dict[str, dict[int, int]] = {client: {} for client in self._stable}
        self._correcting: set[str] = set()
        self._last = dict.fromkeys(self._stable, -1)
        """The last bucket delivered tentatively, by client and stream."""
        self._undone = dict.fromkeys(self._stable, -1)
        """The end of the stable tuples at the last UNDO, by client and stream."""
        self.tentative = 0
        """The number of tentative tuples delivered to all clients."""

    def delivered(self, client: str, what: Any, now: int) -> None:
        believed = self._believed[client]
        if isinstance(what, Insertions):
            number = what.bucket.number
            if believed and client not in self._correcting:
                self.fail(f"{client} got stable bucket {number} over tentative ones without UNDO")
            believed.pop(number, None)
            self._stable[client] = number
        elif isinstance(what, Tentatives):
            self._tentative(client, what)
        elif isinstance(what, Skipped):
            self._stable[client] = what.upto
        elif isinstance(what, Undo):
            believed.clear()
            self._correcting.add(client)
            self._undone[client] = what.upto
        elif isinstance(what, RecDone):
            if client not in self._correcting:
                self.fail(f"{client} got REC_DONE without UNDO")
            if believed:
                self.fail(f"{client} got REC_DONE though buckets {sorted(believed)} are tentative")
            # Right after the UNDO it only announces that an overlay begins anew (4.11.2).
            if self._undone[client] < self._stable[client] < self._last[client]:
                self.fail(f"{client} got REC_DONE before bucket {self._last[client]} was corrected")
            self._correcting.discard(client)
            self._last[client] = self._stable[client]

    def _tentative(self, client: str, what: Tentatives) -> None:
        bucket = what.bucket
        if bucket.number <= self._stable[client]:
            self.fail(f"{client} got bucket {bucket.number} tentatively though it is stable")
        if bucket.number in self._believed[client]:
            self.fail(f"{client} got bucket {bucket.number} tentatively twice")
        rows = 0 if bucket.batch is None else bucket.batch.num_rows
        self._believed[client][bucket.number] = rows
        self._last[client] = max(self._last[client], bucket.number)
        self.tentative += rows

    def give_up(self, client: str) -> None:
        """The client's stream cannot go on, and nothing of it is corrected any more."""
        self._believed[client].clear()
        self._correcting.discard(client)

    @property
    def waits_for(self) -> str:
        """The clients that still wait for corrections; empty if there are none."""
        for client, believed in self._that_stay:
            if believed or client in self._correcting:
                return f"{client} waits for corrections of {sorted(believed)}"
        return ""

    @property
    def _that_stay(self) -> list[tuple[str, dict[int, int]]]:
        return [(c, believed) for c, believed in self._believed.items() if c not in self._left]

    def finish(self) -> None:
        for client, believed in self._that_stay:
            if believed:
                self.fail(f"{client} still believes buckets {sorted(believed)} tentatively")
            if client in self._correcting:
                self.fail(f"{client} got no REC_DONE after its last UNDO")
