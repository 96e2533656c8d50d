"""One control step of an agent: rounds of a game until an outcome holds (games algorithms 1, 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from australis.elasticity.cost import Module
from australis.elasticity.incentives import holds_up, raised
from australis.kernel.machine import Effect, Message, Send
from australis.protocols.elasticity.aggregation import PushSum, TreeSum
from australis.protocols.elasticity.events import ElasticityOptions
from australis.protocols.elasticity.find_pne import FindPne
from australis.protocols.elasticity.messages import Enough, Request, Said, Waiting
from australis.protocols.elasticity.outbox import Outbox
from australis.protocols.elasticity.seats import Seat


@dataclass(frozen=True)
class NegotiationOutcome:
    """The choice of an agent in a round."""

    round: int
    degree: float
    pace_s: float
    """The time between two tasks at the source that was agreed on."""
    incentive: float
    cost: float | None = None
    """The total cost of all agents in this round, if it has been added up."""


class Negotiation:
    """The state of one agent in one control step."""

    def __init__(self, step: int, seat: Seat, module: Module, options: ElasticityOptions) -> None:
        self.step = step
        self.module = module
        self.outcome: NegotiationOutcome | None = None
        """The outcome of the step; None while it lasts."""
        self.round = 0
        self.moves = 0
        """The number of times this agent has made progress."""
        self._seat = seat
        self._options = options
        self._post = Outbox(step, options.tries)
        self._incentive = 0.0
        self._alone_s = 0.0
        """The pace this agent would choose alone."""
        self._found: dict[int, NegotiationOutcome] = {}
        """The outcome of each round for which an equilibrium is known."""
        self._stands = 1
        """The round with the least total cost so far."""
        self._least = inf
        """The total cost in round `_stands`."""
        self._enough: set[str] = set()
        """Neighbours that have ended the step with this round before its equilibrium was known."""
        self._phase: FindPne | TreeSum | PushSum

    # --- events -----------------------------------------------------------------------------------

    def begin(self) -> list[Effect]:
        """Start the first round."""
        return [*self._play(), *self._advance()]

    def hear(self, sender: str, message: Message) -> list[Effect]:
        """Process a message from a neighbour."""
        match message:
            case Said():
                self._post.hear(sender, message)
                return self._advance()
            case Request():
                return [Send(sender, self._answer(sender, message))]
            case Waiting():
                self._post.alive(sender)
                return []
            case Enough(_, round_):
                self._post.alive(sender)
                return [] if self.outcome else self._ended(sender, round_)
        raise AssertionError(f"unknown message {message}")

    def _ended(self, sender: str, round_: int) -> list[Effect]:
        """Process a neighbour's message that the step has ended with a round.

        If this agent is still looking for that round's equilibrium it finds it first: the
        neighbour's messages for it are here or on their way. A neighbour that says so twice has
        nothing else to send.
        """
        if not isinstance(self._phase, FindPne) or round_ != self.round:
            return self._end(round_, self._others(sender))
        if sender in self._enough:
            self._post.leave_out(sender)
        self._enough.add(sender)
        return self._advance()

    def ask(self) -> list[Effect]:
        """Ask for the missing messages, and proceed without neighbours that are gone."""
        effects: list[Effect] = []
        if self.outcome is None:
            for name, kind, iteration in self._phase.missing():
                effects += self._post.ask(name, kind, self.round, iteration)
        return [*effects, *self._advance()]

    def give_up(self) -> list[Effect]:
        """End the step at its deadline with the best outcome so far, and tell the neighbours."""
        return [] if self.outcome else self._end(self._stands, self._seat.neighbours)

    def _answer(self, sender: str, request: Request) -> Message:
        said = self._post.said(sender, request)
        if said is not None:
            return said
        return Enough(self.step, self.outcome.round) if self.outcome else Waiting(self.step)

    def _others(self, but: str) -> tuple[str, ...]:
        return tuple(name for name in self._seat.neighbours if name != but)

    # --- rounds -------------------------------------------------------------------------------------

    def _advance(self) -> list[Effect]:
        effects: list[Effect] = []
        while self.outcome is None:
            effects += self._phase.advance()
            if not self._phase.done:
                break
            effects += self._go_on()
        self.moves += bool(effects)
        return effects

    def _go_on(self) -> list[Effect]:
        """Start what follows the finished part of a round."""
        if isinstance(self._phase, FindPne):
            return self._agreed(self._phase)
        return self._added_up(self._phase.total)

    def _play(self) -> list[Effect]:
        """Start a round, with a higher incentive if this agent was a bottleneck of the last one."""
        last = self._found.get(self.round)
        if last is not None and holds_up(self._alone_s, last.pace_s):
            self._incentive = raised(self.module, self._incentive, self._options.increment)
        self.round += 1
        self._post.forget(self.round - 1)
        ideal = self.module.ideal_degree(self._incentive)
        self._alone_s = self._seat.ratio * self.module.service.time_s(ideal)
        self._phase = FindPne(self._seat, self._post, self.round, self._alone_s)
        return self._phase.begin()

    def _choice(self, pace_s: float) -> NegotiationOutcome:
        degree = self.module.best_response(pace_s / self._seat.ratio, self._incentive)
        return NegotiationOutcome(self.round, degree, pace_s, self._incentive)

    def _agreed(self, phase: FindPne) -> list[Effect]:
        """Note the equilibrium of this round, and add up its cost if the outcome depends on it."""
        found = self._found[self.round] = self._choice(phase.pace_s)
        if self._enough:
            return self._end(self.round, self._seat.neighbours)
        last = self.round == self._options.rounds
        if self._options.rounds == 1:
            return self._end(1)
        if last and self._options.gossip:
            # Estimates differ, but every agent continued from the round before, or none were here.
            return self._end(self.round - 1)
        cost = self.module.cost(found.degree, found.pace_s / self._seat.ratio)
        if self._options.gossip:
            number = self._options.gossip
            self._phase = PushSum(self._seat, self._post, self.round, cost, number)
        else:
            self._phase = TreeSum(self._seat, self._post, self.round, cost)
        return self._phase.begin()

    def _added_up(self, total: float | None) -> list[Effect]:
        """Play another round while the total cost falls; otherwise end the step."""
        if total is None:
            return self._end(self._stands, self._seat.neighbours)
        if total < self._least:
            self._least, self._stands = total, self.round
            self._found[self.round] = replace(self._found[self.round], cost=total)
            return self._play() if self.round < self._options.rounds else self._end(self.round)
        # Along a tree all agents know the same total; with push-sum others may not know yet.
        return self._end(self._stands, self._seat.neighbours if self._options.gossip else ())

    def _end(self, round_: int, tell: tuple[str, ...] = ()) -> list[Effect]:
        found = self._found.get(round_) or self._found.get(self._stands)
        if found is None:
            assert isinstance(self._phase, FindPne), "the first round has no equilibrium yet"
            found = self._choice(self._phase.pace_s)
        self.outcome = found
        return [Send(name, Enough(self.step, found.round)) for name in tell]
