"""Contracts between two participants, and the tasks that move under them (thesis 6.2, 6.4, 6.6)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from australis.kernel.durations import SECOND
from australis.kernel.errors import Place, UserError, unknown_name
from australis.protocols.contracts.costs import RESOURCES, Load


class Task(msgspec.Struct, frozen=True, gc=False):
    """A long-running computation that can run at any participant: a fragment of a query."""

    name: str
    load: Load
    origin: str
    """The participant whose client asked for it."""
    kind: str = ""
    """The kind, by which contracts allow or exclude tasks."""
    query: str = ""
    """The query of the task: tasks of one query feed each other and better run together (6.7)."""
    state_mb: float = 0.0
    """The size of the state that has to be copied when it moves."""


class Contract(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The terms under which `buyer` pays `seller` for each unit of load that it moves there.

    With `low` equal to `high` the price is fixed (definition 11); otherwise the partners agree on a
    price within the range for each movement (definition 12).
    """

    buyer: str
    seller: str
    low: float
    high: float
    duration_us: int = SECOND
    """d: the time after which either side may end a movement, and for which a refused one waits."""
    unit: Load = Load(cpu=1.0)
    """The amount of each resource in one unit; a resource with amount 0 is not paid for."""
    kinds: tuple[str, ...] | None = None
    """The kinds of tasks that may move; None: all."""
    may_forward: bool = True
    """Whether the seller may forward the tasks."""
    max_delay_s: float | None = None
    """The maximum delay of a tuple at the seller, above which a penalty is due; None: no limit."""
    penalty: float = 0.0
    begins_us: int = 0
    ends_us: int | None = None

    def __post_init__(self) -> None:
        name = f"{self.buyer} with {self.seller}"
        if self.buyer == self.seller:
            raise UserError("is a contract with oneself", name=name)
        if not 0 <= self.low <= self.high:
            raise UserError(
                f"has a price between {self.low:g} and {self.high:g}: the first should not be"
                " negative nor above the second",
                name=name,
            )
        if self.duration_us <= 0:
            raise UserError("should last longer than nothing", name=name)
        if not any(getattr(self.unit, r) > 0 for r in RESOURCES):
            raise UserError("says of no resource what a unit is", name=name)
        if self.ends_us is not None and self.ends_us <= self.begins_us:
            raise UserError("ends before it begins", name=name)
        if self.penalty and self.max_delay_s is None:
            raise UserError("has a penalty but does not say for which delay", name=name)

    @property
    def fixed(self) -> bool:
        """Whether the price is fixed."""
        return self.low == self.high

    @property
    def parties(self) -> tuple[str, str]:
        """The buyer and the seller."""
        return self.buyer, self.seller

    def valid(self, now: int) -> bool:
        """Whether the contract can be used now."""
        return self.begins_us <= now and not self.over(now)

    def over(self, now: int) -> bool:
        """Whether the contract can never be used again."""
        return self.ends_us is not None and now >= self.ends_us

    def units(self, load: Load) -> float:
        """load(u): the number of units in a load.

        >>> Contract(buyer="a", seller="b", low=1, high=1, unit=Load(cpu=0.1)).units(Load(cpu=0.5))
        5.0
        """
        total = 0.0
        for resource in RESOURCES:
            unit = getattr(self.unit, resource)
            if unit > 0:
                total += getattr(load, resource) / unit
        return total

    def allows(self, task: Task) -> bool:
        """Whether this task may move under the contract."""
        return self.kinds is None or task.kind in self.kinds


class Signed:
    """The contracts of one participant, with earlier ones under which movements are in force."""

    def __init__(self) -> None:
        self.leaving = False
        """Whether the participant ends every movement as soon as its time d is over."""
        self._contracts: dict[tuple[str, str], Contract] = {}

    def sign(self, contracts: Iterable[Contract]) -> None:
        """Use these contracts from now on."""
        self._contracts |= {contract.parties: contract for contract in contracts}

    def get(self, buyer: str, seller: str) -> Contract | None:
        """The latest contract of two participants."""
        return self._contracts.get((buyer, seller))

    def may_forward(self, buyer: str, seller: str) -> bool:
        """Whether the seller may forward the buyer's tasks."""
        contract = self.get(buyer, seller)
        return contract is not None and contract.may_forward

    def ends(self, buyer: str, seller: str, now: int) -> bool:
        """Whether a movement whose time is over ends in any case."""
        contract = self.get(buyer, seller)
        return self.leaving or (contract is not None and contract.over(now))


def refuse_unless_consistent(
    contracts: Iterable[Contract],
    participants: Collection[str],
    places: dict[tuple[str, str], Place] | None = None,
) -> None:
    """Refuse unknown partners, and pairs with more than one contract per direction."""
    seen: set[tuple[str, str]] = set()
    for contract in contracts:
        place = (places or {}).get(contract.parties)
        for party in contract.parties:
            if party not in participants:
                raise unknown_name(
                    party,
                    sorted(participants),
                    "is no participant",
                    heading="participants",
                    place=place,
                )
        if contract.parties in seen:
            sentence = "have two contracts for one direction"
            raise UserError(sentence, name=" and ".join(contract.parties), place=place)
        seen.add(contract.parties)
