"""One control step of one agent: rounds of a game, until one stands (games algorithms 1 and 2)."""

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
from australis.protocols.elasticity.post import Post
from australis.protocols.elasticity.seats import Seat


@dataclass(frozen=True)
class Outcome:
    """What an agent has chosen in a round."""

    round: int
    degree: float
    pace_s: float
    """What was agreed on: the time between two tasks at the source."""
    incentive: float
    cost: float | None = None
    """What all pay together then, if that has been added up."""


class Negotiation:
    """What goes on in one control step."""

    def __init__(self, step: int, seat: Seat, module: Module, options: ElasticityOptions) -> None:
        self.step = step
        self.module = module
        self.outcome: Outcome | None = None
        """How it has ended."""
        self.round = 0
        self.moves = 0
        """How often it got further."""
        self._seat = seat
        self._options = options
        self._post = Post(step, options.tries)
        self._incentive = 0.0
        self._alone_s = 0.0
        """The pace that it would choose alone."""
        self._found: dict[int, Outcome] = {}
        """By round, as soon as there is an equilibrium."""
        self._stands = 1
        """The best round so far,"""
        self._least = inf
        """and what all pay in it."""
        self._enough: set[str] = set()
        """Neighbours that have ended the step with this round before its equilibrium was found here."""
        self._phase: FindPne | TreeSum | PushSum

    # --- what happens -----------------------------------------------------------------------------

    def begin(self) -> list[Effect]:
        """Begin the first round."""
        return [*self._play(), *self._advance()]

    def hear(self, sender: str, message: Message) -> list[Effect]:
        """A neighbour has told something."""
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
        """A neighbour has ended the step with a round.

        If its equilibrium is still being looked for here, it is found first: what the neighbour knew of
        it is here already, or on its way. One that says so a second time has nothing else to say.
        """
        if not isinstance(self._phase, FindPne) or round_ != self.round:
            return self._end(round_, self._others(sender))
        if sender in self._enough:
            self._post.leave_out(sender)
        self._enough.add(sender)
        return self._advance()

    def ask(self) -> list[Effect]:
        """What is waited for has not come: ask for it, and go on without those who are gone."""
        effects: list[Effect] = []
        if self.outcome is None:
            for name, kind, iteration in self._phase.missing():
                effects += self._post.ask(name, kind, self.round, iteration)
        return [*effects, *self._advance()]

    def give_up(self) -> list[Effect]:
        """The time is up: end with what there is, and say so."""
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
        """What follows when a part of a round is over."""
        if isinstance(self._phase, FindPne):
            return self._agreed(self._phase)
        return self._added_up(self._phase.total)

    def _play(self) -> list[Effect]:
        """Begin a round, with a higher incentive if it was this agent that held up the others."""
        last = self._found.get(self.round)
        if last is not None and holds_up(self._alone_s, last.pace_s):
            self._incentive = raised(self.module, self._incentive, self._options.increment)
        self.round += 1
        self._post.forget(self.round - 1)
        ideal = self.module.ideal_degree(self._incentive)
        self._alone_s = self._seat.ratio * self.module.service.time_s(ideal)
        self._phase = FindPne(self._seat, self._post, self.round, self._alone_s)
        return self._phase.begin()

    def _choice(self, pace_s: float) -> Outcome:
        degree = self.module.best_response(pace_s / self._seat.ratio, self._incentive)
        return Outcome(self.round, degree, pace_s, self._incentive)

    def _agreed(self, phase: FindPne) -> list[Effect]:
        """An equilibrium is found: have it added up what all pay, if that matters."""
        found = self._found[self.round] = self._choice(phase.pace_s)
        if self._enough:
            return self._end(self.round, self._seat.neighbours)
        last = self.round == self._options.rounds
        if self._options.rounds == 1:
            return self._end(1)
        if last and self._options.gossip:
            # Estimates differ; but all have gone on from the round before, or nobody were here.
            return self._end(self.round - 1)
        cost = self.module.cost(found.degree, found.pace_s / self._seat.ratio)
        if self._options.gossip:
            number = self._options.gossip
            self._phase = PushSum(self._seat, self._post, self.round, cost, number)
        else:
            self._phase = TreeSum(self._seat, self._post, self.round, cost)
        return self._phase.begin()

    def _added_up(self, total: float | None) -> list[Effect]:
        """Go on as long as all together pay less than before."""
        if total is None:
            return self._end(self._stands, self._seat.neighbours)
        if total < self._least:
            self._least, self._stands = total, self.round
            self._found[self.round] = replace(self._found[self.round], cost=total)
            return self._play() if self.round < self._options.rounds else self._end(self.round)
        # Along a tree all have learnt the same; otherwise others may not know yet.
        return self._end(self._stands, self._seat.neighbours if self._options.gossip else ())

    def _end(self, round_: int, tell: tuple[str, ...] = ()) -> list[Effect]:
        found = self._found.get(round_) or self._found.get(self._stands)
        if found is None:
            assert isinstance(self._phase, FindPne), "the first round has no equilibrium yet"
            found = self._choice(self._phase.pace_s)
        self.outcome = found
        return [Send(name, Enough(self.step, found.round)) for name in tell]
