"""A peer that announces its load, watches the operators it is responsible for, and starts moves."""

from __future__ import annotations

from random import Random

import msgspec

from australis.kernel.machine import Effect, Event, MessageReceived, Send, SetTimer, TimerFired
from australis.protocols.hotspots.composer import Composer
from australis.protocols.hotspots.criteria import HotSpot, find, inverted
from australis.protocols.hotspots.events import (
    Arrived,
    Hosted,
    HotSpotOptions,
    Measured,
    Move,
    MoveEnded,
    OfferOneMore,
    Wanted,
)
from australis.protocols.hotspots.levels import Levels
from australis.protocols.hotspots.loads import Averages, LoadMeter
from australis.protocols.hotspots.messages import MigrationDecision, Offer
from australis.protocols.ring.events import Fetched, Started
from australis.protocols.ring.peer import RingMachine

BALANCE = "balance"
LEAST_RELIEF = 0.2
"""A component that adds less than this to the load of its peer is not worth moving."""
_TO_BYTES = msgspec.msgpack.Encoder()
_FROM_BYTES = msgspec.msgpack.Decoder(Offer)


def _count(operators: dict[str, tuple[str, ...]]) -> int:
    return sum(map(len, operators.values()))


class BalancerMachine:
    """The balancer of one peer; all but load and applications is left to its ring machine."""

    def __init__(
        self, ring: RingMachine, options: HotSpotOptions | None = None, rng: Random | None = None
    ) -> None:
        self.name = ring.name
        self.ring = ring
        self.updates = 0
        """The number of times this peer has announced its load."""
        self._options = options or HotSpotOptions()
        self._levels = Levels(self._options.levels)
        self._meter = LoadMeter()
        self._averages = Averages(0.0, 0.0, 0.0)
        self._unmeasured = 0
        """The number of components that came, less those that went, since the last measurement."""
        self._parts: dict[str, float] = {}
        self._operators: dict[str, tuple[str, ...]] = {}
        self._came_from: dict[str, str] = {}
        self._leaving: str | None = None
        self._rests_until = 0
        self._full_until = 0
        self._told_us: dict[str, int] = {}
        """When each peer last took part in a move that this peer decided on."""
        near = self._options.thresholds.imbalance
        self._rng = rng or Random(self.name)
        self._composer = Composer(self._fetch, self._rng, near)

    def _fetch(self, tag: str, under: str, now: int) -> list[Effect]:
        return self.ring.handle(Fetched(tag, under), now)

    @property
    def averages(self) -> Averages:
        """The last measured load, plus one for every component that has arrived since: otherwise
        all peers in search of a target would find this one at the same time."""
        last = self._averages
        return Averages(max(0.0, last.one + self._unmeasured), last.five, last.fifteen)

    def welcomes(self, now: int) -> bool:
        """Whether another component may come: not until the last one shows in the load, or all
        overloaded peers would move theirs to the same least loaded peer."""
        if now < self._full_until:
            return False
        return self.averages.one <= self._options.thresholds.overload

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Process an event and return its effects in order."""
        return self._composer.absorb(self._handle(event, now), now)

    def _handle(self, event: Event, now: int) -> list[Effect]:
        match event:
            case Wanted(application, operators):
                return self._composer.compose(application, operators, now)
            case MessageReceived(_, MigrationDecision() as decision):
                return self._decided(decision, now)
            case TimerFired("balance"):
                again = SetTimer(BALANCE, now + self._options.balance_us)
                return [again, *self._balance(now)]
            case Measured(used, parts):
                self._parts = parts
                return self._measured(used.load, now)
            case Hosted(operators):
                return self._hosted(operators, now)
            case Arrived(component, source):
                self._came_from[component] = source
                self._full_until = now + self._options.rest_us
                return []
            case MoveEnded(component):
                return self._ended(component, now)
            case Started():
                # Peers start at different times, or they would all decide on the same loads.
                wait_us = self._rng.randrange(self._options.balance_us)
                first = SetTimer(BALANCE, now + 1 + wait_us)
                return [first, *self.ring.handle(event, now)]
        return self.ring.handle(event, now)

    # --- what this peer tells ----------------------------------------------------------------

    def _measured(self, load: float, now: int) -> list[Effect]:
        """Announce the load to the responsible peers if it has left its level."""
        self._averages = self._meter.sample(load, now)
        self._unmeasured = 0
        return self._tell(now)

    def _tell(self, now: int) -> list[Effect]:
        if not self._levels.changed(self.averages.one):
            for operator in self._operators:
                self.ring.refresh(operator, self._offer(operator))
            return []
        effects: list[Effect] = []
        for operator in sorted(self._operators):
            self.updates += 1
            effects += self.ring.register(operator, self._offer(operator), now)
        return effects

    def _hosted(self, operators: dict[str, tuple[str, ...]], now: int) -> list[Effect]:
        effects: list[Effect] = []
        gone = set(self._operators) - set(operators)
        new = set(operators) - set(self._operators)
        self._unmeasured += _count(operators) - _count(self._operators)
        self._operators = dict(operators)
        for operator in sorted(gone):
            effects += self.ring.register(operator, b"", now)
        for operator in sorted(operators):
            if operator in new:
                effects += self.ring.register(operator, self._offer(operator), now)
        effects += self._tell(now)
        here = {component for running in operators.values() for component in running}
        self._came_from = {c: s for c, s in self._came_from.items() if c in here}
        return effects

    def _offer(self, operator: str) -> bytes:
        return _TO_BYTES.encode(Offer(self.averages, len(self._worth_moving(operator))))

    def _worth_moving(self, operator: str) -> list[str]:
        """Components whose move would relieve this peer, by decreasing load (1 if unknown)."""
        parts = {c: self._parts.get(c, 1.0) for c in self._operators.get(operator, ())}
        worth = (c for c in parts if parts[c] >= LEAST_RELIEF)
        return sorted(worth, key=parts.__getitem__, reverse=True)

    # --- what it is responsible for ------------------------------------------------------------

    def _balance(self, now: int) -> list[Effect]:
        """Look for a hot spot among the peers that offer each operator."""
        effects: list[Effect] = []
        for operator in self.ring.held(now):
            offers = {
                entry.owner: _FROM_BYTES.decode(entry.value)
                for entry in self.ring.store.under(operator, now)
            }
            # A move takes time, and its effect on the measured load takes more.
            patience = self._options.balance_us + self._options.rest_us
            told = {peer for peer, at in self._told_us.items() if now < at + patience}
            loads = {peer: o.averages for peer, o in offers.items() if peer not in told}
            running = {peer for peer, offer in offers.items() if offer.running}
            found = find(loads, self._options.thresholds, running)
            if found is not None:
                effects += self._act(operator, found, offers, now)
        return effects

    def _act(
        self, operator: str, found: HotSpot, offers: dict[str, Offer], now: int
    ) -> list[Effect]:
        if found.target is None:
            return [OfferOneMore(operator)]
        self._told_us[found.source] = self._told_us[found.target] = now
        target = offers[found.target].averages
        return [Send(found.source, MigrationDecision(operator, found.target, target))]

    # --- a hot spot -------------------------------------------------------------------------------

    def _decided(self, decision: MigrationDecision, now: int) -> list[Effect]:
        """Move a component, unless one is leaving already in answer to the same overload."""
        if self._leaving is not None or now < self._rests_until or decision.target == self.name:
            return []
        for component in self._worth_moving(decision.operator):
            if self._may_go(component, decision):
                self._leaving = component
                return [Move(component, decision.target)]
        return []

    def _may_go(self, component: str, decision: MigrationDecision) -> bool:
        if self._came_from.get(component) != decision.target:
            return True
        minutes = self._options.thresholds.minutes
        return inverted(self.averages, decision.averages, minutes)

    def _ended(self, component: str, now: int) -> list[Effect]:
        if component == self._leaving:
            self._leaving = None
            self._rests_until = now + self._options.rest_us
        return []
