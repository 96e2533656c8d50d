"""What runs where and who owes what for it: movements from the first word to the last.

Each side writes into its journal what it could not know again after a crash. After d either side
may end a movement (6.4). A seller is paid nothing for the time it could not work: whoever loses a
partner runs the tasks again and owes no further time d. Whoever loses the one it had forwarded
tasks from stops running them, for they run again where those had come from.
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
    """The tasks that run here, and the movements that are under way or last."""

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
        """These are the contracts from now on; movements under others last until they end."""
        self._signed.sign(contracts)

    # --- what there is ------------------------------------------------------------------------

    @property
    def tasks(self) -> dict[str, Task]:
        """Everything that runs here."""
        return self._here.tasks

    @property
    def load(self) -> Load:
        """What that uses."""
        return self._here.load

    @property
    def free(self) -> dict[str, Task]:
        """Tasks that can be offered: they run here, may go on, and are not on their way here or
        there."""
        bound = self._in.bound | self._here.stays | self._here.moving.keys()
        return {name: task for name, task in self.tasks.items() if name not in bound}

    @property
    def leaving(self) -> bool:
        """It takes nothing any more, and ends every movement as soon as its time d is over."""
        return self._signed.leaving

    @property
    def movements(self) -> int:
        """How many there were from here."""
        return self._out.confirmed_movements

    @property
    def tasks_moved(self) -> int:
        """How many tasks left from here or came back."""
        return self._out.tasks_moved

    @property
    def unsettled(self) -> bool:
        """Whether the two sides of a movement may know different things about it."""
        return self._out.unsettled or self._in.unsettled

    @property
    def bound(self) -> bool:
        """Whether any movement lasts, to here or from here."""
        return len(self._in) + len(self._out) > 0

    @property
    def earned_per_s(self) -> float:
        """What it is paid for the movements that last, less what it pays."""
        return self._in.paid_per_s - self._out.paid_per_s

    def at(self, seller: str) -> list[Task]:
        """Tasks that moved from here to a partner."""
        return self._out.at(seller)

    def may_take(self, task: Task) -> bool:
        """Whether a task can come here: not while it is here, nor under a movement from here, which
        whoever has it now would have to end instead."""
        return task.name not in self.tasks and task.name not in self._out.away

    # --- beginning, and the journal -------------------------------------------------------------

    def start(self, event: Started, now: int) -> list[Effect]:
        """Begin with own tasks, and with what the journal says of others' and of movements."""
        self._here.begin(event.tasks)
        for entry in event.journal:
            self._replay(entry, now)
        self._in.begin_anew(now)
        self._here.count()
        return self._say_all(now, 0)

    def _replay(self, entry: Entry, now: int) -> None:
        match entry:
            case Carried():  # what stands before it says which movements last; this, all else
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
                pass  # `service` looks after these

    def carried(self) -> list[Entry]:
        """A journal that is no longer than it has to be and says the same as the whole one."""
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

    # --- what changes here ------------------------------------------------------------------------

    def change(self, event: TasksChanged, now: int) -> list[Effect]:
        """Own tasks came, went or use something else than before.

        One that runs elsewhere goes on there as it was agreed; if nobody wants it any longer, its
        movement is ended. (If it has moved for good it is not ours to end.)
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
        """From now on it takes nothing, and ends what lasts; a crash does not change that."""
        if self.leaving:
            return []
        self._signed.leaving = True
        return [Write((Leaves(),))]

    def review(self, now: int) -> list[Effect]:
        """As a buyer: end the movements whose time is over and which do not pay any more (6.4)."""
        return self._to_be_answered(self._out.review(now), now)

    # --- what partners say ------------------------------------------------------------------------

    def move(
        self,
        contract: Contract,
        number: int,
        movement: int,
        price: float,
        tasks: Sequence[Task],
        now: int,
    ) -> list[Effect]:
        """Ask the seller to take tasks as was agreed."""
        effects = self._out.move(contract, number, movement, price, tasks, now)
        return self._to_be_answered(effects, now)

    def take(
        self, buyer: str, move: Move, now: int, promised: Promised
    ) -> tuple[bool, list[Effect]]:
        """Take tasks as was promised; once, however often it is asked."""
        taken, effects = self._in.take(buyer, move, now, promised, self.may_take)
        return taken, self._to_be_answered(effects, now)

    def confirmed(self, seller: str, receipt: Receipt, now: int) -> list[Effect]:
        """The seller has the tasks, or will never take them."""
        return self._out.confirmed(seller, receipt, now)

    def due(self, seller: str, message: Due, now: int) -> list[Effect]:
        """The seller wants to be paid for another time d."""
        return self._out.due(seller, message, now)

    def paid(self, buyer: str, message: Paid, now: int) -> list[Effect]:
        """The buyer pays for another time d."""
        return self._in.paid(buyer, message, now)

    def asked_back(self, sender: str, message: Return, now: int) -> list[Effect]:
        """The other side ends a movement."""
        if message.buyer == self.name:
            effects = self._out.given_up(sender, message.movement, now)
        else:
            effects = self._in.recalled(sender, message, now, self._out.fetch)
        return self._to_be_answered(effects, now)

    def returned(self, sender: str, message: Returned, now: int) -> list[Effect]:
        """The other side has ended it."""
        if message.buyer == self.name:
            effects = self._out.returned(message.movement)
        else:
            effects = self._in.returned(sender, message.movement, now, self._out.fetch)
        return self._to_be_answered(effects, now)

    def partner_failed(self, partner: str, now: int) -> list[Effect]:
        """Run again what ran at a partner that is gone, and not any longer what it had only
        forwarded."""
        effects = self._out.partner_failed(partner, now)
        effects += self._in.partner_failed(partner, now, self._out.fetch)
        return self._to_be_answered(effects, now)

    def partner_left(self, partner: str, now: int) -> list[Effect]:
        """End what there was with a partner that has left for good: nobody answers there."""
        effects = self._out.partner_left(partner)
        effects += self._in.partner_left(partner, now, self._out.fetch)
        return self._to_be_answered(effects, now)

    # --- saying it again --------------------------------------------------------------------------

    def resend(self, now: int) -> list[Effect]:
        """Say again what was not answered."""
        self._resending = False
        return self._say_all(now, self._options.resend_us // 2)

    def _say_all(self, now: int, unless_said_us: int) -> list[Effect]:
        effects = self._out.say_all(now, unless_said_us)
        effects += self._in.say_all(now, unless_said_us)
        return self._to_be_answered(effects, now)

    def _to_be_answered(self, effects: list[Effect], now: int) -> list[Effect]:
        """See to it that what is not answered is said again, and that what is due is asked for."""
        if self._resending or not (len(self._in) or self._out.unsettled):
            return effects
        self._resending = True
        return [*effects, SetTimer(RESEND, now + self._options.resend_us)]
