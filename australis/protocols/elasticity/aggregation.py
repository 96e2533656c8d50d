"""The total cost of all agents, computed without a coordinator (games 5.2, figure 9)."""

from __future__ import annotations

from australis.kernel.machine import Effect
from australis.protocols.elasticity.exchanges import Exchanges, Missing
from australis.protocols.elasticity.messages import Partial, Share, Total
from australis.protocols.elasticity.outbox import Outbox
from australis.protocols.elasticity.seats import Seat


class TreeSum:
    """Aggregation up a spanning tree of least height and down again: exact, with two messages for
    every agent but the root."""

    def __init__(self, seat: Seat, post: Outbox, round_: int, cost: float) -> None:
        self._seat = seat
        self._post = post
        self._round = round_
        self._cost = cost
        self._handed = False
        """Whether this agent has sent its partial sum to its parent."""
        self.done = False
        self.total: float | None = None
        """The total cost; None if the part of some agent is missing."""

    def begin(self) -> list[Effect]:
        """Start the aggregation at the leaves."""
        return self.advance()

    def advance(self) -> list[Effect]:
        """Send the partial sum of the subtree up, then send the total down."""
        effects: list[Effect] = []
        if not self._handed and not self._below():
            effects += self._hand_up()
        if self._handed and not self.done and not self._above():
            effects += self._hand_down()
        return effects

    def missing(self) -> list[Missing]:
        """The messages it waits for, from its children or its parent."""
        if not self._handed:
            return [(child, Partial, 0) for child in self._below()]
        return [(parent, Total, 0) for parent in self._above()]

    def _below(self) -> list[str]:
        return [
            child
            for child in self._seat.children
            if self._post.heard(child, Partial, self._round) is None and not self._post.gone(child)
        ]

    def _above(self) -> list[str]:
        parent = self._seat.parent
        if parent is None or self._post.gone(parent):
            return []
        return [parent] if self._post.heard(parent, Total, self._round) is None else []

    def _hand_up(self) -> list[Effect]:
        self._handed = True
        cost, modules = self._cost, 1
        for child in self._seat.children:
            found = self._post.heard(child, Partial, self._round)
            if found is not None:
                cost, modules = cost + found.cost, modules + found.modules
        if self._seat.parent is None:
            self.total = cost if modules == self._seat.modules else None
            return []
        partial = Partial(self._post.step, self._round, 0, cost, modules)
        return [self._post.say(self._seat.parent, partial)]

    def _hand_down(self) -> list[Effect]:
        self.done = True
        if self._seat.parent is not None:
            found = self._post.heard(self._seat.parent, Total, self._round)
            self.total = None if found is None else found.cost
        total = Total(self._post.step, self._round, 0, self.total)
        return [self._post.say(child, total) for child in self._seat.children]


class PushSum(Exchanges):
    """Local push-sum: all agents act alike and each estimates the sum (`elasticity.gossip`).

    A share that is lost for good takes its weight along, so that the estimate is still a weighted
    mean, with other weights.
    """

    kind = Share

    def __init__(self, seat: Seat, post: Outbox, round_: int, cost: float, number: int) -> None:
        super().__init__(seat, post, round_, number)
        self._cost = cost
        self._weight = 1.0

    @property
    def total(self) -> float:
        """This agent's estimate of the sum."""
        return self.seat.modules * self._cost / self._weight

    def word(self) -> Share:
        """An equal share for each neighbour and for this agent, which keeps its own."""
        parts = len(self.seat.neighbours) + 1
        self._cost /= parts
        self._weight /= parts
        return Share(self.post.step, self.round, self.iteration, self._cost, self._weight)

    def has(self, neighbour: str) -> bool:
        """Whether the neighbour's share of this iteration has arrived; every share counts."""
        return self.post.heard(neighbour, Share, self.round, self.iteration) is not None

    def take(self) -> None:
        """Add the neighbours' shares to this agent's own."""
        cost = weight = 0.0
        for neighbour in self.seat.neighbours:
            found = self.post.heard(neighbour, Share, self.round, self.iteration)
            if found is not None:
                cost, weight = cost + found.cost, weight + found.weight
        self._cost += cost
        self._weight += weight
