"""An agent: it adapts the number of cores of its module, control step by control step."""

from __future__ import annotations

from dataclasses import replace

from australis.elasticity.cost import Module
from australis.elasticity.estimate import Average
from australis.elasticity.rounding import whole
from australis.elasticity.service import fed
from australis.kernel.machine import (
    Effect,
    Event,
    Message,
    MessageReceived,
    Send,
    SetTimer,
    TimerFired,
)
from australis.protocols.elasticity.events import (
    ElasticityOptions,
    Measured,
    SetCores,
    Started,
    TellSettled,
)
from australis.protocols.elasticity.messages import Enough, Request, Said, Waiting
from australis.protocols.elasticity.negotiation import Negotiation
from australis.protocols.elasticity.seats import Seat

STEP = "step"
ASK = "ask"
DEADLINE = "deadline"


class AgentMachine:
    """The agent of one module."""

    def __init__(
        self, seat: Seat, module: Module, options: ElasticityOptions | None = None
    ) -> None:
        self.name = seat.name
        self.cores = 0
        """The number of cores its module has."""
        self._seat = seat
        self._module = module
        self._options = options or ElasticityOptions()
        self._running = Average(self._options.newest)
        self._every = Average(self._options.newest)
        self._least_s = 0.0
        """The least service time its node allows; not averaged, since it is a hard limit."""
        self._step = 0
        """The last control step that this agent began, or was too late for."""
        self._negotiation: Negotiation | None = None
        self._early: list[tuple[str, Said | Enough]] = []
        """Messages from neighbours in a step that has not begun here."""

    def handle(self, event: Event, now: int) -> list[Effect]:
        """Process an event and return its effects in order."""
        match event:
            case MessageReceived(sender, message):
                return self._received(sender, message, now)
            case TimerFired("step"):
                return self._begin(now)
            case TimerFired("ask"):
                return self._ask(now)
            case TimerFired("deadline"):
                return self._give_up(now)
            case Measured():
                self._measured(event)
                return []
            case Started(cores):
                self.cores = cores
                self._step = now // self._options.step_us
                return [self._next_step()]
        raise AssertionError(f"unknown event {event}")

    def _measured(self, event: Measured) -> None:
        if event.running_s is not None:
            self._running.add(event.running_s)
        if event.every_s is not None:
            self._every.add(event.every_s)
        if event.least_s is not None:
            self._least_s = event.least_s

    @property
    def module(self) -> Module:
        """The module with its measured service time."""
        service = self._module.service
        if self._running.value is not None:
            service = service.taking(self._running.value)
        if self._every.value is not None or self._least_s:
            service = fed(service, max(self._every.value or 0.0, self._least_s))
        return replace(self._module, service=service)

    # --- control steps ------------------------------------------------------------------------------

    def _next_step(self) -> Effect:
        return SetTimer(STEP, (self._step + 1) * self._options.step_us)

    def _begin(self, now: int) -> list[Effect]:
        self._step = now // self._options.step_us
        negotiation = Negotiation(self._step, self._seat, self.module, self._options)
        self._negotiation = negotiation
        timers = [
            self._next_step(),
            SetTimer(DEADLINE, now + self._options.deadline_us),
            SetTimer(ASK, now + self._options.resend_us),
        ]
        effects = negotiation.begin()
        early, self._early = self._early, []
        for sender, message in early:
            if message.step == self._step:
                effects += negotiation.hear(sender, message)
        return [*timers, *effects, *self._settle(negotiation)]

    def _received(self, sender: str, message: Message, now: int) -> list[Effect]:
        assert isinstance(message, Said | Enough | Request | Waiting), f"unknown {message}"
        negotiation = self._negotiation
        if message.step == self._step and negotiation is not None:
            ended, moves = negotiation.outcome is not None, negotiation.moves
            effects = negotiation.hear(sender, message)
            if ended:
                return effects
            if negotiation.moves > moves:
                effects.append(SetTimer(ASK, now + self._options.resend_us))
            return [*effects, *self._settle(negotiation)]
        if message.step <= self._step:
            return []
        if isinstance(message, Request):
            return [Send(sender, Waiting(message.step))]
        if isinstance(message, Said | Enough):
            self._early.append((sender, message))
        return []

    def _ask(self, now: int) -> list[Effect]:
        negotiation = self._negotiation
        if negotiation is None or negotiation.outcome is not None:
            return []
        again = SetTimer(ASK, now + self._options.resend_us)
        return [again, *negotiation.ask(), *self._settle(negotiation)]

    def _give_up(self, now: int) -> list[Effect]:
        negotiation = self._negotiation
        if negotiation is None or negotiation.outcome is not None:
            return []
        return [*negotiation.give_up(), *self._settle(negotiation)]

    def _settle(self, negotiation: Negotiation) -> list[Effect]:
        """Apply the agreed outcome if the step has just ended."""
        found, module = negotiation.outcome, negotiation.module
        if found is None:
            return []
        wanted = whole(module, found.degree, self._options.rounding)
        due_s = found.pace_s / self._seat.ratio
        effects: list[Effect] = []
        if wanted != self.cores and not self._options.inertia.keeps(
            module, self.cores, wanted, due_s, shared=self._least_s > 0
        ):
            self.cores = wanted
            effects.append(SetCores(wanted))
        told = TellSettled(
            negotiation.step,
            self.cores,
            found.degree,
            found.pace_s,
            found.incentive,
            found.round,
            negotiation.round,
            found.cost,
        )
        return [*effects, told]
