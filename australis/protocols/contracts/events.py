"""Events of a participant, its journal entries, and its options."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.errors import UserError
from australis.kernel.machine import Effect, Event
from australis.protocols.contracts.terms import Contract, Task


@dataclass(frozen=True)
class ContractOptions:
    """The options of one participant."""

    period_us: int = SECOND
    """The time for which its load settles after a movement, or it waits when none was possible."""
    step_us: int = 25 * MILLISECOND
    """The time for which it waits after a counter-offer before it asks the next partner."""
    gather_us: int = 0
    """The time for which a seller collects offers to answer the best first; 0: each at once."""
    answer_us: int = 250 * MILLISECOND
    """The time after which an unanswered offer counts as rejected."""
    resend_us: int = 500 * MILLISECOND
    """The interval after which unanswered messages are sent again."""
    permanent: bool = False
    """Whether tasks that moved stay where they are unless another movement takes them further. The
    thesis simulates this; all participants must agree on it, and no task comes back when a partner
    fails or leaves."""
    rivals: float | None = None
    """The number of sellers, itself included, that it expects to make counter-offers; None: it asks
    no more than the cost of a task."""
    above: float = 0.0
    """The excess of a counter-offer over the cost of the task, unless the last one was in vain."""
    journal: int = 1_000
    """The number of entries by which a journal may grow before it is compacted."""
    notify: bool = False
    """Whether a seller tells refused buyers when there is room again."""

    def __post_init__(self) -> None:
        if self.period_us <= 0 or self.answer_us <= 0 or self.resend_us <= 0:
            raise UserError("should take longer than nothing", name="period, answer and resend")
        if self.step_us < 0 or self.gather_us < 0:
            raise UserError("should not be negative", name="step and gather")
        if self.gather_us >= self.answer_us:
            raise UserError("is too long: buyers will have given up", name="gather")


class Bought(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As the buyer: a movement that was asked for; the seller may or may not have taken it."""

    movement: int
    number: int
    seller: str
    price: float
    duration_us: int
    units: float
    tasks: tuple[Task, ...]


class Sold(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As the seller: a movement that was taken."""

    buyer: str
    movement: int
    price: float
    duration_us: int
    units: float
    tasks: tuple[Task, ...]
    may_forward: bool = True


class Confirmed(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As the buyer: the seller has the tasks."""

    movement: int


class Owed(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A time d of a movement was booked."""

    buyer: str
    movement: int
    period: int


class Recalled(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As the buyer: the tasks run here again; the seller does not know yet."""

    movement: int


class Dropped(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As the seller: forwarded tasks do not run here any longer, since their buyer has failed."""

    buyer: str
    movement: int


class Ended(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A movement is over, or never began, on both sides."""

    buyer: str
    movement: int


class Fined(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The nth penalty between two partners: booked, or still to be admitted."""

    buyer: str
    seller: str
    number: int
    admitted: bool
    amount: float


class Carried(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The last entry of a compacted journal: the books, and the tasks that run here."""

    owed: tuple[tuple[str, str, float], ...]
    """Debtor, creditor and amount."""
    paid: tuple[tuple[str, int, int], ...]
    """Buyer, movement, and the last time d of it that was booked."""
    fined: tuple[tuple[str, str, int], ...]
    """Seller, buyer, and the number of penalties booked."""
    outcomes: tuple[tuple[str, int, bool], ...] = ()
    """Buyer, ended movement, and whether it had ever begun."""
    away: tuple[str, ...] = ()
    """Own tasks that do not run here."""
    taken: tuple[Task, ...] = ()
    """Tasks of others that run here."""
    left: tuple[str, ...] = ()
    """Own tasks that have moved for good."""
    stays: tuple[str, ...] = ()
    """Tasks of others that have moved here for good and may not be forwarded."""


class Leaves(msgspec.Struct, frozen=True, gc=False, tag=True):
    """The participant takes no more tasks and ends its movements."""


Entry = Bought | Sold | Confirmed | Owed | Recalled | Dropped | Ended | Fined | Leaves | Carried
"""An entry of a participant's journal, in which entries keep the order of what happened."""


class Started(Event, frozen=True, gc=False):
    """An incarnation starts, with the tasks of its own clients and its journal."""

    incarnation: int
    tasks: tuple[Task, ...]
    journal: tuple[Entry, ...] = ()
    wake_us: int = 0
    """The time of the first negotiation, different for each participant; it also determines the
    participant's waiting times (`buying.extra_steps`)."""


class TasksChanged(Event, frozen=True, gc=False):
    """Own tasks came or went, or their loads changed."""

    now_there: tuple[Task, ...] = ()
    gone: tuple[str, ...] = ()


class ContractsChanged(Event, frozen=True, gc=False):
    """Contracts were signed or have ended: these are all current ones."""

    contracts: tuple[Contract, ...]


class ServiceMissed(Event, frozen=True, gc=False):
    """The delay of tuples at a seller exceeded the contract's limit once more."""

    seller: str


class PartnerFailed(Event, frozen=True, gc=False):
    """A partner has failed, as far as this node can tell."""

    partner: str


class PartnerLeft(Event, frozen=True, gc=False):
    """A partner has left for good, by its own announcement or by another source."""

    partner: str


class Leaving(Event, frozen=True, gc=False):
    """The participant shall take no more tasks and end each movement after its time d."""


class Write(Effect, frozen=True, gc=False):
    """Make entries of the journal durable, all or none, before the next effect."""

    entries: tuple[Entry, ...]


class Rewrite(Effect, frozen=True, gc=False):
    """Replace the whole journal atomically by equivalent entries."""

    entries: tuple[Entry, ...]
