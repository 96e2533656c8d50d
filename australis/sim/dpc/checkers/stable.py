"""No stable tuple is lost, duplicated, reordered or undone at any consumer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from australis.protocols.dpc.proxies import Insertions, Skipped, Undo
from australis.sim.dpc.oracle import Oracle
from australis.sim.dpc.probes import Checker


class StableAtClients(Checker):
    """Every client gets exactly the fault-free stream, bucket by bucket."""

    name = "stable"

    def __init__(
        self,
        oracle: Oracle,
        clients: Mapping[str, str],
        promised: int | None = None,
        let_go: Collection[str] = (),
    ) -> None:
        """Clients that are `let_go` were away for longer than logs wait."""
        self._let_go = let_go
        self._oracle = oracle
        self._clients = clients
        self._promised = promised
        """With bounded logs, the number of latest buckets that must not be skipped."""
        self.end = dict.fromkeys(clients, -1)

    def delivered(self, client: str, what: Any, now: int) -> None:
        if isinstance(what, Insertions):
            bucket = what.bucket
            if bucket.number != self.end[client] + 1:
                self.fail(f"{client} got bucket {bucket.number} after {self.end[client]}")
            if not self._oracle.same(self._clients[client], bucket):
                self.fail(
                    f"{client} got other tuples in bucket {bucket.number} than without faults"
                )
            self.end[client] = bucket.number
        elif isinstance(what, Skipped):
            self._skipped(client, what)
        elif isinstance(what, Undo) and what.upto != self.end[client]:
            self.fail(f"{client} was told to undo to {what.upto}, stable are {self.end[client]}")

    def _skipped(self, client: str, what: Skipped) -> None:
        newest = self._oracle.end(self._clients[client])
        missed = self._promised is None or what.upto > newest - self._promised
        if missed and client not in self._let_go:
            self.fail(f"{client} was told that buckets up to {what.upto} of {newest} are gone")
        self.end[client] = what.upto
