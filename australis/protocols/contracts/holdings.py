"""What runs where and who owes what for it: movements from the first word to the last.

A movement happens when the seller takes the tasks, which only the seller knows at first. The
buyer says what it wants until it has a receipt, and runs the tasks itself that long; each side
writes into its journal what it could not know again after a crash. After d either side may end
a movement (6.4). A seller is paid nothing for the time it could not work: whoever loses a
partner runs the tasks again and owes no further time d. Whoever loses the one it had forwarded
tasks from stops running them, for they run again where those had come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from australis.kernel.durations import SECOND
from australis.kernel.machine import Effect, Send, SetTimer
from australis.protocols.contracts.choices import Valuation, load_of
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
    Owed,
    Recalled,
    Sold,
    Started,
    TasksChanged,
    Write,
)
from australis.protocols.contracts.ledger import Booking, Ledger
from australis.protocols.contracts.messages import Due, Move, Paid, Receipt, Return, Returned
from australis.protocols.contracts.terms import Contract, Task

RESEND = "resend"
Promised = Callable[[str, Move], tuple[Task, ...] | None]


@dataclass
class _Out:
    """A movement as its buyer sees it."""

    entry: Bought
    confirmed: bool = False
    recalled: bool = False
    """The tasks run here again; the seller is still to be told."""
    since_us: int = 0
    said_us: int = 0
    """When the seller was told last what it has to know."""

    @property
    def settled(self) -> bool:
        """Whether the seller knows it all."""
        return self.confirmed and not self.recalled


@dataclass
class _In:
    """A movement as its seller sees it."""

    entry: Sold
    since_us: int = 0
    period: int = 0
    """The last time d that was paid for."""
    due: bool = False
    """Whether the buyer was asked for the next one and has not answered."""
    given_up: bool = False
    """It does not pay any more: the buyer is to take it back."""
    dropped: bool = False
    """Tasks that its buyer had only forwarded do not run here any longer: it had failed."""
    said_us: int = 0
    """When the buyer was told last what it has to know."""

    @property
    def runs(self) -> list[Task]:
        """What of it runs here."""
        buyer = self.entry.buyer
        return [t for t in self.entry.tasks if not self.dropped or t.origin == buyer]

    @property
    def over_us(self) -> int:
        """When the time that was paid for is over."""
        return self.since_us + (self.period + 1) * self.entry.duration_us


class Holdings:
    """The tasks that run here, and the movements that are under way or last."""

    def __init__(
        self,
        name: str,
        value: Valuation,
        options: ContractOptions,
    ) -> None:
        self.name = name
        self.tasks: dict[str, Task] = {}
        """Everything that runs here."""
        self.load = Load()
        self.ledger = Ledger()
        self.movements = 0
        self.tasks_moved = 0
        self.leaving = False
        """It takes nothing any more, and ends every movement as soon as its time d is over."""
        self._contracts: dict[tuple[str, str], Contract] = {}
        self._value = value
        self._options = options
        self._out: dict[int, _Out] = {}
        self._in: dict[tuple[str, int], _In] = {}
        self._moving: dict[str, int] = {}
        """Tasks of which it is not known yet whether they have moved, and under which movement."""
        self._outcomes: dict[str, dict[int, bool]] = {}
        """Whether movements that are over here had ever begun, until their buyer knows it."""
        self._own: set[str] = set()
        """Tasks that own clients want, wherever they run."""
        self._left: set[str] = set()
        """Own tasks that have moved for good."""
        self._stays: set[str] = set()
        """Others' tasks that came for good and may not be moved further."""
        self._resending = False

    def sign(self, contracts: Sequence[Contract]) -> None:
        """These are the contracts from now on; movements under others last until they end."""
        self._contracts |= {c.parties: c for c in contracts}

    # --- beginning, and what changes ------------------------------------------------------

    def start(self, event: Started, now: int) -> list[Effect]:
        """Begin with own tasks, and with what the journal says of others' and of movements."""
        self.tasks = {task.name: task for task in event.tasks}
        self._own = set(self.tasks)
        for entry in event.journal:
            self._replay(entry, now)
        for held in self._in.values():  # the time that was paid for begins anew
            held.since_us = now - held.period * held.entry.duration_us
        self.load = load_of(self.tasks.values())
        return self._say_all(now, 0)

    def _replay(self, entry: Entry, now: int) -> None:
        match entry:
            case Carried():
                self._carry(entry)
            case Bought():
                self._out[entry.movement] = _Out(entry, since_us=now)
                self._moving |= dict.fromkeys((t.name for t in entry.tasks), entry.movement)
            case Confirmed(movement):
                out = self._out[movement]
                out.confirmed = True
                if not out.recalled:
                    self._leave(out)
            case Sold():
                self._in[entry.buyer, entry.movement] = _In(entry, since_us=now)
                self._run(entry)
            case Owed(buyer, movement, period):
                self._book(buyer, movement, period)
                held = self._in.get((buyer, movement))
                if held is not None:
                    held.period = period
            case Recalled(movement):
                self._come_back(self._out[movement])
            case Dropped(buyer, movement):
                self._drop(self._in[buyer, movement])
            case Fined():
                pass  # `service` looks after these
            case Ended(buyer, movement):
                held = self._in.get((buyer, movement))
                if held is not None and not self._options.permanent:
                    for task in held.runs:
                        self.tasks.pop(task.name, None)
                self._end(buyer, movement)

    def _carry(self, entry: Carried) -> None:
        """What stands before it in a journal says which movements last; this says all else."""
        self.ledger.restore(entry.owed, entry.paid, entry.fined)
        for buyer, movement, begun in entry.outcomes:
            self._outcomes.setdefault(buyer, {})[movement] = begun
        for (buyer, movement), held in self._in.items():
            held.period = max(0, self.ledger.paid(buyer, movement))
        own = {n: t for n, t in self.tasks.items() if t.origin == self.name}
        self.tasks = {n: t for n, t in own.items() if n not in entry.away}
        self.tasks |= {task.name: task for task in entry.taken}
        self._left, self._stays = set(entry.left), set(entry.stays)

    def carried(self) -> list[Entry]:
        """A journal that is no longer than it has to be and says the same as the whole one."""
        entries: list[Entry] = []
        for key, one in self._in.items():
            entries.append(one.entry)
            if one.dropped:
                entries.append(Dropped(*key))
        for movement, out in self._out.items():
            entries.append(out.entry)
            if out.confirmed:
                entries.append(Confirmed(movement))
            if out.recalled:
                entries.append(Recalled(movement))
        carried = Carried(
            *self.ledger.state(),
            outcomes=tuple(
                (buyer, movement, begun)
                for buyer, outcomes in self._outcomes.items()
                for movement, begun in outcomes.items()
            ),
            away=tuple(sorted(self._own - self.tasks.keys())),
            taken=tuple(t for t in self.tasks.values() if t.origin != self.name),
            left=tuple(sorted(self._left)),
            stays=tuple(sorted(self._stays)),
        )
        return [*entries, carried]

    def change(self, event: TasksChanged, now: int) -> list[Effect]:
        """Own tasks came, went or use something else than before.

        One that runs elsewhere goes on there as it was agreed; if nobody wants it any longer, its
        movement is ended. (If it has moved for good it is not ours to end.)
        """
        away = {t.name: out for out in self._out.values() for t in out.entry.tasks}
        effects: list[Effect] = []
        for task in event.now_there:
            self._own.add(task.name)
            if (task.name not in away and task.name not in self._left) or task.name in self.tasks:
                self.tasks[task.name] = task
        for name in event.gone:
            self._own.discard(name)
            if name in self.tasks and name not in self._moving:
                del self.tasks[name]
            elif name in away:
                effects += self._take_back(away[name], now)
                self.tasks.pop(name, None)
        self.load = load_of(self.tasks.values())
        return effects

    # --- what others ask --------------------------------------------------------------------

    @property
    def free(self) -> dict[str, Task]:
        """Tasks that can be offered: they run here, may go on, and are not on their way here or
        there."""
        bound = {
            task.name
            for (buyer, _), held in self._in.items()
            if held.given_up or not self._may_forward(buyer)
            for task in held.runs
        }
        bound |= self._stays
        return {n: t for n, t in self.tasks.items() if n not in self._moving and n not in bound}

    def _may_forward(self, buyer: str) -> bool:
        """Whether a buyer's tasks may be moved further; not once its contract is over."""
        contract = self._contracts.get((buyer, self.name))
        return contract is not None and contract.may_forward

    @property
    def unsettled(self) -> bool:
        """Whether the two sides of a movement may know different things about it."""
        asked = not all(out.settled for out in self._out.values())
        return asked or any(held.given_up or held.due for held in self._in.values())

    @property
    def bound(self) -> bool:
        """Whether any movement lasts, to here or from here."""
        return bool(self._in or self._out)

    @property
    def earned_per_s(self) -> float:
        """What it is paid for the movements that last, less what it pays."""
        sold = sum(h.entry.units * h.entry.price for h in self._in.values() if not h.dropped)
        lasting = (out for out in self._out.values() if out.settled)
        return sold - sum(out.entry.units * out.entry.price for out in lasting)

    def at(self, seller: str) -> list[Task]:
        """Tasks that moved from here to a partner."""
        return [
            t for out in self._out.values() if out.entry.seller == seller for t in out.entry.tasks
        ]

    def may_take(self, task: Task) -> bool:
        """Whether a task can come here: not while it is here, nor under a movement from here, which
        whoever has it now would have to end instead."""
        away = (t.name for out in self._out.values() for t in out.entry.tasks)
        return task.name not in self.tasks and task.name not in away

    # --- the buyer's side ---------------------------------------------------------------------

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
        units = contract.units(load_of(tasks))
        entry = Bought(
            movement, number, contract.seller, price, contract.duration_us, units, tuple(tasks)
        )
        out = self._out[movement] = _Out(entry, since_us=now)
        self._moving |= dict.fromkeys((task.name for task in tasks), movement)
        return [Write((entry,)), self._say_out(out, now), *self._say_later(now)]

    def confirmed(self, seller: str, receipt: Receipt, now: int) -> list[Effect]:
        """The seller has the tasks, or will never take them."""
        out = self._out.get(receipt.movement)
        if out is None or out.confirmed or out.entry.seller != seller:
            return []
        if not receipt.taken:
            return [Write((self._end(self.name, receipt.movement),))]
        out.since_us = now
        effects = self._begun(out)
        if out.recalled:
            return [*effects, self._say_out(out, now)]
        self.movements += 1
        self.tasks_moved += len(out.entry.tasks)
        if self._options.permanent:
            effects.append(Write((self._end(self.name, receipt.movement),)))
        return effects

    def _begun(self, out: _Out) -> list[Effect]:
        """The seller has taken the tasks, and is owed the first time d."""
        if out.confirmed:
            return []
        movement = out.entry.movement
        self._book(self.name, movement, 0)
        out.confirmed = True
        if not out.recalled:
            self._leave(out)
        return [Write((Confirmed(movement),)), Write((Owed(self.name, movement, 0),))]

    def due(self, seller: str, message: Due, now: int) -> list[Effect]:
        """The seller wants to be paid for another time d."""
        out = self._out.get(message.movement)
        if out is None or out.entry.seller != seller:
            return [Send(seller, Returned(self.name, message.movement))]
        effects = self._begun(out)  # whoever wants to be paid has the tasks
        if out.recalled:
            return [*effects, Send(seller, self._return(message.movement))]
        if self._book(self.name, message.movement, message.period):
            effects.append(Write((Owed(self.name, message.movement, message.period),)))
        return [*effects, Send(seller, Paid(message.movement, message.period))]

    def _leave(self, out: _Out) -> None:
        """The tasks run at the seller, not here any more."""
        for task in out.entry.tasks:
            self._moving.pop(task.name, None)
            self._stop(task.name)

    def _run(self, sold: Sold) -> None:
        """Tasks of others, or own ones that had moved for good, run here."""
        for task in sold.tasks:
            self.tasks[task.name] = task
            self._left.discard(task.name)
            if self._options.permanent and not sold.may_forward:
                self._stays.add(task.name)

    def _stop(self, name: str) -> None:
        """A task does not run here any longer."""
        self._stays.discard(name)
        task = self.tasks.pop(name, None)
        if task is not None:
            self.load = self.load - task.load

    def _forget(self, out: _Out) -> None:
        """Its tasks are not on their way any more."""
        for task in out.entry.tasks:
            if self._moving.get(task.name) == out.entry.movement:
                del self._moving[task.name]

    def _come_back(self, out: _Out) -> None:
        """The tasks run here again."""
        out.recalled = True
        for task in out.entry.tasks:
            self._moving.pop(task.name, None)
            unwanted = task.origin == self.name and task.name not in self._own
            if task.name not in self.tasks and not unwanted:
                self.tasks[task.name] = task
                self.load = self.load + task.load

    def _recall(self, out: _Out, now: int) -> list[Effect]:
        if out.recalled:
            return []
        self._come_back(out)
        self.tasks_moved += len(out.entry.tasks)
        return [Write((Recalled(out.entry.movement),)), *self._say_later(now)]

    # --- the seller's side ----------------------------------------------------------------------

    def take(
        self, buyer: str, move: Move, now: int, promised: Promised
    ) -> tuple[bool, list[Effect]]:
        """Take tasks as was promised; once, however often it is asked."""
        key = buyer, move.movement
        if key in self._in:
            return True, []
        outcomes = self._outcomes.setdefault(buyer, {})
        for number in [n for n in outcomes if n <= move.settled]:
            del outcomes[number]
        if move.movement in outcomes:
            return outcomes[move.movement], []
        tasks = promised(buyer, move)
        contract = self._contracts.get((buyer, self.name))
        if tasks is None or contract is None or not all(map(self.may_take, tasks)):
            return False, [Write((self._end(buyer, move.movement),))]
        units = contract.units(load_of(tasks))
        if (units, contract.duration_us) != (move.units, move.duration_us):
            return False, [Write((self._end(buyer, move.movement),))]  # not what was signed here
        sold = Sold(
            *(buyer, move.movement, move.price, contract.duration_us, units, tasks),
            may_forward=contract.may_forward,
        )
        self._in[key] = _In(sold, since_us=now)
        self._run(sold)
        self.load = self.load + load_of(tasks)
        self._book(buyer, move.movement, 0)
        entries: list[Entry] = [sold, Owed(buyer, move.movement, 0)]
        if self._options.permanent:
            entries.append(self._end(buyer, move.movement))
            return True, [Write(tuple(entries))]
        return True, [Write(tuple(entries)), *self._say_later(now)]

    def paid(self, buyer: str, message: Paid, now: int) -> list[Effect]:
        """The buyer pays for another time d."""
        held = self._in.get((buyer, message.movement))
        if held is None or not self._book(buyer, message.movement, message.period):
            return []
        held.period, held.due = message.period, False
        return [Write((Owed(buyer, message.movement, message.period),))]

    # --- ending -------------------------------------------------------------------------------

    def review(self, now: int) -> list[Effect]:
        """As a buyer: end the movements whose time is over and which do not pay any more (6.4)."""
        effects: list[Effect] = []
        for out in list(self._out.values()):
            entry = out.entry
            over = now >= out.since_us + entry.duration_us
            if out.settled and over and (self.leaving or self._cheaper_here(entry)):
                effects += self._take_back(out, now)
        return effects

    def _take_back(self, out: _Out, now: int) -> list[Effect]:
        """Run tasks here again, and let the seller know. If it is not known whether it has them,
        its answer to that comes first."""
        if out.recalled:
            return []
        effects = self._recall(out, now)
        if out.confirmed:
            effects.append(self._say_out(out, now))
        return effects

    def _cheaper_here(self, entry: Bought) -> bool:
        units = entry.units * entry.price * (1 - self._value.margin)
        return self._value.marginal(load_of(entry.tasks), self.load) < units

    def _too_dear(self, entry: Sold) -> bool:
        if not all(task.name in self.tasks for task in entry.tasks):
            return False
        load = load_of(self.tasks[task.name] for task in entry.tasks)  # as it is now
        units = entry.units * entry.price * (1 + self._value.margin)
        return self._value.marginal(load, self.load - load) > units

    def asked_back(self, sender: str, message: Return, now: int) -> list[Effect]:
        """The other side ends a movement."""
        if message.buyer == self.name:  # the seller gives it up
            out = self._out.get(message.movement)
            if out is None:
                return [Send(sender, Returned(self.name, message.movement))]
            ended = [*self._begun(out), *self._recall(out, now)]
            return [*ended, Send(sender, self._return(message.movement))]
        held = self._in.get((message.buyer, message.movement))
        if held is None:
            return [Send(sender, Returned(sender, message.movement))]
        effects: list[Effect] = []
        for period in range(held.period + 1, message.paid + 1):
            if self._book(message.buyer, message.movement, period):
                effects.append(Write((Owed(message.buyer, message.movement, period),)))
        return [*effects, *self._give_back(held, now)]

    def _return(self, movement: int) -> Return:
        return Return(self.name, movement, self.ledger.paid(self.name, movement))

    def _give_back(self, held: _In, now: int) -> list[Effect]:
        """Stop running what its buyer runs again; what went further comes back first."""
        entry = held.entry
        names = {task.name for task in held.runs}
        effects: list[Effect] = []
        for out in list(self._out.values()):  # those under way, too
            if names & {task.name for task in out.entry.tasks}:
                effects += self._take_back(out, now)
        for name in names:
            self._stop(name)
        effects.append(Write((self._end(entry.buyer, entry.movement),)))
        effects.append(Send(entry.buyer, Returned(entry.buyer, entry.movement)))
        return effects

    def returned(self, sender: str, message: Returned, now: int) -> list[Effect]:
        """The other side has ended it."""
        if message.buyer == self.name:
            out = self._out.get(message.movement)
            if out is None:
                return []
            effects = self._recall(out, now)
            return [*effects, Write((self._end(self.name, message.movement),))]
        held = self._in.get((message.buyer, message.movement))
        return [] if held is None else self._give_back(held, now)

    def partner_failed(self, partner: str, now: int) -> list[Effect]:
        """Run again what ran at a partner that is gone, and not any longer what it had only
        forwarded: whoever that came from runs it again. Its own tasks go on."""
        effects: list[Effect] = []
        for out in list(self._out.values()):
            if out.entry.seller == partner:
                effects += self._take_back(out, now)
        for (buyer, movement), held in self._in.items():
            forwarded = any(task.origin != buyer for task in held.entry.tasks)
            if buyer == partner and forwarded and not held.dropped:
                names = {t.name for t in held.entry.tasks if t.origin != buyer}
                for out in list(self._out.values()):
                    if names & {task.name for task in out.entry.tasks}:
                        effects += self._take_back(out, now)
                self._drop(held)
                effects.append(Write((Dropped(buyer, movement),)))
        return effects

    def partner_left(self, partner: str, now: int) -> list[Effect]:
        """End what there was with a partner that has left for good: nobody answers there."""
        effects: list[Effect] = []
        for movement, out in list(self._out.items()):
            if out.entry.seller == partner:
                effects += [*self._recall(out, now), Write((self._end(self.name, movement),))]
        for (buyer, _), held in list(self._in.items()):
            if buyer == partner:
                effects += self._give_back(held, now)
        return effects

    def _drop(self, held: _In) -> None:
        held.given_up = held.dropped = True
        for task in held.entry.tasks:
            if task.origin != held.entry.buyer:
                self._stop(task.name)

    # --- saying it again --------------------------------------------------------------------------

    def resend(self, now: int) -> list[Effect]:
        """Say again what was not answered."""
        self._resending = False
        return self._say_all(now, self._options.resend_us // 2)

    def _say_all(self, now: int, unless_said_us: int) -> list[Effect]:
        """Everything somebody else has to know, unless it was said just now."""
        effects: list[Effect] = []
        for out in self._out.values():
            if not out.settled and now - out.said_us >= unless_said_us:
                effects.append(self._say_out(out, now))
        for (buyer, movement), held in self._in.items():
            again = now - held.said_us >= unless_said_us
            over = now >= held.over_us and not held.due
            if over and not held.given_up and (self.leaving or self._too_dear(held.entry)):
                held.given_up = again = True  # it does not ask for another time d
            if held.given_up and again:
                held.said_us = now
                effects.append(Send(buyer, Return(buyer, movement)))
            elif not held.given_up and (over or (held.due and again)):
                held.due, held.said_us = True, now
                effects.append(Send(buyer, Due(movement, held.period + 1)))
        if self._in or not all(out.settled for out in self._out.values()):
            effects += self._say_later(now)
        return effects

    def _say_later(self, now: int) -> list[Effect]:
        """See to it that what is not answered is said again."""
        if self._resending:
            return []
        self._resending = True
        return [SetTimer(RESEND, now + self._options.resend_us)]

    def _say_out(self, out: _Out, now: int) -> Send:
        """What the seller of a movement has to know.

        One of which nothing is known is asked for even if its tasks are not to move any more:
        only the answer tells whether there is something to end.
        """
        out.said_us = now
        entry = out.entry
        if out.confirmed:
            return Send(entry.seller, self._return(entry.movement))
        unknown = (other.entry.movement for other in self._out.values() if not other.confirmed)
        move = Move(
            *(entry.movement, entry.number, entry.price, entry.tasks),
            *(entry.units, entry.duration_us, min(unknown) - 1),
        )
        return Send(entry.seller, move)

    # --- books ------------------------------------------------------------------------------------

    def _book(self, buyer: str, movement: int, period: int) -> bool:
        if buyer == self.name:
            entry: Bought | Sold = self._out[movement].entry
            seller = self._out[movement].entry.seller
        else:
            entry, seller = self._in[buyer, movement].entry, self.name
        amount = entry.price * entry.units * entry.duration_us / SECOND
        return self.ledger.book(Booking(buyer, seller, movement, period, amount))

    def _end(self, buyer: str, movement: int) -> Ended:
        if buyer == self.name:
            out = self._out.pop(movement, None)
            if out is not None:
                self._forget(out)
            if out is not None and self._options.permanent and out.settled:
                self._left |= {t.name for t in out.entry.tasks if t.origin == self.name}
        else:
            begun = self._in.pop((buyer, movement), None) is not None
            self._outcomes.setdefault(buyer, {})[movement] = begun
        self.ledger.forget(buyer, movement)
        return Ended(buyer, movement)
