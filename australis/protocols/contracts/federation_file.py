"""Federation files: YAML with the participants, their loads and costs, and their contracts.

    federation: example
    participants:
      alpha: {tasks: 130}
      beta: {tasks: 40, cost: {cpu: {queue: 200}}}
      gamma: {tasks: {filter: 30, join: {count: 5, load: {cpu: 2}, state: 20, query: alerts}}}
    contracts:
      alpha with beta: {price: 100}
      beta with alpha: {price: [95, 100], duration: 10 s}
      gamma with alpha: {price: 90, kinds: [filter], begins: 1 min, ends: 1 h}

The first of two names is the buyer. `begins` and `ends` count from the start of the run; `state` is
in megabytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta, field

from australis.kernel.errors import Place, UserError
from australis.protocols.contracts.choices import Valuation
from australis.protocols.contracts.costs import (
    Costs,
    Curve,
    InFlight,
    Levels,
    Load,
    Polyline,
    Step,
)
from australis.protocols.contracts.terms import Contract, Task, refuse_unless_consistent
from australis.yamlfile.document import Document, parse
from australis.yamlfile.schema import Section, Settings, arguments, read
from australis.yamlfile.values import Duration, Finite, Number, Positive

BETWEEN = " with "
MAX_TASKS = 100_000


@dataclass(frozen=True)
class Member:
    """A participant as a file describes it."""

    name: str
    value: Valuation
    tasks: tuple[Task, ...]

    @property
    def costs(self) -> Costs:
        """The cost functions of its resources."""
        return self.value.costs


@dataclass(frozen=True)
class Members:
    """The participants of a federation and their contracts."""

    name: str
    participants: dict[str, Member]
    contracts: tuple[Contract, ...]


# --- the schema -----------------------------------------------------------------------------------

Resource = Literal["cpu", "bandwidth", "memory"]
Amounts = Annotated[dict[Resource, Number], Meta(min_length=1)]
TaskCount = Annotated[
    int, Meta(ge=0, le=MAX_TASKS, description=f"a number of tasks from 0 to {MAX_TASKS:,}")
]


class CurveSettings(Settings, frozen=True):
    """A queue's capacity, the points of a curve, or a limit and a penalty."""

    queue: Positive | None = None
    points: tuple[tuple[Finite, Finite], ...] | None = None
    limit: Number | None = None
    penalty: Number | None = None

    def __post_init__(self) -> None:
        _ = self.curve

    @property
    def curve(self) -> Curve:
        """The curve that the settings describe."""
        match self.queue, self.points, self.limit, self.penalty:
            case capacity, None, None, None if capacity is not None:
                return InFlight(capacity)
            case None, points, None, None if points is not None:
                return Polyline(points)
            case None, None, limit, penalty if limit is not None and penalty is not None:
                return Step(limit, penalty)
        raise UserError(
            "should be {queue: CAPACITY}, {points: [[LOAD, COST], ...]} or"
            " {limit: LOAD, penalty: COST}"
        )


class Group(Settings, frozen=True):
    """Equal tasks."""

    count: TaskCount
    load: Amounts | None = None
    query: str = ""
    state: Number = 0.0


GroupOrCount = Annotated[
    TaskCount | Group,
    Meta(description="a number of tasks, or {count: N, load: ..., query: NAME, state: MB}"),
]


class MemberSettings(Settings, frozen=True):
    """A participant's tasks and their costs."""

    tasks: Annotated[
        TaskCount | dict[str, GroupOrCount],
        Meta(description=f"a number of tasks from 0 to {MAX_TASKS:,}, or one for each kind"),
    ] = 0
    task: Amounts | None = None
    cost: Annotated[dict[Resource, CurveSettings], Meta(min_length=1)] | None = None
    margin: Annotated[float, Meta(ge=0, lt=1, description="a part less than 1")] = 0.0
    moving: Number = 0.0

    @property
    def groups(self) -> dict[str, Group]:
        """Its tasks by kind."""
        kinds = {"": self.tasks} if isinstance(self.tasks, int) else self.tasks
        return {
            kind: Group(group) if isinstance(group, int) else group for kind, group in kinds.items()
        }


class ContractSettings(Settings, frozen=True):
    """The terms that a buyer and a seller have agreed on."""

    price: Annotated[
        Number | Annotated[tuple[Number, ...], Meta(min_length=2, max_length=2)],
        Meta(description="a price or [LOWEST, HIGHEST]"),
    ]
    duration_us: Duration | None = field(default=None, name="duration")
    unit: Amounts | None = None
    kinds: tuple[str, ...] | None = None
    forwarding: Literal["allowed", "refused"] = "allowed"
    max_delay: Duration | None = None
    penalty: Number = 0.0
    begins_us: Duration | None = field(default=None, name="begins")
    ends_us: Duration | None = field(default=None, name="ends")


class FederationFile(Settings, frozen=True):
    """The sections of a federation file."""

    federation: Any
    participants: Section[MemberSettings]
    contracts: Section[ContractSettings]


# --- loading --------------------------------------------------------------------------------------


def load(text: str, file: str) -> Members:
    """Read a federation file and check it."""
    document = parse(text, file)
    said = read(document, FederationFile, "a federation")
    participants = {name: _member(document, name, one) for name, one in said.participants.items()}
    contracts, places = [], {}
    for name, terms in said.contracts.items():
        with document.blaming("contracts", name):
            contracts.append(_contract(name, terms))
        places[contracts[-1].parties] = document.place("contracts", name)
    refuse_unless_consistent(contracts, participants, places)
    _refuse_unknown_kinds(participants, contracts, places)
    _refuse_unless_connected(participants, contracts, document.place("contracts"))
    return Members(document.word("federation"), participants, tuple(contracts))


def _member(document: Document, name: str, said: MemberSettings) -> Member:
    many = sum(group.count for group in said.groups.values())
    if many > MAX_TASKS:
        sentence = f"has {many:,} tasks, more than {MAX_TASKS:,}"
        place = document.place("participants", name, "tasks")
        raise UserError(sentence, name=name, place=place)
    each = Load(**said.task) if said.task else Load(cpu=1.0)
    tasks = tuple(
        Task(
            "/".join(part for part in (name, kind, str(n)) if part),
            Load(**group.load) if group.load else each,
            *(name, kind, group.query, group.state),
        )
        for kind, group in said.groups.items()
        for n in range(group.count)
    )
    curves = {resource: one.curve for resource, one in (said.cost or {}).items()}
    costs = Costs(**curves) if curves else Costs(cpu=Levels())
    return Member(
        name, Valuation(costs=costs, margin=said.margin, moving_per_mb=said.moving), tasks
    )


def _contract(name: str, said: ContractSettings) -> Contract:
    buyer, between, seller = name.partition(BETWEEN)
    if not between or not buyer or not seller:
        raise UserError("should be BUYER with SELLER", name=name)
    low, high = (said.price, said.price) if isinstance(said.price, float) else said.price
    given = {key: one for key, one in arguments(said).items() if one is not None}
    for key in ("price", "forwarding", "max_delay"):
        given.pop(key, None)
    if said.unit is not None:
        given["unit"] = Load(**said.unit)
    if said.max_delay is not None:
        given["max_delay_s"] = said.max_delay.s
    forward = said.forwarding == "allowed"
    return Contract(buyer=buyer, seller=seller, low=low, high=high, may_forward=forward, **given)


# --- checks beyond the schema -------------------------------------------------------------------


def _refuse_unless_connected(
    participants: Mapping[str, Member], contracts: Sequence[Contract], place: Place
) -> None:
    """Refuse contracts over which load cannot get from each participant to all (thesis 6.2)."""
    first = next(iter(participants))
    reached, frontier = {first}, [first]
    while frontier:
        one = frontier.pop()
        for contract in contracts:
            if one in contract.parties:
                new = set(contract.parties) - reached
                reached |= new
                frontier += new
    apart = [name for name in participants if name not in reached]
    if apart:
        sentence = f"do not connect all participants: no way leads from '{first}' to '{apart[0]}'"
        raise UserError(sentence, name="contracts", place=place)


def _refuse_unknown_kinds(
    participants: Mapping[str, Member],
    contracts: Sequence[Contract],
    places: Mapping[tuple[str, str], Place],
) -> None:
    """Refuse a kind that no task has: it lets nothing move, and is most likely a slip."""
    known = {task.kind for member in participants.values() for task in member.tasks} - {""}
    for contract in contracts:
        for kind in contract.kinds or ():
            if kind not in known:
                there = ", ".join(sorted(known)) or "none"
                sentence = (
                    f"allows a kind of tasks that no participant has: '{kind}' (kinds: {there})"
                )
                place = places[contract.parties]
                raise UserError(sentence, name=BETWEEN.join(contract.parties), place=place)
