"""The buyer's side of movements: tasks that went from here to partners.

The buyer repeats its request until it has a receipt, and runs the tasks itself until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect, Send
from australis.protocols.contracts.choices import Valuation, load_of
from australis.protocols.contracts.events import (
    Bought,
    Confirmed,
    ContractOptions,
    Ended,
    Entry,
    Owed,
    Recalled,
    Write,
)
from australis.protocols.contracts.ledger import Booking, Ledger
from australis.protocols.contracts.messages import Due, Move, Paid, Receipt, Return, Returned
from australis.protocols.contracts.movements import MovedOut, MovementSide
from australis.protocols.contracts.running import Running
from australis.protocols.contracts.terms import Contract, Signed, Task


class Outgoing(MovementSide):
    """The movements from this participant, in force or under way."""

    def __init__(
        self,
        here: Running,
        ledger: Ledger,
        signed: Signed,
        value: Valuation,
        options: ContractOptions,
    ) -> None:
        super().__init__(here, ledger, signed, value, options)
        self._movements: dict[int, MovedOut] = {}
        self.confirmed_movements = 0
        self.tasks_moved = 0
        """The number of tasks that left or came back."""

    @property
    def away(self) -> dict[str, MovedOut]:
        """The movement of each task that has one."""
        return {task.name: out for out in self._movements.values() for task in out.entry.tasks}

    @property
    def unsettled(self) -> bool:
        """Whether a seller may not know the state of a movement."""
        return not all(out.settled for out in self._movements.values())

    def __len__(self) -> int:
        return len(self._movements)

    @property
    def paid_per_s(self) -> float:
        """The expenses per second for the movements in force."""
        lasting = (out for out in self._movements.values() if out.settled)
        return sum(out.entry.units * out.entry.price for out in lasting)

    def at(self, seller: str) -> list[Task]:
        """The tasks that moved from here to a partner."""
        found = (out.entry for out in self._movements.values())
        return [task for entry in found if entry.seller == seller for task in entry.tasks]

    # --- the journal --------------------------------------------------------------------------

    def replay(self, entry: Bought | Confirmed | Recalled, now: int) -> None:
        """Apply an entry of the journal."""
        if isinstance(entry, Bought):
            self._movements[entry.movement] = MovedOut(entry, since_us=now)
            self._here.set_out(entry.tasks, entry.movement)
            return
        out = self._movements[entry.movement]
        if isinstance(entry, Recalled):
            self._come_back(out)
            return
        out.confirmed = True
        if not out.recalled:
            self._here.leave(out.entry.tasks)

    def carried(self) -> list[Entry]:
        """The entries of these movements in a compacted journal."""
        entries: list[Entry] = []
        for movement, out in self._movements.items():
            entries.append(out.entry)
            if out.confirmed:
                entries.append(Confirmed(movement))
            if out.recalled:
                entries.append(Recalled(movement))
        return entries

    # --- moving ---------------------------------------------------------------------------------

    def move(
        self,
        contract: Contract,
        number: int,
        movement: int,
        price: float,
        tasks: Sequence[Task],
        now: int,
    ) -> list[Effect]:
        """Ask the seller to take tasks as agreed."""
        units = contract.units(load_of(tasks))
        entry = Bought(
            movement, number, contract.seller, price, contract.duration_us, units, tuple(tasks)
        )
        out = self._movements[movement] = MovedOut(entry, since_us=now)
        self._here.set_out(tasks, movement)
        return [Write((entry,)), self._say(out, now)]

    def confirmed(self, seller: str, receipt: Receipt, now: int) -> list[Effect]:
        """Process the seller's receipt: it has the tasks, or will never take them."""
        out = self._movements.get(receipt.movement)
        if out is None or out.confirmed or out.entry.seller != seller:
            return []
        if not receipt.taken:
            return [Write((self.end(receipt.movement),))]
        out.since_us = now
        effects = self._begun(out)
        if out.recalled:
            return [*effects, self._say(out, now)]
        self.confirmed_movements += 1
        self.tasks_moved += len(out.entry.tasks)
        if self._permanent:
            effects.append(Write((self.end(receipt.movement),)))
        return effects

    def _begun(self, out: MovedOut) -> list[Effect]:
        """Note that the seller has taken the tasks and is owed the first time d."""
        if out.confirmed:
            return []
        movement = out.entry.movement
        out.confirmed = True
        if not out.recalled:
            self._here.leave(out.entry.tasks)
        return [Write((Confirmed(movement),)), *self._pay(self._name, movement, 0)]

    # --- paying ---------------------------------------------------------------------------------

    def due(self, seller: str, message: Due, now: int) -> list[Effect]:
        """Process the seller's request to be paid for another time d."""
        out = self._movements.get(message.movement)
        if out is None or out.entry.seller != seller:
            return [Send(seller, Returned(self._name, message.movement))]
        effects = self._begun(out)  # a seller that asks to be paid has the tasks
        if out.recalled:
            return [*effects, Send(seller, self._return(message.movement))]
        # Not for a time that begins later, but for one that begins now at the seller.
        paid = self._ledger.paid(self._name, message.movement)
        begun = (now - out.since_us) // out.entry.duration_us
        period = max(paid, min(message.period, max(begun, paid) + 1))
        effects += self._pay(self._name, message.movement, period)
        return [*effects, Send(seller, Paid(message.movement, period))]

    def book(self, owed: Owed) -> None:
        """Book one more time d owed to the seller."""
        entry = self._movements[owed.movement].entry
        amount = entry.price * entry.units * entry.duration_us / SECOND
        self._ledger.book(
            Booking(self._name, entry.seller, owed.movement, owed.period, amount)
        )  # fmt: skip

    # --- ending ---------------------------------------------------------------------------------

    def review(self, now: int) -> list[Effect]:
        """End the movements whose time is over and that are not worthwhile any more (6.4)."""
        effects: list[Effect] = []
        for out in list(self._movements.values()):
            entry = out.entry
            if not out.settled or now < out.since_us + entry.duration_us:
                continue
            if self._signed.ends(self._name, entry.seller, now) or self._cheaper_here(entry):
                effects += self.take_back(out, now)
        return effects

    def _cheaper_here(self, entry: Bought) -> bool:
        units = entry.units * entry.price * (1 - self._value.margin)
        return self._value.marginal(load_of(entry.tasks), self._here.load) < units

    def take_back(self, out: MovedOut, now: int) -> list[Effect]:
        """Run tasks here again and tell the seller; if it is unknown whether the seller has them,
        its receipt comes first."""
        if out.recalled:
            return []
        effects = self._recall(out)
        if out.confirmed:
            effects.append(self._say(out, now))
        return effects

    def fetch(self, names: set[str], now: int) -> list[Effect]:
        """Take back every movement with one of these tasks, including those under way."""
        moved = [out for out in self._movements.values() if out.moves(names)]
        return [effect for out in moved for effect in self.take_back(out, now)]

    def given_up(self, seller: str, movement: int, now: int) -> list[Effect]:
        """Process the seller's end of a movement."""
        out = self._movements.get(movement)
        if out is None:
            return [Send(seller, Returned(self._name, movement))]
        effects = [*self._begun(out), *self._recall(out)]
        return [*effects, Send(seller, self._return(movement))]

    def returned(self, movement: int) -> list[Effect]:
        """Process the seller's confirmation that a movement has ended."""
        out = self._movements.get(movement)
        if out is None:
            return []
        return [*self._recall(out), Write((self.end(movement),))]

    def partner_failed(self, partner: str, now: int) -> list[Effect]:
        """Run tasks again that ran at a failed partner."""
        return [effect for out in self._with(partner) for effect in self.take_back(out, now)]

    def partner_left(self, partner: str) -> list[Effect]:
        """Run tasks again that ran at a partner that has left for good and answers no more."""
        return [
            effect for out in self._with(partner) for effect in self.returned(out.entry.movement)
        ]

    def _with(self, partner: str) -> Iterable[MovedOut]:
        return [out for out in self._movements.values() if out.entry.seller == partner]

    def _recall(self, out: MovedOut) -> list[Effect]:
        if out.recalled:
            return []
        self._come_back(out)
        self.tasks_moved += len(out.entry.tasks)
        return [Write((Recalled(out.entry.movement),))]

    def _come_back(self, out: MovedOut) -> None:
        out.recalled = True
        self._here.come_back(out.entry.tasks)

    def end(self, movement: int) -> Ended:
        """End a movement, whether or not it had begun."""
        out = self._movements.pop(movement, None)
        if out is not None:
            self._here.forget(out.entry.tasks, movement)
            if self._permanent and out.settled:
                self._here.left |= {t.name for t in out.entry.tasks if t.origin == self._name}
        self._ledger.forget(self._name, movement)
        return Ended(self._name, movement)

    # --- sending --------------------------------------------------------------------------------

    def say_all(self, now: int, unless_said_us: int) -> list[Effect]:
        """The messages that sellers have to get, unless they were sent just now."""
        unsettled = (out for out in self._movements.values() if not out.settled)
        return [self._say(out, now) for out in unsettled if now - out.said_us >= unless_said_us]

    def _say(self, out: MovedOut, now: int) -> Send:
        """The message that the seller of a movement has to get.

        A movement without a receipt is asked for even if its tasks shall not move any more: only
        the receipt tells whether there is a movement to end.
        """
        out.said_us = now
        entry = out.entry
        if out.confirmed:
            return Send(entry.seller, self._return(entry.movement))
        others = self._movements.values()
        unknown = (other.entry.movement for other in others if not other.confirmed)
        move = Move(
            *(entry.movement, entry.number, entry.price, entry.tasks),
            *(entry.units, entry.duration_us, min(unknown) - 1),
        )
        return Send(entry.seller, move)

    def _return(self, movement: int) -> Return:
        return Return(self._name, movement, self._ledger.paid(self._name, movement))
