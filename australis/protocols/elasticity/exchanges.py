"""Exchanges with all neighbours, in lockstep."""

from __future__ import annotations

from australis.kernel.machine import Effect
from australis.protocols.elasticity.messages import Said
from australis.protocols.elasticity.outbox import Outbox
from australis.protocols.elasticity.seats import Seat

Missing = tuple[str, type[Said], int]
"""The neighbour, the kind and the iteration of a message that has not arrived."""


class Exchanges:
    """A number of exchanges, each of which depends on what all neighbours sent in the last."""

    kind: type[Said]

    def __init__(self, seat: Seat, post: Outbox, round_: int, number: int) -> None:
        self.seat = seat
        self.post = post
        self.round = round_
        self._number = number
        self.iteration = 0
        self.done = False

    def begin(self) -> list[Effect]:
        """Start the first exchange."""
        return self._next()

    def advance(self) -> list[Effect]:
        """Proceed as far as the messages heard allow."""
        effects: list[Effect] = []
        while not self.done and not self.missing():
            self.take()
            effects += self._next()
        return effects

    def _next(self) -> list[Effect]:
        if self.iteration == self._number:
            self.done = True
            return []
        self.iteration += 1
        word = self.word()
        return [self.post.say(neighbour, word) for neighbour in self.seat.neighbours]

    def missing(self) -> list[Missing]:
        """Messages of this iteration that are missing, except from neighbours that are gone."""
        return [
            (neighbour, self.kind, self.iteration)
            for neighbour in self.seat.neighbours
            if not self.has(neighbour) and not self.post.gone(neighbour)
        ]

    def word(self) -> Said:
        """The message this agent sends in this exchange."""
        raise NotImplementedError

    def has(self, neighbour: str) -> bool:
        """Whether a neighbour has sent what this exchange needs."""
        raise NotImplementedError

    def take(self) -> None:
        """Update this agent's state with the neighbours' messages."""
        raise NotImplementedError
