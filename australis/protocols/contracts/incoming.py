"""The seller's side of movements: tasks that came here from partners.

A movement happens when the seller takes the tasks, which at first only the seller knows.
"""

from __future__ import annotations

from collections.abc import Callable

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect, Send
from australis.protocols.contracts.choices import Valuation, load_of
from australis.protocols.contracts.events import (
    Carried,
    ContractOptions,
    Dropped,
    Ended,
    Entry,
    Owed,
    Sold,
    Write,
)
from australis.protocols.contracts.ledger import Booking, Ledger
from australis.protocols.contracts.messages import Due, Move, Paid, Return, Returned
from australis.protocols.contracts.movements import MovedIn, MovementSide
from australis.protocols.contracts.running import Running
from australis.protocols.contracts.terms import Signed, Task

Promised = Callable[[str, Move], tuple[Task, ...] | None]
MayTake = Callable[[Task], bool]
Fetch = Callable[[set[str], int], list[Effect]]
"""Takes back tasks that were forwarded."""


class Incoming(MovementSide):
    """The movements to this participant."""

    def __init__(
        self,
        here: Running,
        ledger: Ledger,
        signed: Signed,
        value: Valuation,
        options: ContractOptions,
    ) -> None:
        super().__init__(here, ledger, signed, value, options)
        self._movements: dict[tuple[str, int], MovedIn] = {}
        self._outcomes: dict[str, dict[int, bool]] = {}
        """Whether each ended movement had ever begun, by buyer, until the buyer knows."""

    def __len__(self) -> int:
        return len(self._movements)

    @property
    def unsettled(self) -> bool:
        """Whether a buyer has not answered a request."""
        return any(held.given_up or held.due for held in self._movements.values())

    @property
    def paid_per_s(self) -> float:
        """The income per second from the movements in force."""
        lasting = (held for held in self._movements.values() if not held.dropped)
        return sum(held.entry.units * held.entry.price for held in lasting)

    @property
    def hosted(self) -> list[tuple[str, str]]:
        """The tasks that run here, with the buyers that pay for them."""
        held = self._movements.items()
        return [(buyer, task.name) for (buyer, _), one in held for task in one.runs]

    @property
    def bound(self) -> set[str]:
        """The tasks that may not be forwarded, or are about to go back."""
        return {
            task.name
            for (buyer, _), held in self._movements.items()
            if held.given_up or not self._signed.may_forward(buyer, self._name)
            for task in held.runs
        }

    # --- the journal --------------------------------------------------------------------------

    def replay(self, entry: Sold | Dropped, now: int) -> None:
        """Apply an entry of the journal."""
        if isinstance(entry, Sold):
            self._movements[entry.buyer, entry.movement] = MovedIn(entry, since_us=now)
            self._settle(entry)
        else:
            self._drop(self._movements[entry.buyer, entry.movement])

    def replay_end(self, entry: Ended) -> None:
        """Apply the end of a movement; tasks that did not move for good stop running here."""
        held = self._movements.get((entry.buyer, entry.movement))
        if held is not None and not self._permanent:
            for task in held.runs:
                self._here.stop(task.name)
        self._end(entry.buyer, entry.movement)

    def restore(self, entry: Carried) -> None:
        """Restore the state from a compacted journal."""
        for buyer, movement, begun in entry.outcomes:
            self._outcomes.setdefault(buyer, {})[movement] = begun
        for (buyer, movement), held in self._movements.items():
            held.period = max(0, self._ledger.paid(buyer, movement))

    def begin_anew(self, now: int) -> None:
        """Restart the current paid time d of each movement after a crash."""
        for held in self._movements.values():
            held.since_us = now - held.period * held.entry.duration_us

    def carried(self) -> list[Entry]:
        """The entries of these movements in a compacted journal."""
        entries: list[Entry] = []
        for key, held in self._movements.items():
            entries.append(held.entry)
            if held.dropped:
                entries.append(Dropped(*key))
        return entries

    @property
    def outcomes(self) -> tuple[tuple[str, int, bool], ...]:
        """Buyer, ended movement, and whether it had ever begun."""
        return tuple(
            (buyer, movement, begun)
            for buyer, outcomes in self._outcomes.items()
            for movement, begun in outcomes.items()
        )

    # --- taking ---------------------------------------------------------------------------------

    def take(
        self, buyer: str, move: Move, now: int, promised: Promised, may_take: MayTake
    ) -> tuple[bool, list[Effect]]:
        """Take tasks as promised; once, however often the buyer asks."""
        key = buyer, move.movement
        if key in self._movements:
            return True, []
        outcomes = self._outcomes.setdefault(buyer, {})
        for number in [n for n in outcomes if n <= move.settled]:
            del outcomes[number]
        if move.movement in outcomes:
            return outcomes[move.movement], []
        tasks = promised(buyer, move)
        contract = self._signed.get(buyer, self._name)
        if tasks is None or contract is None or not all(map(may_take, tasks)):
            return False, [Write((self._end(buyer, move.movement),))]
        units = contract.units(load_of(tasks))
        if (units, contract.duration_us) != (move.units, move.duration_us):
            return False, [Write((self._end(buyer, move.movement),))]  # not the terms signed here
        sold = Sold(
            *(buyer, move.movement, move.price, contract.duration_us, units, tasks),
            may_forward=contract.may_forward,
        )
        self._movements[key] = MovedIn(sold, since_us=now)
        self._settle(sold)
        effects = [Write((sold,)), *self._pay(buyer, move.movement, 0)]
        if self._permanent:
            effects.append(Write((self._end(buyer, move.movement),)))
        return True, effects

    def _settle(self, sold: Sold) -> None:
        """Run the tasks; for good, if movements are permanent and they may not be forwarded."""
        self._here.settle(sold.tasks, self._permanent and not sold.may_forward)

    # --- being paid -------------------------------------------------------------------------------

    def paid(self, buyer: str, message: Paid, now: int) -> list[Effect]:
        """Process the buyer's payment for another time d."""
        held = self._movements.get((buyer, message.movement))
        if held is None or not held.period < message.period <= held.begun_by(now) + 1:
            return []
        effects = self._pay(buyer, message.movement, message.period)
        held.due = False
        return effects

    def book(self, owed: Owed) -> None:
        """Book one more time d of a movement."""
        held = self._movements[owed.buyer, owed.movement]
        entry = held.entry
        amount = entry.price * entry.units * entry.duration_us / SECOND
        self._ledger.book(Booking(owed.buyer, self._name, owed.movement, owed.period, amount))
        held.period = owed.period

    # --- ending -----------------------------------------------------------------------------------

    def recalled(self, buyer: str, message: Return, now: int, fetch: Fetch) -> list[Effect]:
        """Process the buyer's end of a movement, whose tasks it runs again."""
        held = self._movements.get((buyer, message.movement))
        if held is None:
            return [Send(buyer, Returned(buyer, message.movement))]
        paid = min(message.paid, held.begun_by(now) + 1)
        effects = self._pay(buyer, message.movement, paid)
        return [*effects, *self._give_back(held, now, fetch)]

    def returned(self, buyer: str, movement: int, now: int, fetch: Fetch) -> list[Effect]:
        """Process the buyer's confirmation that a movement has ended."""
        held = self._movements.get((buyer, movement))
        return [] if held is None else self._give_back(held, now, fetch)

    def _give_back(self, held: MovedIn, now: int, fetch: Fetch) -> list[Effect]:
        """Stop tasks that their buyer runs again, after taking back those that were forwarded."""
        entry = held.entry
        names = {task.name for task in held.runs}
        effects = fetch(names, now)
        for name in names:
            self._here.stop(name)
        effects.append(Write((self._end(entry.buyer, entry.movement),)))
        effects.append(Send(entry.buyer, Returned(entry.buyer, entry.movement)))
        return effects

    def partner_failed(self, partner: str, now: int, fetch: Fetch) -> list[Effect]:
        """Stop tasks that a failed buyer had only forwarded: the participant they came from runs
        them again. The buyer's own tasks continue."""
        effects: list[Effect] = []
        for (buyer, movement), held in self._movements.items():
            if buyer == partner and held.forwarded and not held.dropped:
                effects += fetch({task.name for task in held.forwarded}, now)
                self._drop(held)
                effects.append(Write((Dropped(buyer, movement),)))
        return effects

    def partner_left(self, partner: str, now: int, fetch: Fetch) -> list[Effect]:
        """End all movements of a partner."""
        held = [held for (buyer, _), held in self._movements.items() if buyer == partner]
        return [effect for one in held for effect in self._give_back(one, now, fetch)]

    def _drop(self, held: MovedIn) -> None:
        held.given_up = held.dropped = True
        for task in held.forwarded:
            self._here.stop(task.name)

    def _end(self, buyer: str, movement: int) -> Ended:
        begun = self._movements.pop((buyer, movement), None) is not None
        self._outcomes.setdefault(buyer, {})[movement] = begun
        self._ledger.forget(buyer, movement)
        return Ended(buyer, movement)

    # --- sending ----------------------------------------------------------------------------------

    def say_all(self, now: int, unless_said_us: int) -> list[Effect]:
        """Ask for payments that are due and end movements that do not pay, unless sent just now."""
        effects: list[Effect] = []
        for (buyer, movement), held in self._movements.items():
            again = now - held.said_us >= unless_said_us
            begun = held.begun_by(now)
            over = begun > held.period and not held.due
            if over and not held.given_up:  # otherwise no request for another time d
                ends = self._signed.ends(buyer, self._name, now) or self._too_dear(held.entry)
                held.given_up, again = ends, again or ends
            if held.given_up and again:
                held.said_us = now
                effects.append(Send(buyer, Return(buyer, movement)))
            elif not held.given_up and (over or (held.due and again)):
                held.due, held.said_us = True, now
                effects.append(Send(buyer, Due(movement, max(begun, held.period + 1))))
        return effects

    def _too_dear(self, entry: Sold) -> bool:
        tasks, load = self._here.tasks, self._here.load
        if not all(task.name in tasks for task in entry.tasks):
            return False
        used = load_of(tasks[task.name] for task in entry.tasks)  # the present load
        units = entry.units * entry.price * (1 + self._value.margin)
        return self._value.marginal(used, load - used) > units
