"""Find-PNE: the best equilibrium, found by talking to neighbours (games function 1).

Each agent tells the pace that it would choose alone, and from then on the slowest it has heard of.
After as many exchanges as the graph is wide everybody knows the slowest of all, which is the pace of
the best equilibrium (proposition 4.17); what each agent needs to keep it is its best response.
"""

from __future__ import annotations

from australis.protocols.elasticity.exchanges import Exchanges
from australis.protocols.elasticity.messages import Proposal
from australis.protocols.elasticity.post import Post
from australis.protocols.elasticity.seats import Seat


class FindPne(Exchanges):
    """One run of it."""

    kind = Proposal

    def __init__(self, seat: Seat, post: Post, round_: int, pace_s: float) -> None:
        super().__init__(seat, post, round_, seat.diameter)
        self.pace_s = pace_s
        """The slowest so far."""

    def word(self) -> Proposal:
        """The slowest pace so far."""
        return Proposal(self.post.step, self.round, self.iteration, self.pace_s)

    def has(self, neighbour: str) -> bool:
        """What a neighbour said later says all it said before."""
        found = self.post.heard(neighbour, Proposal, self.round)
        return found is not None and found.iteration >= self.iteration

    def take(self) -> None:
        """Be as slow as the slowest neighbour; of one that is gone, as far as it was heard."""
        for neighbour in self.seat.neighbours:
            found = self.post.heard(neighbour, Proposal, self.round)
            if found is not None:
                self.pace_s = max(self.pace_s, found.pace_s)
