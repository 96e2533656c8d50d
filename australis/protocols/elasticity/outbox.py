"""The messages an agent has sent and received in one control step, and its unanswered requests."""

from __future__ import annotations

from collections import defaultdict
from typing import TypeVar

from australis.kernel.machine import Effect, Send
from australis.protocols.elasticity.messages import Proposal, Request, Said

S = TypeVar("S", bound=Said)
Slot = tuple[str, str, int]
"""The neighbour, kind and iteration of a message."""
Pages = dict[int, dict[Slot, Said]]
"""Messages by round."""
REPLACED = frozenset({Proposal.__name__})
"""Kinds of which a later message replaces all earlier ones, so that only the last is kept."""


def _slot(name: str, kind: str, iteration: int) -> Slot:
    return name, kind, 0 if kind in REPLACED else iteration


class Outbox:
    """The messages of one control step."""

    def __init__(self, step: int, tries: int) -> None:
        self.step = step
        self._tries = tries
        self._said: Pages = defaultdict(dict)
        self._heard: Pages = defaultdict(dict)
        self._asked: dict[str, int] = {}
        """The number of requests to each neighbour since it was last heard of."""

    def say(self, to: str, message: Said) -> Effect:
        """Send a message to a neighbour, and keep it in case it is lost."""
        slot = _slot(to, type(message).__name__, message.iteration)
        self._said[message.round][slot] = message
        return Send(to, message)

    def said(self, to: str, request: Request) -> Said | None:
        """The message that is requested, if it has been sent already."""
        slot = _slot(to, request.kind, request.iteration)
        found = self._said.get(request.round, {}).get(slot)
        return found if found is not None and found.iteration >= request.iteration else None

    def hear(self, sender: str, message: Said) -> None:
        """Store a message from a neighbour, which may be late or a duplicate."""
        self.alive(sender)
        page = self._heard[message.round]
        slot = _slot(sender, type(message).__name__, message.iteration)
        known = page.get(slot)
        if known is None or known.iteration < message.iteration:
            page[slot] = message

    def heard(self, sender: str, kind: type[S], round_: int, iteration: int = 0) -> S | None:
        """A neighbour's message; for replaced kinds its latest one."""
        found = self._heard[round_].get(_slot(sender, kind.__name__, iteration))
        assert found is None or isinstance(found, kind)
        return found

    def forget(self, before: int) -> None:
        """Forget messages of earlier rounds, in which no agent is any more."""
        for pages in (self._said, self._heard):
            for round_ in [known for known in pages if known < before]:
                del pages[round_]

    # --- liveness of neighbours -------------------------------------------------------------------

    def alive(self, name: str) -> None:
        """Reset the count of unanswered requests to a neighbour."""
        self._asked.pop(name, None)

    def gone(self, name: str) -> bool:
        """Whether a neighbour has left more than `tries` requests unanswered."""
        return self._asked.get(name, 0) > self._tries

    def leave_out(self, name: str) -> None:
        """Treat a neighbour as gone."""
        self._asked[name] = self._tries + 1

    def ask(self, name: str, kind: type[Said], round_: int, iteration: int) -> list[Effect]:
        """Request a missing message, unless the neighbour is gone."""
        self._asked[name] = self._asked.get(name, 0) + 1
        if self.gone(name):
            return []
        return [Send(name, Request(self.step, round_, iteration, kind.__name__))]
