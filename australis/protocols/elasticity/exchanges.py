"""Exchanges with all neighbours, one after the other, in step with them."""

from __future__ import annotations

from australis.kernel.machine import Effect
from australis.protocols.elasticity.messages import Said
from australis.protocols.elasticity.post import Post
from australis.protocols.elasticity.seats import Seat

Missing = tuple[str, type[Said], int]
"""Who should have said what, in which iteration."""


class Exchanges:
    """So many exchanges: what one says depends on what all its neighbours said in the one before."""

    kind: type[Said]

    def __init__(self, seat: Seat, post: Post, round_: int, number: int) -> None:
        self.seat = seat
        self.post = post
        self.round = round_
        self._number = number
        self.iteration = 0
        self.done = False

    def begin(self) -> list[Effect]:
        """Begin with the first."""
        return self._next()

    def advance(self) -> list[Effect]:
        """Go on as far as what was heard allows."""
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
        """The neighbours who have not said anything yet, but for those that are gone."""
        return [
            (neighbour, self.kind, self.iteration)
            for neighbour in self.seat.neighbours
            if not self.has(neighbour) and not self.post.gone(neighbour)
        ]

    def word(self) -> Said:
        """What this agent says in this exchange."""
        raise NotImplementedError

    def has(self, neighbour: str) -> bool:
        """Whether a neighbour has said what is needed."""
        raise NotImplementedError

    def take(self) -> None:
        """Make something of what all have said."""
        raise NotImplementedError
