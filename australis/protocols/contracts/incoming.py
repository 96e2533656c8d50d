"""The seller's side of movements: tasks that came here from partners.

A movement happens when the seller takes the tasks, which only the seller knows at first.
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
from australis.protocols.contracts.movements import MovedIn
from australis.protocols.contracts.running import Running
from australis.protocols.contracts.terms import Signed, Task

Promised = Callable[[str, Move], tuple[Task, ...] | None]
MayTake = Callable[[Task], bool]
Fetch = Callable[[set[str], int], list[Effect]]
"""Takes tasks back that were moved further."""


class Incoming:
    """What moved to here."""

    def __init__(
        self,
        here: Running,
        ledger: Ledger,
        signed: Signed,
        value: Valuation,
        options: ContractOptions,
    ) -> None:
        self._name = here.name
        self._here = here
        self._ledger = ledger
        self._signed = signed
        self._value = value
        self._permanent = options.permanent
        self._movements: dict[tuple[str, int], MovedIn] = {}
        self._outcomes: dict[str, dict[int, bool]] = {}
        """Whether movements that are over here had ever begun, until their buyer knows it."""

    def __len__(self) -> int:
        return len(self._movements)

    @property
    def unsettled(self) -> bool:
        """Whether a buyer was asked something and has not answered."""
        return any(held.given_up or held.due for held in self._movements.values())

    @property
    def paid_per_s(self) -> float:
        """What the movements that last bring in."""
        lasting = (held for held in self._movements.values() if not held.dropped)
        return sum(held.entry.units * held.entry.price for held in lasting)

    @property
    def bound(self) -> set[str]:
        """Tasks that may not be moved further, or are about to go back."""
        return {
            task.name
            for (buyer, _), held in self._movements.items()
            if held.given_up or not self._signed.may_forward(buyer, self._name)
            for task in held.runs
        }

    # --- the journal --------------------------------------------------------------------------

    def replay(self, entry: Sold | Dropped, now: int) -> None:
        """Remember what was written."""
        if isinstance(entry, Sold):
            self._movements[entry.buyer, entry.movement] = MovedIn(entry, since_us=now)
            self._settle(entry)
        else:
            self._drop(self._movements[entry.buyer, entry.movement])

    def replay_end(self, entry: Ended) -> None:
        """It ended; what does not move for good does not run here any longer."""
        held = self._movements.get((entry.buyer, entry.movement))
        if held is not None and not self._permanent:
            for task in held.runs:
                self._here.stop(task.name)
        self._end(entry.buyer, entry.movement)

    def restore(self, entry: Carried) -> None:
        """Go on as a journal says that was written anew."""
        for buyer, movement, begun in entry.outcomes:
            self._outcomes.setdefault(buyer, {})[movement] = begun
        for (buyer, movement), held in self._movements.items():
            held.period = max(0, self._ledger.paid(buyer, movement))

    def begin_anew(self, now: int) -> None:
        """After a crash the time that was paid for begins once more."""
        for held in self._movements.values():
            held.since_us = now - held.period * held.entry.duration_us

    def carried(self) -> list[Entry]:
        """What a journal that is written anew says of them."""
        entries: list[Entry] = []
        for key, held in self._movements.items():
            entries.append(held.entry)
            if held.dropped:
                entries.append(Dropped(*key))
        return entries

    @property
    def outcomes(self) -> tuple[tuple[str, int, bool], ...]:
        """Buyer, movement that is over, and whether it had ever begun."""
        return tuple(
            (buyer, movement, begun)
            for buyer, outcomes in self._outcomes.items()
            for movement, begun in outcomes.items()
        )

    # --- taking ---------------------------------------------------------------------------------

    def take(
        self, buyer: str, move: Move, now: int, promised: Promised, may_take: MayTake
    ) -> tuple[bool, list[Effect]]:
        """Take tasks as was promised; once, however often it is asked."""
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
            return False, [Write((self._end(buyer, move.movement),))]  # not what was signed here
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
        """It runs here; for good, if everything moves for good and it may not go on."""
        self._here.settle(sold.tasks, self._permanent and not sold.may_forward)

    # --- being paid -------------------------------------------------------------------------------

    def paid(self, buyer: str, message: Paid, now: int) -> list[Effect]:
        """The buyer pays for another time d."""
        held = self._movements.get((buyer, message.movement))
        if held is None or not held.period < message.period <= held.begun_by(now) + 1:
            return []
        effects = self._pay(buyer, message.movement, message.period)
        held.due = False
        return effects

    def _pay(self, buyer: str, movement: int, upto: int) -> list[Effect]:
        """Book each time d that is not booked yet, up to this one."""
        paid = self._ledger.paid(buyer, movement)
        owed = [Owed(buyer, movement, period) for period in range(paid + 1, upto + 1)]
        for one in owed:
            self.book(one)
        return [Write(tuple(owed))] if owed else []

    def book(self, owed: Owed) -> None:
        """One more time d is owed for a movement."""
        held = self._movements[owed.buyer, owed.movement]
        entry = held.entry
        amount = entry.price * entry.units * entry.duration_us / SECOND
        self._ledger.book(Booking(owed.buyer, self._name, owed.movement, owed.period, amount))
        held.period = owed.period

    # --- ending -----------------------------------------------------------------------------------

    def recalled(self, buyer: str, message: Return, now: int, fetch: Fetch) -> list[Effect]:
        """The buyer ends it, and runs the tasks again."""
        held = self._movements.get((buyer, message.movement))
        if held is None:
            return [Send(buyer, Returned(buyer, message.movement))]
        paid = min(message.paid, held.begun_by(now) + 1)
        effects = self._pay(buyer, message.movement, paid)
        return [*effects, *self._give_back(held, now, fetch)]

    def returned(self, buyer: str, movement: int, now: int, fetch: Fetch) -> list[Effect]:
        """The buyer has ended it."""
        held = self._movements.get((buyer, movement))
        return [] if held is None else self._give_back(held, now, fetch)

    def _give_back(self, held: MovedIn, now: int, fetch: Fetch) -> list[Effect]:
        """Stop running what its buyer runs again; what went further comes back first."""
        entry = held.entry
        names = {task.name for task in held.runs}
        effects = fetch(names, now)
        for name in names:
            self._here.stop(name)
        effects.append(Write((self._end(entry.buyer, entry.movement),)))
        effects.append(Send(entry.buyer, Returned(entry.buyer, entry.movement)))
        return effects

    def partner_failed(self, partner: str, now: int, fetch: Fetch) -> list[Effect]:
        """Do not run any longer what it had only forwarded: whoever that came from runs it
        again. Its own tasks go on."""
        effects: list[Effect] = []
        for (buyer, movement), held in self._movements.items():
            if buyer == partner and held.forwarded and not held.dropped:
                effects += fetch({task.name for task in held.forwarded}, now)
                self._drop(held)
                effects.append(Write((Dropped(buyer, movement),)))
        return effects

    def partner_left(self, partner: str, now: int, fetch: Fetch) -> list[Effect]:
        """End all there was with it."""
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

    # --- saying it --------------------------------------------------------------------------------

    def say_all(self, now: int, unless_said_us: int) -> list[Effect]:
        """Ask for what is due and end what does not pay, unless that was said just now."""
        effects: list[Effect] = []
        for (buyer, movement), held in self._movements.items():
            again = now - held.said_us >= unless_said_us
            begun = held.begun_by(now)
            over = begun > held.period and not held.due
            if over and not held.given_up:  # it need not ask for another time d
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
        used = load_of(tasks[task.name] for task in entry.tasks)  # as it is now
        units = entry.units * entry.price * (1 + self._value.margin)
        return self._value.marginal(used, load - used) > units
