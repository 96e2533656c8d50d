"""A peer that tells its load, watches the operators it is responsible for, and lets go."""

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
_TO_BYTES = msgspec.msgpack.Encoder()
_FROM_BYTES = msgspec.msgpack.Decoder(Offer)


class BalancerMachine:
    """One peer; all that is not about load or applications is its ring's."""

    def __init__(
        self, ring: RingMachine, options: HotSpotOptions | None = None, rng: Random | None = None
    ) -> None:
        self.name = ring.name
        self.ring = ring
        self.updates = 0
        """How often it told its load."""
        self._options = options or HotSpotOptions()
        self._levels = Levels(self._options.levels)
        self._meter = LoadMeter()
        self._averages = Averages(0.0, 0.0, 0.0)
        self._operators: dict[str, tuple[str, ...]] = {}
        self._came_from: dict[str, str] = {}
        self._leaving: str | None = None
        self._rests_until = 0
        self._full_until = 0
        near = self._options.thresholds.imbalance
        self._composer = Composer(self._fetch, rng or Random(self.name), near)

    def _fetch(self, tag: str, under: str, now: int) -> list[Effect]:
        return self.ring.handle(Fetched(tag, under), now)

    @property
    def averages(self) -> Averages:
        """Its load, as last measured."""
        return self._averages

    def welcomes(self, now: int) -> bool:
        """Whether another component may come: not before the last one shows in the load, or all
        who have too much to do would send theirs to the one peer that has least."""
        if now < self._full_until:
            return False
        return self._averages.one <= self._options.thresholds.overload

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Take in what happened; what is to be done about it, in order."""
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
            case Measured(used):
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
                first = SetTimer(BALANCE, now + self._options.balance_us)
                return [first, *self.ring.handle(event, now)]
        return self.ring.handle(event, now)

    # --- what this peer tells ----------------------------------------------------------------

    def _measured(self, load: float, now: int) -> list[Effect]:
        """Tell everybody who should know, if the load has left its level."""
        self._averages = self._meter.sample(load, now)
        if not self._levels.changed(self._averages.one):
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
        self._operators = dict(operators)
        for operator in sorted(gone):
            effects += self.ring.register(operator, b"", now)
        for operator in sorted(operators):
            if operator in new:
                effects += self.ring.register(operator, self._offer(operator), now)
            else:
                self.ring.refresh(operator, self._offer(operator))
        here = {component for running in operators.values() for component in running}
        self._came_from = {c: s for c, s in self._came_from.items() if c in here}
        return effects

    def _offer(self, operator: str) -> bytes:
        return _TO_BYTES.encode(Offer(self._averages, len(self._operators[operator])))

    # --- what it is responsible for ------------------------------------------------------------

    def _balance(self, now: int) -> list[Effect]:
        """Look for a hot spot among those who offer each operator."""
        effects: list[Effect] = []
        for operator in self.ring.held(now):
            offers = {
                entry.owner: _FROM_BYTES.decode(entry.value)
                for entry in self.ring.store.under(operator, now)
            }
            loads = {peer: offer.averages for peer, offer in offers.items()}
            found = find(loads, self._options.thresholds)
            if found is not None:
                effects += self._act(operator, found, offers)
        return effects

    def _act(self, operator: str, found: HotSpot, offers: dict[str, Offer]) -> list[Effect]:
        if found.target is None:
            return [OfferOneMore(operator)]
        if not offers[found.source].running:
            return []  # what loads it is something else
        target = offers[found.target].averages
        return [Send(found.source, MigrationDecision(operator, found.target, target))]

    # --- a hot spot -------------------------------------------------------------------------------

    def _decided(self, decision: MigrationDecision, now: int) -> list[Effect]:
        """Let a component go, unless one is leaving already: two decisions for one overload
        would be one too many."""
        if self._leaving is not None or now < self._rests_until or decision.target == self.name:
            return []
        for component in self._operators.get(decision.operator, ()):
            if self._may_go(component, decision):
                self._leaving = component
                return [Move(component, decision.target)]
        return []

    def _may_go(self, component: str, decision: MigrationDecision) -> bool:
        if self._came_from.get(component) != decision.target:
            return True
        minutes = self._options.thresholds.minutes
        return inverted(self._averages, decision.averages, minutes)

    def _ended(self, component: str, now: int) -> list[Effect]:
        if component == self._leaving:
            self._leaving = None
            self._rests_until = now + self._options.rest_us
        return []
