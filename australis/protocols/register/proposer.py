"""A proposer: it has edits decided by the keepers, and replaces keepers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from australis.kernel.machine import Effect, Event, Message, MessageReceived, TimerFired
from australis.protocols.register.attempts import Attempts, GivenUp, Outcome, Then
from australis.protocols.register.events import (
    KeepersChosen,
    RegisterOptions,
    Started,
    Submitted,
    TellDecided,
    TellRefused,
    TellUnknown,
    TellUnreachable,
)
from australis.protocols.register.messages import (
    Accepted,
    Conflict,
    Installed,
    Keepers,
    Outdated,
    Promise,
)
from australis.protocols.register.replacement import TIMER, Replacement

Answer = Callable[[str, Any, int], list[Effect]]


class ProposerMachine:
    """The proposer of one node."""

    attempts_class = Attempts
    replacement_class = Replacement

    def __init__(self, name: str, options: RegisterOptions, rng: Random) -> None:
        self.name = name
        self._options = options
        self._attempts = self.attempts_class(name, options, rng)
        self._replacement: Replacement | None = None
        attempts = self._attempts
        self._messages: dict[type[Message], Answer] = {
            Promise: lambda sender, message, now: attempts.promised(message, now),
            Accepted: lambda sender, message, now: attempts.accepted(message, now),
            Conflict: lambda sender, message, now: attempts.conflicted(message, now),
            Outdated: lambda sender, message, now: attempts.outdated(message, now),
            Installed: self._installed,
        }
        self._handlers: dict[type[Event], Callable[[Any, int], list[Effect]]] = {
            Started: self._started,
            Submitted: self._submitted,
            KeepersChosen: self._keepers_chosen,
            TimerFired: self._fired,
            MessageReceived: lambda event, now: self._messages[type(event.message)](
                event.sender, event.message, now
            ),
        }

    @property
    def keepers(self) -> Keepers:
        """The newest set of keepers that it knows."""
        return self._attempts.keepers

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        """Process one event; returns the effects in order."""
        return self._handlers[type(event)](event, now)

    def _started(self, event: Started, now: int) -> list[Effect]:
        self._attempts.begin(event.incarnation, event.keepers)
        return []

    def _submitted(self, event: Submitted, now: int) -> list[Effect]:
        if not self.keepers.epoch:
            return [TellUnreachable(event.tag)]
        return self._attempts.submit(event.register, event.edit, _tell(event.tag), now)

    def _keepers_chosen(self, event: KeepersChosen, now: int) -> list[Effect]:
        if self._replacement is not None and not self._replacement.over:
            return [TellRefused(event.tag, "keepers are being replaced already")]
        chosen = event.tag, event.nodes, self._attempts, self._options
        self._replacement = self.replacement_class(*chosen)
        return self._replacement.begin(now)

    def _installed(self, sender: str, message: Installed, now: int) -> list[Effect]:
        if self._replacement is None:
            return []
        return self._replacement.installed(sender, message, now)

    def _fired(self, event: TimerFired, now: int) -> list[Effect]:
        if event.name != TIMER:
            return self._attempts.fired(event.name, now)
        return [] if self._replacement is None else self._replacement.fired(now)


def _tell(tag: str) -> Then:
    """What a user is told of an operation."""

    def then(outcome: Outcome, now: int) -> list[Effect]:
        if isinstance(outcome, GivenUp):
            return [TellUnknown(tag) if outcome.maybe_applied else TellUnreachable(tag)]
        if outcome.refused is not None:
            return [TellRefused(tag, outcome.refused, outcome.record)]
        return [TellDecided(tag, outcome.record)]

    return then
