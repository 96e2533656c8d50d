"""The buyer's side: consecutive negotiations, with one partner at a time (figure 6-4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from australis.kernel.machine import Effect, Send, SetTimer
from australis.protocols.contracts.choices import Valuation, offerset, together
from australis.protocols.contracts.messages import Answer, Decision, Offer, ReleaseTasks, Room
from australis.protocols.contracts.terms import Contract, Task

if TYPE_CHECKING:
    from australis.protocols.contracts.events import ContractOptions
    from australis.protocols.contracts.holdings import Holdings

OFFER = "offer"
ANSWER = "answer"
MAX_INCARNATIONS = 1 << 32
"""The number of negotiations and movements that one incarnation can number."""
SPREAD = 8
"""The exclusive limit of the extra steps that a buyer waits after fruitless counter-offers."""


def extra_steps(wake_us: int, failures: int) -> int:
    """The extra steps that a buyer waits after a negotiation in which sellers kept room in vain.

    If two buyers always waited equally long, each could find the room it needs kept for the other
    for ever. So the extra steps differ between buyers and from one negotiation to the next.

    >>> [extra_steps(1_000, n) for n in range(8)], [extra_steps(2_000, n) for n in range(8)]
    ([7, 1, 7, 1, 3, 0, 3, 3], [7, 0, 3, 3, 5, 7, 7, 0])
    """
    mixed = (wake_us * 0x9E3779B1 + failures * 0x85EBCA6B) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return (mixed >> 16) % SPREAD


@dataclass(frozen=True)
class _Counter:
    """A counter-offer that is still binding."""

    contract: Contract
    number: int
    price: float
    tasks: tuple[Task, ...]
    """The tasks as they were offered."""


class Buying:
    """The state of the current negotiation, if there is one."""

    def __init__(
        self,
        name: str,
        value: Valuation,
        options: ContractOptions,
        holdings: Holdings,
    ) -> None:
        self._name = name
        self._contracts: list[Contract] = []
        self._value = value
        self._options = options
        self._holdings = holdings
        self._numbers = 0
        self._cursor = 0
        """The index of the contract that is tried next."""
        self._asked: tuple[Contract, Offer] | None = None
        self._counters: list[_Counter] = []
        self._not_before: dict[str, int] = {}
        """The time before which a partner that refused is not asked again, which is its d later."""
        self._wake_us = 0
        self._failures = 0
        """The number of negotiations for which sellers kept room in vain."""

    @property
    def negotiating(self) -> bool:
        """Whether a negotiation has begun and not ended."""
        return self._cursor > 0 or self._asked is not None

    def sign(self, contracts: Sequence[Contract]) -> None:
        """Buy under these contracts from now on, the cheapest first."""
        mine = [c for c in contracts if c.buyer == self._name]
        self._contracts = sorted(mine, key=lambda c: c.low)  # equal ones stay in order
        self._cursor = min(self._cursor, len(mine))

    def start(self, incarnation: int, wake_us: int) -> None:
        """Start with numbers that no earlier incarnation has used."""
        self._numbers = incarnation * MAX_INCARNATIONS
        self._wake_us = wake_us

    def fired(self, timer: str, now: int) -> list[Effect]:
        """Try the next partner, or give up the one that has not answered."""
        if timer == ANSWER:
            if self._asked is None:
                return []
            contract, offer = self._asked
            release = Send(contract.seller, ReleaseTasks(offer.number))
            # Without an answer it has not refused, so it is asked again before its d is over.
            return [release, *self._refused(contract, self._options.period_us, now)]
        if self._asked is not None:
            return []
        return self._next(now)

    def _next(self, now: int) -> list[Effect]:
        """Make an offer to the next partner for which one is worthwhile."""
        while self._cursor < len(self._contracts):
            contract = self._contracts[self._cursor]
            self._cursor += 1
            if self._holdings.leaving:
                continue
            if not contract.valid(now) or now < self._not_before.get(contract.seller, now):
                continue
            tasks = self._worth_moving(contract, contract.low, self._holdings.free.values())
            if tasks:
                return self._offer(contract, tasks, now)
        return self._finish(now)

    def _worth_moving(self, contract: Contract, price: float, tasks: Iterable[Task]) -> list[Task]:
        ordered = together(tasks, self._holdings.at(contract.seller))
        return offerset(self._value, self._holdings.load, ordered, contract, price)

    def _offer(self, contract: Contract, tasks: Sequence[Task], now: int) -> list[Effect]:
        self._numbers += 1
        partners = len(self._contracts)
        offer = Offer(self._numbers, contract.low, tuple(tasks), partners)
        self._asked = contract, offer
        return [Send(contract.seller, offer), SetTimer(ANSWER, now + self._options.answer_us)]

    def answered(self, seller: str, answer: Answer, now: int) -> list[Effect]:
        """Process the seller's answer: accepted, countered or rejected."""
        if self._asked is None or self._asked[1].number != answer.number:
            if answer.verdict is Decision.REJECTED:
                return []
            return [Send(seller, ReleaseTasks(answer.number))]  # too late
        contract, offer = self._asked
        match answer.verdict:
            case Decision.ACCEPTED:
                return self._accepted(contract, offer, answer, now)
            case Decision.COUNTERED if answer.price <= contract.high:
                self._asked = None
                tasks = tuple(t for t in offer.tasks if t.name in answer.tasks)
                counter = _Counter(contract, offer.number, answer.price, tasks)
                self._counters.append(counter)
                return [SetTimer(OFFER, now + self._options.step_us)]
        return self._refused(contract, contract.duration_us, now)

    def _accepted(self, contract: Contract, offer: Offer, answer: Answer, now: int) -> list[Effect]:
        """Move the tasks the seller took, as far as they are unchanged: the offer was binding."""
        self._asked = None
        taken = self._unchanged(t for t in offer.tasks if t.name in answer.tasks)
        effects = self._rest(now)
        if not taken:
            return [Send(contract.seller, ReleaseTasks(offer.number)), *effects]
        return [
            *self._holdings.move(contract, offer.number, self._movement(), offer.price, taken, now),
            *effects,
        ]

    def _unchanged(self, offered: Iterable[Task]) -> list[Task]:
        """The tasks that are still here with the same load, since both sides book by that."""
        free = self._holdings.free
        return [task for task in offered if free.get(task.name) == task]

    def forget(self, partner: str, now: int) -> list[Effect]:
        """Drop the counter-offers and the open offer of a failed partner."""
        self._counters = [c for c in self._counters if c.contract.seller != partner]
        if self._asked is None or self._asked[0].seller != partner:
            return []
        return self._refused(self._asked[0], self._options.period_us, now)

    def _refused(self, contract: Contract, for_us: int, now: int) -> list[Effect]:
        self._asked = None
        self._not_before[contract.seller] = now + for_us
        return self._next(now)

    def _finish(self, now: int) -> list[Effect]:
        """After the last answer, take the lowest counter-offer if it is still worthwhile."""
        best = min(self._counters, key=lambda c: c.price, default=None)
        if best is None:
            return self._rest(now)
        moved = self._worth_moving(best.contract, best.price, self._unchanged(best.tasks))
        if not moved:
            self._failures += 1
            return self._rest(now, extra_steps(self._wake_us, self._failures))
        self._counters.remove(best)
        effects = self._holdings.move(
            best.contract, best.number, self._movement(), best.price, moved, now
        )
        return [*effects, *self._rest(now)]

    def _rest(self, now: int, steps: int = 0) -> list[Effect]:
        """Release the remaining counter-offers and schedule the next negotiation."""
        released = [Send(c.contract.seller, ReleaseTasks(c.number)) for c in self._counters]
        self._counters = []
        self._cursor = 0
        wait_us = self._options.period_us + steps * self._options.step_us
        return [*released, SetTimer(OFFER, now + wait_us)]

    def _movement(self) -> int:
        self._numbers += 1
        return self._numbers

    def has_room(self, seller: str, message: Room, now: int) -> list[Effect]:
        """Ask a partner again that refused earlier and has room now."""
        self._not_before.pop(seller, None)
        return [] if self.negotiating else self._next(now)
