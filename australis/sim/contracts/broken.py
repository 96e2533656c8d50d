"""Broken variants of participants, each with one wrong decision, which the checkers must catch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from msgspec.structs import replace as changed

from australis.kernel.machine import Effect, Event, MessageReceived, Send, SetTimer
from australis.protocols.contracts.choices import Valuation
from australis.protocols.contracts.costs import Costs, Levels
from australis.protocols.contracts.events import Confirmed, Owed, Sold, Write
from australis.protocols.contracts.holdings import RESEND
from australis.protocols.contracts.messages import Move, Paid, Receipt, Return
from australis.protocols.contracts.participant import ParticipantMachine
from australis.sim.contracts.schedule import ContractsScenario
from australis.sim.harness.model import Variant


class _Says(ParticipantMachine):
    """A participant that performs other effects than the protocol's."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Change the effects."""
        return [other for effect in super().handle(event, now) for other in self._other(effect)]

    def _other(self, effect: Effect) -> Iterable[Effect]:
        return [effect]

    def _without(self, effect: Effect, *entries: type) -> Iterable[Effect]:
        """The journal's entries without these."""
        if isinstance(effect, Write):
            kept = tuple(e for e in effect.entries if not isinstance(e, entries))
            return [Write(kept)] if kept else []
        return [effect]


class BooksTwice(ParticipantMachine):
    """A seller books a time d as often as it hears that it is paid for."""

    def _handle(self, event: Event, now: int) -> list[Effect]:
        effects = super()._handle(event, now)
        if isinstance(event, MessageReceived) and isinstance(event.message, Paid):
            self.holdings.ledger.fine(event.sender, self.name, now, 1.0)
        return effects


class PaysTooMuch(_Says):
    """A buyer pays more than the contract allows to be sure that its load is taken."""

    def _other(self, effect: Effect) -> Iterable[Effect]:
        match effect:
            case Send(to, Move(price=price) as move):
                return [Send(to, changed(move, price=3.0 * price + 1.0))]
        return [effect]


class StopsTooSoon(_Says):
    """A buyer stops running tasks when it asks for a movement, not when that is confirmed."""

    def _other(self, effect: Effect) -> Iterable[Effect]:
        if isinstance(effect, Send) and isinstance(effect.message, Move):
            for task in effect.message.tasks:
                self.holdings.tasks.pop(task.name, None)
        return [effect]


class SaysYes(_Says):
    """A seller says that it has taken what it has refused."""

    def _other(self, effect: Effect) -> Iterable[Effect]:
        match effect:
            case Send(to, Receipt(movement)):
                return [Send(to, Receipt(movement, True))]
        return [effect]


class ForgetsWhatItTook(_Says):
    """A seller does not write down what it takes."""

    def _other(self, effect: Effect) -> Iterable[Effect]:
        return self._without(effect, Sold, Owed)


class ForgetsWhatItGave(_Says):
    """A buyer does not write down that the seller has its tasks."""

    def _other(self, effect: Effect) -> Iterable[Effect]:
        return self._without(effect, Confirmed, Owed)


class SaysItOnce(_Says):
    """What was lost is not said again."""

    def _other(self, effect: Effect) -> Iterable[Effect]:
        return [] if isinstance(effect, SetTimer) and effect.name == RESEND else [effect]


class RunsOn(ParticipantMachine):
    """A seller goes on with tasks that its buyer has taken back."""

    def _handle(self, event: Event, now: int) -> list[Effect]:
        before = dict(self.holdings.tasks)
        effects = super()._handle(event, now)
        if isinstance(event, MessageReceived) and isinstance(event.message, Return):
            for name, task in before.items():
                self.holdings.tasks.setdefault(name, task)
        return effects


class KnowsNoCosts(ParticipantMachine):
    """A seller takes whatever it is paid for, whatever runs there already."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        nothing = Costs(cpu=Levels(1e6))
        self.selling._value = Valuation(costs=nothing)


class OffersNothing(ParticipantMachine):
    """A buyer keeps its load, whatever that costs it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        nothing = Costs(cpu=Levels(1e6))
        self.buying._value = Valuation(costs=nothing)


def _variant(
    machine: type[ParticipantMachine], caught_by: str, preset: str = "", first: int = 0
) -> Variant[ContractsScenario]:
    apply = partial(replace, machine_class=machine)
    return Variant(
        machine.__name__,
        " ".join(str(machine.__doc__).split()),
        apply,  # type: ignore[arg-type]
        (caught_by,),
        range(first, first + 200),
        preset,
    )


VARIANTS = {
    one.name: one
    for one in (
        _variant(BooksTwice, "books"),
        _variant(PaysTooMuch, "price"),
        _variant(StopsTooSoon, "lost"),
        _variant(SaysYes, "lost"),
        _variant(ForgetsWhatItTook, "lost"),
        _variant(ForgetsWhatItGave, "books"),
        _variant(SaysItOnce, "unsettled"),
        _variant(RunsOn, "once"),
        _variant(KnowsNoCosts, "ends", "permanent"),
        _variant(OffersNothing, "acceptable", "permanent"),
    )
}
