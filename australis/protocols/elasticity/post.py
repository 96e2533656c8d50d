"""What an agent has said and heard in one control step, and whom it has asked in vain."""

from __future__ import annotations

from collections import defaultdict
from typing import TypeVar

from australis.kernel.machine import Effect, Send
from australis.protocols.elasticity.messages import Proposal, Request, Said

S = TypeVar("S", bound=Said)
Slot = tuple[str, str, int]
"""A neighbour, a kind and an iteration."""
Pages = dict[int, dict[Slot, Said]]
"""By round."""
REPLACED = frozenset({Proposal.__name__})
"""Of these a later one says all that earlier ones did, so that only the last is kept."""


def _slot(name: str, kind: str, iteration: int) -> Slot:
    return name, kind, 0 if kind in REPLACED else iteration


class Post:
    """The letters of one control step."""

    def __init__(self, step: int, tries: int) -> None:
        self.step = step
        self._tries = tries
        self._said: Pages = defaultdict(dict)
        self._heard: Pages = defaultdict(dict)
        self._asked: dict[str, int] = {}
        """How often somebody was asked since it was heard of last."""

    def say(self, to: str, message: Said) -> Effect:
        """Tell a neighbour something, and keep it in case that is lost."""
        slot = _slot(to, type(message).__name__, message.iteration)
        self._said[message.round][slot] = message
        return Send(to, message)

    def said(self, to: str, request: Request) -> Said | None:
        """What is asked for, if it has been said already."""
        slot = _slot(to, request.kind, request.iteration)
        found = self._said.get(request.round, {}).get(slot)
        return found if found is not None and found.iteration >= request.iteration else None

    def hear(self, sender: str, message: Said) -> None:
        """A neighbour has told something, perhaps again, perhaps late."""
        self.alive(sender)
        page = self._heard[message.round]
        slot = _slot(sender, type(message).__name__, message.iteration)
        known = page.get(slot)
        if known is None or known.iteration < message.iteration:
            page[slot] = message

    def heard(self, sender: str, kind: type[S], round_: int, iteration: int = 0) -> S | None:
        """What a neighbour has told; the last of it where that says everything."""
        found = self._heard[round_].get(_slot(sender, kind.__name__, iteration))
        assert found is None or isinstance(found, kind)
        return found

    def forget(self, before: int) -> None:
        """Nobody is in an earlier round than this any more."""
        for pages in (self._said, self._heard):
            for round_ in [known for known in pages if known < before]:
                del pages[round_]

    # --- who is there -----------------------------------------------------------------------------

    def alive(self, name: str) -> None:
        """Somebody has been heard of."""
        self._asked.pop(name, None)

    def gone(self, name: str) -> bool:
        """Whether somebody has been asked in vain too often."""
        return self._asked.get(name, 0) > self._tries

    def leave_out(self, name: str) -> None:
        """Nothing more will come from somebody."""
        self._asked[name] = self._tries + 1

    def ask(self, name: str, kind: type[Said], round_: int, iteration: int) -> list[Effect]:
        """Ask for something that should have come, unless that is of no use any more."""
        self._asked[name] = self._asked.get(name, 0) + 1
        if self.gone(name):
            return []
        return [Send(name, Request(self.step, round_, iteration, kind.__name__))]
