"""Find-PNE: the best equilibrium, found by exchanges between neighbours (games function 1).

Each agent first sends the pace that it would choose alone, and then the slowest pace it has heard
of. After a number of exchanges equal to the graph's diameter all agents know the slowest pace,
which is that of the best equilibrium (proposition 4.17); each agent's best response to it is its
choice.
"""

from __future__ import annotations

from australis.protocols.elasticity.exchanges import Exchanges
from australis.protocols.elasticity.messages import Proposal
from australis.protocols.elasticity.outbox import Outbox
from australis.protocols.elasticity.seats import Seat


class FindPne(Exchanges):
    """One execution of Find-PNE."""

    kind = Proposal

    def __init__(self, seat: Seat, post: Outbox, round_: int, pace_s: float) -> None:
        super().__init__(seat, post, round_, seat.diameter)
        self.pace_s = pace_s
        """The slowest pace heard of so far."""

    def word(self) -> Proposal:
        """A proposal of the slowest pace so far."""
        return Proposal(self.post.step, self.round, self.iteration, self.pace_s)

    def has(self, neighbour: str) -> bool:
        """Whether a neighbour has sent this proposal or a later one, which replaces it."""
        found = self.post.heard(neighbour, Proposal, self.round)
        return found is not None and found.iteration >= self.iteration

    def take(self) -> None:
        """Adopt the slowest pace of the neighbours; of one that is gone, its last pace counts."""
        for neighbour in self.seat.neighbours:
            found = self.post.heard(neighbour, Proposal, self.round)
            if found is not None:
                self.pace_s = max(self.pace_s, found.pace_s)
