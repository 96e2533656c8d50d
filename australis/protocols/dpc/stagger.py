"""Replicas that stabilise one after the other (thesis 4.7.3, figure 4-12).

Before a node reconciles it asks one of its replicas, which promises to stay
available. A node refuses while it reconciles itself, or if it needs to and has the
lower name. A promise is a lease: it ends when the other node is done or has not renewed
it in time, so that a promise to a node that died does not block its replica. Where no
replica answers, none can stay available, and the node reconciles alone.
"""

from __future__ import annotations

from random import Random

from australis.kernel.machine import Effect, Send
from australis.protocols.dpc.messages import ReconcileAnswer, ReconcileDone, ReconcileRequest


class Stagger:
    """One node's half of the agreement."""

    def __init__(
        self, name: str, peers: tuple[str, ...], rng: Random, wait_us: int, lease_us: int
    ) -> None:
        self._name = name
        self._peers = peers
        self._rng = rng
        self._wait_us = wait_us
        self._lease_us = lease_us
        self._number = 0
        self._asked: str | None = None
        self._asked_at = 0
        self._next_at = 0
        self._silent: set[str] = set()
        self.active = False
        """Whether this node may reconcile now."""
        self.alone = False
        """Whether this node reconciles without a replica that stays available."""
        self._granted_by: str | None = None
        self._promised: tuple[str, int] | None = None
        """The replica for which this node stays available, and the number of its request."""
        self._promised_until = 0

    def among(self, peers: tuple[str, ...]) -> None:
        """Take turns with these replicas from now on; agreements with others are void."""
        self._peers = peers
        self._silent &= set(peers)
        if self._asked not in peers:
            self._asked = None
        if self._granted_by not in peers:
            self._granted_by = None
        if self._promised is not None and self._promised[0] not in peers:
            self._promised = None

    def ask(self, now: int) -> list[Effect]:
        """Ask for permission to reconcile; called again until it is granted."""
        if self.active or self._bound(now) or now < self._next_at:
            return []
        if self._asked is not None:
            if now - self._asked_at < self._wait_us:
                return []
            self._silent.add(self._asked)
        if self._silent >= set(self._peers):
            self.active = self.alone = True
            self._asked = None
            return []
        others = [p for p in self._peers if p not in self._silent]
        self._number += 1
        self._asked, self._asked_at = self._rng.choice(others), now
        return [Send(self._asked, ReconcileRequest(self._number))]

    def asked(self, peer: str, request: ReconcileRequest, needs: bool, now: int) -> list[Effect]:
        """Answer a replica's request: grant it unless this node reconciles or goes first."""
        promise = (peer, request.number)
        renews = self._promised == promise and self._bound(now)
        if self._promised is not None and self._promised[0] == peer and not renews:
            self._promised = None  # a new request means that it no longer reconciles
        goes_first = (needs or self._asked is not None) and self._name < peer
        granted = renews or not (self.active or goes_first or self._bound(now))
        if granted:
            # A request of this node that is still in flight no longer counts.
            self._asked = None
            self._promised, self._promised_until = promise, now + self._lease_us
        return [Send(peer, ReconcileAnswer(request.number, granted))]

    def renew(self) -> list[Effect]:
        """Renew the lease of the replica that stays available."""
        if self._granted_by is None:
            return []
        return [Send(self._granted_by, ReconcileRequest(self._number))]

    def _bound(self, now: int) -> bool:
        """Whether a promise to another replica is in force."""
        return self._promised is not None and now < self._promised_until

    def answered(self, peer: str, answer: ReconcileAnswer, now: int) -> list[Effect]:
        """Process a replica's answer; after a refusal this node asks again `wait_us` later."""
        if peer == self._granted_by and answer.number == self._number:
            return []  # the promise was renewed
        if peer != self._asked or answer.number != self._number or self.active:
            # Too late: this node has promised to wait, or reconciles alone. Release the other.
            return [Send(peer, ReconcileDone(answer.number))] if answer.granted else []
        self._silent.clear()
        self._asked = None
        if answer.granted:
            self.active, self.alone, self._granted_by = True, False, peer
        else:
            self._next_at = now + self._wait_us
        return []

    def done(self) -> list[Effect]:
        """End this node's reconciliation and release the replica that stayed available."""
        if not self.active:
            return []
        self.active = self.alone = False
        self._silent.clear()
        granted_by, self._granted_by = self._granted_by, None
        return [] if granted_by is None else [Send(granted_by, ReconcileDone(self._number))]

    def released(self, peer: str) -> None:
        """A replica has reconciled, which ends the promise to it."""
        if self._promised is not None and self._promised[0] == peer:
            self._promised = None
