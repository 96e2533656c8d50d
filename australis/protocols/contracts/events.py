"""What happens to a participant, what it writes down, and what can be set about it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.errors import UserError
from australis.kernel.machine import Effect, Event
from australis.protocols.contracts.terms import Contract, Task


@dataclass(frozen=True)
class ContractOptions:
    """The settings of one participant."""

    period_us: int = SECOND
    """So long it lets its load settle after a movement, and waits when none was possible."""
    step_us: int = 25 * MILLISECOND
    """So long it waits after a counter-offer before it asks the next partner."""
    gather_us: int = 0
    """A seller collects offers for so long and looks at the best paid first; 0: at each at once."""
    answer_us: int = 250 * MILLISECOND
    """An offer that is not answered for so long counts as rejected."""
    resend_us: int = 500 * MILLISECOND
    """What must be heard is said again after so long."""
    permanent: bool = False
    """Tasks that moved stay where they are, unless another movement takes them further. This is
    how the thesis simulates; everybody must do it alike, and nobody's tasks come back when a
    partner fails or leaves."""
    rivals: float | None = None
    """So many sellers, itself included, it expects to make counter-offers; None: it asks no more
    than a task costs."""
    above: float = 0.0
    """A counter-offer is so much above what the task costs, unless the last one was in vain."""
    journal: int = 1_000
    """A journal that grew by so many entries is written anew, without what is over."""
    notify: bool = False
    """A seller tells those it has refused when there is room again."""

    def __post_init__(self) -> None:
        if self.period_us <= 0 or self.answer_us <= 0 or self.resend_us <= 0:
            raise UserError("should take longer than nothing", name="period, answer and resend")
        if self.step_us < 0 or self.gather_us < 0:
            raise UserError("should not be negative", name="step and gather")
        if self.gather_us >= self.answer_us:
            raise UserError("is too long: buyers will have given up", name="gather")


class Bought(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As a buyer: a movement that was asked for; the seller may or may not have it."""

    movement: int
    number: int
    seller: str
    price: float
    duration_us: int
    units: float
    tasks: tuple[Task, ...]


class Sold(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As a seller: a movement that was taken."""

    buyer: str
    movement: int
    price: float
    duration_us: int
    units: float
    tasks: tuple[Task, ...]
    may_forward: bool = True


class Confirmed(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As a buyer: the seller has the tasks."""

    movement: int


class Owed(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A time d of a movement was booked."""

    buyer: str
    movement: int
    period: int


class Recalled(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As a buyer: the tasks run here again; the seller does not know yet."""

    movement: int


class Dropped(msgspec.Struct, frozen=True, gc=False, tag=True):
    """As a seller: forwarded tasks do not run here any longer, for their buyer had failed."""

    buyer: str
    movement: int


class Ended(msgspec.Struct, frozen=True, gc=False, tag=True):
    """A movement is over, or never was one, on both sides."""

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
    """The end of a journal that was written anew: the books, and which tasks run here."""

    owed: tuple[tuple[str, str, float], ...]
    """Debtor, creditor and amount."""
    paid: tuple[tuple[str, int, int], ...]
    """Buyer, movement and the last time d of it that was booked."""
    fined: tuple[tuple[str, str, int], ...]
    """Seller, buyer and how many penalties were booked."""
    outcomes: tuple[tuple[str, int, bool], ...] = ()
    """Buyer, movement that has ended, and whether it had ever begun."""
    away: tuple[str, ...] = ()
    """Own tasks that do not run here,"""
    taken: tuple[Task, ...] = ()
    """and others' that do."""
    left: tuple[str, ...] = ()
    """Own tasks that moved for good,"""
    stays: tuple[str, ...] = ()
    """and others' that did and may not be moved further."""


class Leaves(msgspec.Struct, frozen=True, gc=False, tag=True):
    """It takes nothing any more, and ends what lasts."""


Entry = Bought | Sold | Confirmed | Owed | Recalled | Dropped | Ended | Fined | Leaves | Carried
"""What a participant must not forget, in the order in which it happened."""


class Started(Event, frozen=True, gc=False):
    """A life begins: with the tasks of its own clients, and what it wrote down before."""

    life: int
    tasks: tuple[Task, ...]
    journal: tuple[Entry, ...] = ()
    wake_us: int = 0
    """When it looks at its contracts first: another moment for each participant. How its waits
    differ from others' (`buying.extra_steps`) follows from it."""


class TasksChanged(Event, frozen=True, gc=False):
    """Own tasks came or went, or use more or less than before."""

    now_there: tuple[Task, ...] = ()
    gone: tuple[str, ...] = ()


class ContractsChanged(Event, frozen=True, gc=False):
    """Contracts were signed or have ended: these are all there are now."""

    contracts: tuple[Contract, ...]


class ServiceMissed(Event, frozen=True, gc=False):
    """Tuples took longer at a seller than the contract allows, once more."""

    seller: str


class PartnerFailed(Event, frozen=True, gc=False):
    """A partner is not there any more, as far as this node can tell."""

    partner: str


class PartnerLeft(Event, frozen=True, gc=False):
    """A partner has left for good, as it had said it would or as somebody else knows."""

    partner: str


class Leaving(Event, frozen=True, gc=False):
    """It is to end all movements as soon as their time d is over, and take nothing any more."""


class Write(Effect, frozen=True, gc=False):
    """Make entries of the journal durable, all or none, before anything else is done."""

    entries: tuple[Entry, ...]


class Rewrite(Effect, frozen=True, gc=False):
    """Put these in the place of the whole journal, all at once: they say the same."""

    entries: tuple[Entry, ...]
