"""The seller's side: the offers to take, and the room kept for promises (figure 6-5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from australis.kernel.machine import Effect, Send, SetTimer
from australis.protocols.contracts.choices import (
    Valuation,
    acceptset,
    counter_offer,
    load_of,
    together,
)
from australis.protocols.contracts.costs import NOTHING, Load
from australis.protocols.contracts.messages import Answer, Decision, Move, Offer, ReleaseTasks, Room
from australis.protocols.contracts.terms import Contract, Task

if TYPE_CHECKING:
    from australis.protocols.contracts.events import ContractOptions
    from australis.protocols.contracts.holdings import Holdings

GATHER = "gather"
MAX_PARTNERS = 100
"""The maximum number of partners of a buyer for which the lifetime of a promise accounts."""


class _Promise:
    """The tasks a seller would take at a price, and the deadline until which it keeps room."""

    def __init__(self, price: float, tasks: Sequence[Task], until: int, countered: bool) -> None:
        self.price = price
        self.tasks = {task.name: task for task in tasks}
        self.until = until
        self.countered = countered


class Selling:
    """The offers received, and the promises made for them."""

    def __init__(
        self,
        name: str,
        value: Valuation,
        options: ContractOptions,
        holdings: Holdings,
    ) -> None:
        self._name = name
        self._contracts: dict[str, Contract] = {}
        self._value = value
        self._options = options
        self._holdings = holdings
        self._promises: dict[tuple[str, int], _Promise] = {}
        self._waiting: dict[str, Offer] = {}
        """The latest undecided offer of each buyer."""
        self._in_vain: set[str] = set()
        """Buyers that did not take the last counter-offer."""
        self._refused: dict[str, Task] = {}
        """Buyers that were refused, each with one of its tasks."""

    def sign(self, contracts: Sequence[Contract]) -> None:
        """Sell under these contracts from now on."""
        self._contracts = {c.buyer: c for c in contracts if c.seller == self._name}
        self._refused = {b: task for b, task in self._refused.items() if b in self._contracts}

    @property
    def kept(self) -> Load:
        """The load of all tasks for which room is kept."""
        return sum((load_of(p.tasks.values()) for p in self._promises.values()), NOTHING)

    # --- offers -----------------------------------------------------------------------

    def offered(self, buyer: str, offer: Offer, now: int) -> list[Effect]:
        """Decide on an offer, now or together with others that arrive soon."""
        first = not self._waiting
        self._waiting[buyer] = offer
        if not self._options.gather_us:
            return self.decide(now)
        return [SetTimer(GATHER, now + self._options.gather_us)] if first else []

    def decide(self, now: int) -> list[Effect]:
        """Answer all offers, the best paid first."""
        effects = self.expire(now)
        best = sorted(self._waiting.items(), key=lambda item: -item[1].price)
        self._waiting = {}
        for buyer, offer in best:
            effects.append(Send(buyer, self._answer(buyer, offer, now)))
        return effects

    def _answer(self, buyer: str, offer: Offer, now: int) -> Answer:
        self._promises.pop((buyer, offer.number), None)  # the offer is repeated
        contract = self._contracts.get(buyer)
        if contract is None or not contract.valid(now) or self._holdings.leaving:
            return Answer(offer.number, Decision.REJECTED)
        if not contract.low <= offer.price <= contract.high:
            return Answer(offer.number, Decision.REJECTED)
        load = self._holdings.load + self.kept
        tasks = [t for t in offer.tasks if self._holdings.may_take(t)]
        tasks = together(tasks, self._holdings.tasks.values())
        taken = acceptset(self._value, load, tasks, contract, offer.price)
        if taken:
            self._refused.pop(buyer, None)
            until = now + 2 * self._options.answer_us + self._options.resend_us
            return self._promise(buyer, offer, Decision.ACCEPTED, offer.price, taken, until)
        countered = self._counter(buyer, contract, load, tasks)
        if countered is None:
            if tasks:
                self._refused[buyer] = tasks[0]
            return Answer(offer.number, Decision.REJECTED)
        price, some = countered
        # Long enough for the buyer to ask all its other partners first (6.6.2).
        patience = self._options.answer_us + self._options.step_us
        partners = min(offer.partners, MAX_PARTNERS)
        until = now + partners * patience + self._options.resend_us
        return self._promise(buyer, offer, Decision.COUNTERED, price, some, until)

    def _counter(
        self, buyer: str, contract: Contract, load: Load, tasks: Sequence[Task]
    ) -> tuple[float, list[Task]] | None:
        if contract.fixed:
            return None
        if buyer in self._in_vain:
            return counter_offer(self._value, load, tasks, contract)
        rivals, above = self._options.rivals, self._options.above
        return counter_offer(self._value, load, tasks, contract, rivals, above)

    def _promise(
        self,
        buyer: str,
        offer: Offer,
        verdict: Decision,
        price: float,
        tasks: Sequence[Task],
        until: int,
    ) -> Answer:
        countered = verdict is Decision.COUNTERED
        self._promises[buyer, offer.number] = _Promise(price, tasks, until, countered)
        return Answer(offer.number, verdict, price, tuple(task.name for task in tasks))

    # --- promises -----------------------------------------------------------------------

    def promised(self, buyer: str, move: Move) -> tuple[Task, ...] | None:
        """The tasks that a movement may bring under a promise, which is used up, or None."""
        promise = self._promises.pop((buyer, move.number), None)
        if promise is None or move.price < promise.price:
            return None
        if not all(task.name in promise.tasks for task in move.tasks):
            return None
        self._in_vain.discard(buyer)
        return tuple(promise.tasks[task.name] for task in move.tasks)

    def released(self, buyer: str, message: ReleaseTasks, now: int) -> list[Effect]:
        """Release the room kept for a buyer that does not use the answer."""
        promise = self._promises.pop((buyer, message.number), None)
        if promise is not None and promise.countered:
            self._in_vain.add(buyer)
        return self.notify(now)

    def expire(self, now: int) -> list[Effect]:
        """Release the room of promises whose deadline has passed."""
        over = [key for key, promise in self._promises.items() if promise.until <= now]
        for key in over:
            del self._promises[key]
        return self.notify(now) if over else []

    def forget(self, buyer: str) -> list[Effect]:
        """Drop the promises and offers of a failed buyer."""
        for key in [key for key in self._promises if key[0] == buyer]:
            del self._promises[key]
        self._waiting.pop(buyer, None)
        self._refused.pop(buyer, None)
        return []

    def notify(self, now: int) -> list[Effect]:
        """Tell refused buyers when one of their tasks would be taken now."""
        if not self._options.notify or self._holdings.leaving:
            return []
        effects: list[Effect] = []
        load = self._holdings.load + self.kept
        for buyer, task in list(self._refused.items()):
            contract = self._contracts[buyer]
            if contract.valid(now) and acceptset(self._value, load, [task], contract, contract.low):
                del self._refused[buyer]
                effects.append(Send(buyer, Room()))
        return effects
