"""A keeper: it promises, accepts, and never forgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from australis.kernel.machine import Effect, Event, Message, MessageReceived, Send
from australis.protocols.register.events import Kept, PersistKeepers, PersistKept
from australis.protocols.register.messages import (
    Accepted,
    Conflict,
    Install,
    Installed,
    Keepers,
    Outdated,
    Prepare,
    Promise,
    Propose,
    Seat,
)


class KeeperMachine:
    """One keeper; it has a vote if the newest set that it knows names its seat."""

    def __init__(self, seat: Seat, keepers: Keepers, kept: Mapping[str, Kept]) -> None:
        """A keeper as its disk remembers it; a new disk remembers nothing."""
        self.seat = seat
        self.keepers = keepers
        self.kept = dict(kept)
        self._messages: dict[type[Message], Callable[[str, Any], list[Effect]]] = {
            Prepare: self._prepare,
            Propose: self._propose,
            Install: self._install,
        }

    def handle(self, event: Event, now: int) -> Sequence[Effect]:
        """Process one message; a keeper has no timers."""
        if isinstance(event, MessageReceived):
            return self._messages[type(event.message)](event.sender, event.message)
        return []

    def _prepare(self, sender: str, message: Prepare) -> list[Effect]:
        refused = self._refuse(sender, message)
        if refused is not None:
            return refused
        effects = self._adopt(message.keepers)
        register, ballot = message.register, message.ballot
        kept = self.kept.get(register, Kept())
        if ballot > kept.promised:
            effects.append(self._keep(register, Kept(ballot, kept.accepted, kept.record)))
        promise = Promise(self.seat, register, ballot, kept.accepted, kept.record)
        return [*effects, Send(sender, promise)]

    def _propose(self, sender: str, message: Propose) -> list[Effect]:
        refused = self._refuse(sender, message)
        if refused is not None:
            return refused
        effects = self._adopt(message.keepers)
        register, ballot = message.register, message.ballot
        effects.append(self._keep(register, Kept(ballot, ballot, message.record)))
        return [*effects, Send(sender, Accepted(self.seat, register, ballot))]

    def _install(self, sender: str, message: Install) -> list[Effect]:
        effects = self._adopt(message.keepers)
        return [*effects, Send(sender, Installed(self.seat, self.keepers, tuple(self.kept)))]

    # --- voting -----------------------------------------------------------------------------

    def _refuse(self, sender: str, message: Prepare | Propose) -> list[Effect] | None:
        """The refusal of a message, nothing if the keeper has no vote; None if it may answer."""
        register, ballot = message.register, message.ballot
        if message.keepers.epoch < self.keepers.epoch:
            return [Send(sender, Outdated(register, ballot, self.keepers))]
        if self.seat not in message.keepers.everyone:
            return []
        promised = self.kept.get(register, Kept()).promised
        if ballot < promised:
            return [Send(sender, Conflict(register, ballot, promised))]
        return None

    def _adopt(self, keepers: Keepers) -> list[Effect]:
        if keepers.epoch <= self.keepers.epoch:
            return []
        self.keepers = keepers
        return [PersistKeepers(keepers)]

    def _keep(self, register: str, kept: Kept) -> Effect:
        self.kept[register] = kept
        return PersistKept(register, kept)
