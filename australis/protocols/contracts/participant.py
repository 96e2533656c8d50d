"""A participant: it sheds tasks that cost too much and takes those that pay (thesis 6.3 to 6.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from australis.kernel.machine import Effect, Event, MessageReceived, Send, SetTimer, TimerFired
from australis.protocols.contracts.buying import OFFER, Buying
from australis.protocols.contracts.choices import Valuation
from australis.protocols.contracts.events import (
    ContractOptions,
    ContractsChanged,
    Leaving,
    PartnerFailed,
    PartnerLeft,
    Rewrite,
    ServiceMissed,
    Started,
    TasksChanged,
    Write,
)
from australis.protocols.contracts.holdings import RESEND, Holdings
from australis.protocols.contracts.messages import (
    Admitted,
    Answer,
    Complaint,
    Due,
    Move,
    Offer,
    Paid,
    Receipt,
    ReleaseTasks,
    Return,
    Returned,
    Room,
)
from australis.protocols.contracts.selling import GATHER, Selling
from australis.protocols.contracts.service import COMPLAIN, Service
from australis.protocols.contracts.terms import Contract


class ParticipantMachine:
    """One participant with its contracts, in both directions."""

    selling_class: type[Selling] = Selling
    """The class of the seller's side, which experiments replace."""

    def __init__(
        self,
        name: str,
        contracts: Iterable[Contract],
        value: Valuation,
        options: ContractOptions | None = None,
    ) -> None:
        options = options or ContractOptions()
        self.name = name
        self._journal_limit = options.journal
        self._journal_length = 0
        self.holdings = Holdings(name, value, options)
        self.service = Service(name, self.holdings.ledger, options)
        self.selling = self.selling_class(name, value, options, self.holdings)
        self.buying = Buying(name, value, options, self.holdings)
        self._sign(contracts)
        self._handlers: dict[type, Callable[[str, Any, int], list[Effect]]] = {
            Offer: self.selling.offered,
            ReleaseTasks: self.selling.released,
            Move: self._move,
            Answer: self.buying.answered,
            Receipt: self.holdings.confirmed,
            Room: self.buying.has_room,
            Due: self.holdings.due,
            Paid: self.holdings.paid,
            Return: self.holdings.asked_back,
            Returned: self.holdings.returned,
            Complaint: self.service.complained,
            Admitted: self.service.admitted,
        }

    def _sign(self, contracts: Iterable[Contract]) -> None:
        contracts = tuple(contracts)
        for part in (self.holdings, self.service, self.selling, self.buying):
            part.sign(contracts)

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Process an event and return its effects in order."""
        load = self.holdings.load
        effects = self._handle(event, now)
        if self.holdings.load != load:
            effects += self.selling.notify(now)
        written = tuple(
            e for effect in effects if isinstance(effect, Write) for e in effect.entries
        )
        if not written:
            return effects
        # All journal entries of one event are written together, before any message is sent.
        effects = [Write(written), *(e for e in effects if not isinstance(e, Write))]
        self._journal_length += len(written)
        if self._journal_length > self._journal_limit:
            effects.append(self._rewrite())
        return effects

    def _rewrite(self) -> Rewrite:
        """A compacted journal; growth until the next compaction is counted from here."""
        self._journal_length = 0
        return Rewrite((*self.holdings.carried(), *self.service.carried()))

    def _handle(self, event: Event, now: int) -> list[Effect]:
        match event:
            case MessageReceived(sender, message):
                return self._handlers[type(message)](sender, message, now)
            case TimerFired(timer):
                return self._fired(timer, now)
            case Started():
                effects = self.holdings.start(event, now)
                effects += self.service.start(event.journal, now)
                self._journal_length = len(event.journal)
                self.buying.start(event.incarnation, event.wake_us)
                return [*effects, SetTimer(OFFER, max(now, event.wake_us))]
            case TasksChanged():
                return self.holdings.change(event, now)
            case ContractsChanged(contracts):
                self._sign(contracts)
                return []
            case Leaving():
                return self.holdings.leave()
            case ServiceMissed(seller):
                return self.service.missed(seller, now)
            case PartnerFailed(partner):
                effects = self.holdings.partner_failed(partner, now)
                return [*effects, *self._forget(partner, now)]
            case PartnerLeft(partner):
                effects = self.holdings.partner_left(partner, now)
                return [*effects, *self._forget(partner, now)]
        raise AssertionError(f"unknown event {event}")

    def _fired(self, timer: str, now: int) -> list[Effect]:
        if timer == RESEND:
            return self.holdings.resend(now)
        if timer == COMPLAIN:
            return self.service.again(now)
        if timer == GATHER:
            return self.selling.decide(now)
        effects = self.selling.expire(now)
        if timer == OFFER and not self.buying.negotiating:
            effects += self.holdings.review(now)
        return [*effects, *self.buying.fired(timer, now)]

    def _move(self, sender: str, message: Move, now: int) -> list[Effect]:
        taken, effects = self.holdings.take(sender, message, now, self.selling.promised)
        answer = Send(sender, Receipt(message.movement, taken))
        return [*effects, answer]

    def _forget(self, partner: str, now: int) -> list[Effect]:
        """Abandon the negotiations with a failed partner."""
        return [*self.selling.forget(partner), *self.buying.forget(partner, now)]
