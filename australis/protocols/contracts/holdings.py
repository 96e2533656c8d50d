"""Which tasks run where and what is owed for them: movements from the first message to the last.

Each side writes to its journal what it could not learn again after a crash. After d either side may
end a movement (6.4). A seller is not paid for the time it could not work: a buyer that loses its
seller runs the tasks again and owes no further time d. A seller that loses a buyer of forwarded
tasks stops running them, since they run again at the participant they came from.
"""

from __future__ import annotations

from collections.abc import Sequence

from australis.kernel.machine import Effect, SetTimer
from australis.protocols.contracts.choices import Valuation
from australis.protocols.contracts.costs import Load
from australis.protocols.contracts.events import (
    Bought,
    Carried,
    Confirmed,
    ContractOptions,
    Dropped,
    Ended,
    Entry,
    Fined,
    Leaves,
    Owed,
    Recalled,
    Sold,
    Started,
    TasksChanged,
    Write,
)
from australis.protocols.contracts.incoming import Incoming, Promised
from australis.protocols.contracts.ledger import Ledger
from australis.protocols.contracts.messages import Due, Move, Paid, Receipt, Return, Returned
from australis.protocols.contracts.outgoing import Outgoing
from australis.protocols.contracts.running import Running
from australis.protocols.contracts.terms import Contract, Signed, Task

RESEND = "resend"


class Holdings:
    """The tasks that run here, and the movements under way or in force."""

    def __init__(self, name: str, value: Valuation, options: ContractOptions) -> None:
        self.name = name
        self.ledger = Ledger()
        self._options = options
        self._signed = Signed()
        self._here = Running(name)
        self._out = Outgoing(self._here, self.ledger, self._signed, value, options)
        self._in = Incoming(self._here, self.ledger, self._signed, value, options)
        self._resending = False

    def sign(self, contracts: Sequence[Contract]) -> None:
        """Use these contracts from now on; movements under earlier ones last until they end."""
        self._signed.sign(contracts)

    # --- state --------------------------------------------------------------------------------

    @property
    def tasks(self) -> dict[str, Task]:
        """All tasks that run here."""
        return self._here.tasks

    @property
    def load(self) -> Load:
        """The load of all tasks that run here."""
        return self._here.load

    @property
    def free(self) -> dict[str, Task]:
        """The tasks that can be offered: they run here, may be moved, and are not moving."""
        bound = self._in.bound | self._here.stays | self._here.moving.keys()
        return {name: task for name, task in self.tasks.items() if name not in bound}

    @property
    def leaving(self) -> bool:
        """Whether it takes no more tasks and ends every movement as soon as its time d is over."""
        return self._signed.leaving

    @property
    def movements(self) -> int:
        """The number of movements from here."""
        return self._out.confirmed_movements

    @property
    def tasks_moved(self) -> int:
        """The number of tasks that left from here or came back."""
        return self._out.tasks_moved

    @property
    def unsettled(self) -> bool:
        """Whether the two sides of a movement may have different knowledge of it."""
        return self._out.unsettled or self._in.unsettled

    @property
    def bound(self) -> bool:
        """Whether any movement to here or from here is in force."""
        return len(self._in) + len(self._out) > 0

    @property
    def earned_per_s(self) -> float:
        """The income per second from the movements in force, less the expenses."""
        return self._in.paid_per_s - self._out.paid_per_s

    @property
    def hosted(self) -> list[tuple[str, str]]:
        """The tasks that run here under movements in force, with the buyers that pay for them."""
        return self._in.hosted

    def at(self, seller: str) -> list[Task]:
        """The tasks that moved from here to a partner."""
        return self._out.at(seller)

    def may_take(self, task: Task) -> bool:
        """Whether a task can come here: not while it is here, nor under a movement from here, which
        its present host would have to end instead."""
        return task.name not in self.tasks and task.name not in self._out.away

    # --- start and journal ----------------------------------------------------------------------

    def start(self, event: Started, now: int) -> list[Effect]:
        """Start with own tasks, and with the tasks of others and the movements in the journal."""
        self._here.begin(event.tasks)
        for entry in event.journal:
            self._replay(entry, now)
        self._in.begin_anew(now)
        self._here.count()
        return [*self._fetch_unwanted(now), *self._say_all(now, 0)]

    def _fetch_unwanted(self, now: int) -> list[Effect]:
        """End the movements of own tasks that were withdrawn while this participant was down."""
        if self._options.permanent:
            return []
        moved = (task for out in self._out.away.values() for task in out.entry.tasks)
        gone = {t.name for t in moved if t.origin == self.name and t.name not in self._here.own}
        return self._out.fetch(gone, now)

    def _replay(self, entry: Entry, now: int) -> None:
        match entry:
            case Carried():  # earlier entries give the movements in force, this one the rest
                self.ledger.restore(entry.owed, entry.paid, entry.fined)
                self._in.restore(entry)
                self._here.restore(entry)
            case Bought() | Confirmed() | Recalled():
                self._out.replay(entry, now)
            case Sold() | Dropped():
                self._in.replay(entry, now)
            case Owed(buyer):
                (self._out if buyer == self.name else self._in).book(entry)
            case Ended(buyer, movement) if buyer == self.name:
                self._out.end(movement)
            case Ended():
                self._in.replay_end(entry)
            case Leaves():
                self._signed.leaving = True
            case Fined():
                pass  # `service` handles these

    def carried(self) -> list[Entry]:
        """A compact journal with the same meaning as the whole one."""
        here = self._here
        carried = Carried(
            *self.ledger.state(),
            outcomes=self._in.outcomes,
            away=tuple(sorted(here.own - here.tasks.keys())),
            taken=tuple(t for t in here.tasks.values() if t.origin != self.name),
            left=tuple(sorted(here.left)),
            stays=tuple(sorted(here.stays)),
        )
        leaves = [Leaves()] if self.leaving else []
        return [*self._in.carried(), *self._out.carried(), *leaves, carried]

    # --- local changes ----------------------------------------------------------------------------

    def change(self, event: TasksChanged, now: int) -> list[Effect]:
        """Process own tasks that came, went or changed their load.

        A task that runs elsewhere continues there as agreed; if its client withdraws it, its
        movement is ended. (A task that has moved for good cannot be ended from here.)
        """
        away = self._out.away
        effects: list[Effect] = []
        for task in event.now_there:
            self._here.want(task, away)
        for name in event.gone:
            self._here.own.discard(name)
            if name in away:
                effects += self._out.take_back(away[name], now)
            self._here.stop(name)
        self._here.count()
        return self._to_be_answered(effects, now)

    def leave(self) -> list[Effect]:
        """Take no more tasks from now on and end the movements; a crash does not revoke that."""
        if self.leaving:
            return []
        self._signed.leaving = True
        return [Write((Leaves(),))]

    def review(self, now: int) -> list[Effect]:
        """As the buyer: end the movements past their time d that are not worthwhile (6.4)."""
        return self._to_be_answered(self._out.review(now), now)

    # --- messages of partners ---------------------------------------------------------------------

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
        effects = self._out.move(contract, number, movement, price, tasks, now)
        return self._to_be_answered(effects, now)

    def take(
        self, buyer: str, move: Move, now: int, promised: Promised
    ) -> tuple[bool, list[Effect]]:
        """Take tasks as promised; once, however often the buyer asks."""
        taken, effects = self._in.take(buyer, move, now, promised, self.may_take)
        return taken, self._to_be_answered(effects, now)

    def confirmed(self, seller: str, receipt: Receipt, now: int) -> list[Effect]:
        """Process the seller's receipt: it has the tasks, or will never take them."""
        return self._out.confirmed(seller, receipt, now)

    def due(self, seller: str, message: Due, now: int) -> list[Effect]:
        """Process the seller's request to be paid for another time d."""
        return self._out.due(seller, message, now)

    def paid(self, buyer: str, message: Paid, now: int) -> list[Effect]:
        """Process the buyer's payment for another time d."""
        return self._in.paid(buyer, message, now)

    def asked_back(self, sender: str, message: Return, now: int) -> list[Effect]:
        """Process the other side's request to end a movement."""
        if message.buyer == self.name:
            effects = self._out.given_up(sender, message.movement, now)
        else:
            effects = self._in.recalled(sender, message, now, self._out.fetch)
        return self._to_be_answered(effects, now)

    def returned(self, sender: str, message: Returned, now: int) -> list[Effect]:
        """Process the other side's confirmation that a movement has ended."""
        if message.buyer == self.name:
            effects = self._out.returned(message.movement)
        else:
            effects = self._in.returned(sender, message.movement, now, self._out.fetch)
        return self._to_be_answered(effects, now)

    def partner_failed(self, partner: str, now: int) -> list[Effect]:
        """Run tasks again that ran at a failed partner, and stop those it had only forwarded."""
        effects = self._out.partner_failed(partner, now)
        effects += self._in.partner_failed(partner, now, self._out.fetch)
        return self._to_be_answered(effects, now)

    def partner_left(self, partner: str, now: int) -> list[Effect]:
        """End all movements with a partner that has left for good and answers no more."""
        effects = self._out.partner_left(partner)
        effects += self._in.partner_left(partner, now, self._out.fetch)
        return self._to_be_answered(effects, now)

    # --- resending --------------------------------------------------------------------------------

    def resend(self, now: int) -> list[Effect]:
        """Send unanswered messages again."""
        self._resending = False
        return self._say_all(now, self._options.resend_us // 2)

    def _say_all(self, now: int, unless_said_us: int) -> list[Effect]:
        effects = self._out.say_all(now, unless_said_us)
        effects += self._in.say_all(now, unless_said_us)
        return self._to_be_answered(effects, now)

    def _to_be_answered(self, effects: list[Effect], now: int) -> list[Effect]:
        """Schedule the resending of unanswered messages and the requests for due payments."""
        if self._resending or not (len(self._in) or self._out.unsettled):
            return effects
        self._resending = True
        return [*effects, SetTimer(RESEND, now + self._options.resend_us)]
