"""Broken variants of agents, each with one wrong decision, which the checkers must catch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import floor

from msgspec.structs import replace as changed

from australis.elasticity.cost import Module
from australis.elasticity.inertia import Inertia
from australis.elasticity.service import Paced
from australis.kernel.machine import Effect, Event, Message, Send, SetTimer
from australis.protocols.elasticity.agent import ASK, AgentMachine
from australis.protocols.elasticity.events import ElasticityOptions, SetCores, TellSettled
from australis.protocols.elasticity.messages import (
    Enough,
    Partial,
    Proposal,
    Request,
    Said,
    Waiting,
)
from australis.protocols.elasticity.negotiation import Negotiation
from australis.protocols.elasticity.seats import Seat
from australis.sim.elasticity.schedule import Schedule
from australis.sim.harness.model import Variant


class HearsNobody(AgentMachine):
    """The pace of its neighbours does not slow it down."""

    def _received(self, sender: str, message: Message, now: int) -> list[Effect]:
        if isinstance(message, Proposal):
            message = changed(message, pace_s=0.0)
        return super()._received(sender, message, now)


class KeepsIncentives(AgentMachine):
    """What it was paid for a core in the last step it counts on in the next one."""

    _paid = 0.0

    @property
    def module(self) -> Module:
        """The module with a core price reduced by earlier payments."""
        found = super().module
        left = max(found.core_price - self._paid, 0.01 * found.core_price)
        return replace(found, core_price=left)

    def _settle(self, negotiation: Negotiation) -> list[Effect]:
        if negotiation.outcome is not None:
            self._paid = negotiation.outcome.incentive
        return super()._settle(negotiation)


class TakesTheLast(AgentMachine):
    """It does as in the last round, not as in the best."""

    def _settle(self, negotiation: Negotiation) -> list[Effect]:
        found = negotiation.outcome
        if found is not None:
            negotiation.outcome = negotiation._found.get(negotiation.round, found)
        return super()._settle(negotiation)


class KnowsNoSteps(AgentMachine):
    """What comes late from an old control step it takes for new."""

    def _received(self, sender: str, message: Message, now: int) -> list[Effect]:
        if isinstance(message, Said | Enough) and message.step < self._step:
            message = changed(message, step=self._step)
        return super()._received(sender, message, now)


class NeverGivesUp(AgentMachine):
    """It has no deadline."""

    def _give_up(self, now: int) -> list[Effect]:
        return []


class EndsTwice(AgentMachine):
    """When the time is up it ends a step that has ended already."""

    def _give_up(self, now: int) -> list[Effect]:
        negotiation = self._negotiation
        if negotiation is not None and negotiation.outcome is not None:
            return self._settle(negotiation)
        return super()._give_up(now)


class RoundsDown(AgentMachine):
    """A part of a core is none."""

    def _settle(self, negotiation: Negotiation) -> list[Effect]:
        found = negotiation.outcome
        if found is None:
            return super()._settle(negotiation)
        negotiation.outcome = replace(found, degree=max(1.0, floor(found.degree)))
        *effects, told = super()._settle(negotiation)
        assert isinstance(told, TellSettled)
        negotiation.outcome = found
        return [*effects, changed(told, degree=found.degree)]


class KnowsNoLimit(AgentMachine):
    """It takes more cores than its module may have."""

    def __init__(
        self, seat: Seat, module: Module, options: ElasticityOptions | None = None
    ) -> None:
        super().__init__(seat, replace(module, most=1 << 20), options)


class ForgetsItsNode(AgentMachine):
    """It does not mind that others need the cores of its node, too."""

    def __init__(
        self, seat: Seat, module: Module, options: ElasticityOptions | None = None
    ) -> None:
        service = module.service.service if isinstance(module.service, Paced) else module.service
        super().__init__(seat, replace(module, service=service), options)


class CountsTwice(AgentMachine):
    """What it pays itself is twice in the sum that it hands up the tree."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Hand a wrong sum up the tree."""
        return [self._more(effect) for effect in super().handle(event, now)]

    def _more(self, effect: Effect) -> Effect:
        match effect:
            case Send(to, Partial(cost=cost, modules=modules) as partial):
                return Send(to, changed(partial, cost=cost + cost / modules))
        return effect


class DoesNotAsk(AgentMachine):
    """What was lost is lost."""

    def _ask(self, now: int) -> list[Effect]:
        return [SetTimer(ASK, now + self._options.resend_us)]


class SaysNothingAgain(AgentMachine):
    """An agent that asks hears that it should wait."""

    def _received(self, sender: str, message: Message, now: int) -> list[Effect]:
        if isinstance(message, Request):
            return [Send(sender, Waiting(message.step))]
        return super()._received(sender, message, now)


class _With(AgentMachine):
    """One with settings of its own."""

    def __init__(
        self, seat: Seat, module: Module, options: ElasticityOptions | None = None
    ) -> None:
        super().__init__(seat, module, self._other(options or ElasticityOptions()))

    def _other(self, options: ElasticityOptions) -> ElasticityOptions:
        raise NotImplementedError


class LeavesOutTooSoon(_With):
    """Who does not answer the first question at once is left out."""

    def _other(self, options: ElasticityOptions) -> ElasticityOptions:
        return replace(options, tries=1)


class WaitsForTheGone(_With):
    """Who does not answer is waited for until the time is up."""

    def _other(self, options: ElasticityOptions) -> ElasticityOptions:
        return replace(options, tries=1 << 30)


class HasNoInertia(_With):
    """It changes the number of cores for next to nothing."""

    def _other(self, options: ElasticityOptions) -> ElasticityOptions:
        return replace(options, inertia=Inertia())


class HasNoMemory(_With):
    """Only the newest measurement counts."""

    def _other(self, options: ElasticityOptions) -> ElasticityOptions:
        return replace(options, newest=1.0)


class SetsWhatIsSet(AgentMachine):
    """It sets the number of cores in every step, whether it changes or not."""

    def _settle(self, negotiation: Negotiation) -> list[Effect]:
        effects = super()._settle(negotiation)
        match effects:
            case [TellSettled() as told]:
                return [SetCores(told.cores), told]
        return effects


class HearsTooLate(AgentMachine):
    """What others say before its own clock begins a step it has to ask for."""

    def _received(self, sender: str, message: Message, now: int) -> list[Effect]:
        if isinstance(message, Said) and message.step > self._step:
            return []
        return super()._received(sender, message, now)


def _variant(agent: type[AgentMachine], caught_by: str, first: int = 0) -> Variant[Schedule]:
    says = " ".join(str(agent.__doc__).split())
    apply = partial(replace, agent_class=agent)
    return Variant(agent.__name__, says, apply, (caught_by,), range(first, first + 100))  # type: ignore[arg-type]


VARIANTS = {
    one.name: one
    for one in (
        _variant(HearsNobody, "agreed"),
        _variant(KeepsIncentives, "choice", 8),
        _variant(TakesTheLast, "agreed"),
        _variant(KnowsNoSteps, "agreed", 21),
        _variant(NeverGivesUp, "time", 5),
        _variant(EndsTwice, "once"),
        _variant(RoundsDown, "cores"),
        _variant(KnowsNoLimit, "limits", 5),
        _variant(ForgetsItsNode, "nodes", 27),
        _variant(CountsTwice, "agreed"),
        _variant(DoesNotAsk, "agreed"),
        _variant(SaysNothingAgain, "agreed"),
        _variant(LeavesOutTooSoon, "agreed"),
        _variant(WaitsForTheGone, "apart", 14),
        _variant(HasNoInertia, "cores"),
        _variant(HasNoMemory, "cost"),
        _variant(SetsWhatIsSet, "cores"),
        _variant(HearsTooLate, "messages"),
    )
}
