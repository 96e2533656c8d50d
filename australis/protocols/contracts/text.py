"""Federation files: YAML that says who takes part, with what load and costs, and who has
contracts with whom.

    federation: example
    participants:
      alpha: {tasks: 130}
      beta: {tasks: 40, cost: {cpu: {queue: 200}}}
      gamma: {tasks: {filter: 30, join: {count: 5, load: {cpu: 2}, state: 20, query: alerts}}}
    contracts:
      alpha with beta: {price: 100}
      beta with alpha: {price: [95, 100], duration: 10 s}
      gamma with alpha: {price: 90, kinds: [filter], begins: 1 min, ends: 1 h}

The first of two names is the buyer. `begins` and `ends` count from the beginning of the run, `state`
is in megabytes. Every mistake is told with the file and line where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

from australis.diagram.parts import PlaceOf, Settings
from australis.diagram.yaml_lines import not_too_deep, read_sections, read_settings
from australis.kernel.durations import parse_duration
from australis.kernel.errors import Place, UserError
from australis.protocols.contracts.choices import Valuation
from australis.protocols.contracts.costs import (
    RESOURCES,
    Costs,
    Curve,
    InFlight,
    Levels,
    Load,
    Polyline,
    Step,
)
from australis.protocols.contracts.terms import Contract, Task, refuse_unless_consistent

BETWEEN = " with "
MOST_TASKS = 100_000


@dataclass(frozen=True)
class Member:
    """A participant as a file describes it."""

    name: str
    value: Valuation
    tasks: tuple[Task, ...]

    @property
    def costs(self) -> Costs:
        """What a load costs it."""
        return self.value.costs


@dataclass(frozen=True)
class Members:
    """Everybody, and their contracts."""

    name: str
    participants: dict[str, Member]
    contracts: tuple[Contract, ...]


def load(text: str, file: str) -> Members:
    """Read a federation file and check it."""
    with not_too_deep(file):
        sections = read_sections(
            text,
            file,
            "a federation",
            ("federation", "participants", "contracts"),
            ("federation", "participants", "contracts"),
        )
        members = sections.parts("participants", _member)
        contracts = sections.parts("contracts", _contract)
    places = {
        contract.parties: sections.places[f"contracts {BETWEEN.join(contract.parties)}"]
        for contract in contracts
    }
    participants = {member.name: member for member in members}
    refuse_unless_consistent(contracts, participants, places)
    _refuse_unknown_kinds(participants, contracts, places)
    _refuse_unless_connected(participants, contracts, sections.places["contracts"])
    return Members(sections.word("federation"), participants, contracts)


def _refuse_unless_connected(
    participants: Mapping[str, Member], contracts: tuple[Contract, ...], place: Place
) -> None:
    """Load must be able to get from everybody to everybody (thesis 6.2)."""
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
        sentence = f"do not connect everybody: no way leads from '{first}' to '{apart[0]}'"
        raise UserError(sentence, name="contracts", place=place)


def _refuse_unknown_kinds(
    participants: Mapping[str, Member],
    contracts: tuple[Contract, ...],
    places: Mapping[tuple[str, str], Place],
) -> None:
    """A kind that no task is of lets nothing move, and is most likely a slip."""
    known = {task.kind for member in participants.values() for task in member.tasks} - {""}
    for contract in contracts:
        for kind in contract.kinds or ():
            if kind not in known:
                there = ", ".join(sorted(known)) or "none"
                sentence = f"allows tasks of a kind that nobody has: '{kind}' (kinds: {there})"
                place = places[contract.parties]
                raise UserError(sentence, name=BETWEEN.join(contract.parties), place=place)


# --- participants -----------------------------------------------------------------------------


def _member(name: str, settings: Settings, place_of: PlaceOf) -> Member:
    readers: dict[str, Callable[[Any], Any]] = {
        "tasks": _groups,
        "task": _load,
        "cost": _costs,
        "margin": _margin,
        "moving": _number,
    }
    taken = read_settings(name, settings, place_of, readers)
    each = taken.get("task", Load(cpu=1.0))
    groups: list[_Group] = taken.get("tasks", [])
    many = sum(group.count for group in groups)
    if many > MOST_TASKS:
        sentence = f"has {many:,} tasks, more than {MOST_TASKS:,}"
        raise UserError(sentence, name=name, place=place_of("tasks"))
    tasks = [
        Task(
            "/".join(part for part in (name, group.kind, str(n)) if part),
            group.load or each,
            *(name, group.kind, group.query, group.state_mb),
        )
        for group in groups
        for n in range(group.count)
    ]
    value = Valuation(
        costs=taken.get("cost", Costs(cpu=Levels())),
        margin=taken.get("margin", 0.0),
        moving_per_mb=taken.get("moving", 0.0),
    )
    return Member(name, value, tuple(tasks))


@dataclass(frozen=True)
class _Group:
    """Equal tasks."""

    count: int
    kind: str = ""
    load: Load | None = None
    query: str = ""
    state_mb: float = 0.0


def _groups(value: Any) -> list[_Group]:
    """A number of tasks, or for each kind of them a number or {count, load, query, state}."""
    if not isinstance(value, dict):
        return [_Group(_count(value))]
    return [_group(kind, told) for kind, told in value.items()]


def _group(kind: Any, told: Any) -> _Group:
    if not isinstance(kind, str) or not kind:
        raise UserError(f"should be a number, or kinds of tasks with a number each, not {kind!r}")
    match told:
        case {"count": count, **rest} if rest.keys() <= {"load", "query", "state"}:
            query = rest.get("query", "")
            if not isinstance(query, str):
                raise UserError(f"should name a query, not {query!r}")
            load = _load(rest["load"]) if "load" in rest else None
            return _Group(_count(count), kind, load, query, _number(rest.get("state", 0)))
        case int():
            return _Group(_count(told), kind)
    raise UserError(
        f"should say of '{kind}' how many, or {{count: N, load: ..., query: NAME, state: MB}},"
        f" not {told!r}"
    )


def _margin(value: Any) -> float:
    if _number(value) >= 1:
        raise UserError(f"should be a part less than 1, not {value!r}")
    return float(value)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_TASKS:
        raise UserError(f"should be a number of tasks from 0 to {MOST_TASKS:,}, not {value!r}")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < inf:
        raise UserError(f"should be a number that is not negative, not {value!r}")
    return float(value)


def _resources(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not value or not value.keys() <= set(RESOURCES):
        known = ", ".join(RESOURCES)
        raise UserError(f"should say something of {known}, not {value!r}")
    return value


def _load(value: Any) -> Load:
    return Load(**{resource: _number(used) for resource, used in _resources(value).items()})


def _costs(value: Any) -> Costs:
    return Costs(**{resource: _curve(told) for resource, told in _resources(value).items()})


def _curve(value: Any) -> Curve:
    """A queue's capacity, points of a curve, or a limit and a penalty."""
    match value:
        case {"queue": capacity, **rest} if not rest:
            return InFlight(_number(capacity))
        case {"points": [*points], **rest} if not rest and all(map(_is_point, points)):
            return Polyline(tuple((_number(x), float(y)) for x, y in points))
        case {"limit": limit, "penalty": penalty, **rest} if not rest:
            return Step(_number(limit), _number(penalty))
    raise UserError(
        "should be {queue: CAPACITY}, {points: [[LOAD, COST], ...]} or"
        f" {{limit: LOAD, penalty: COST}}, not {value!r}"
    )


def _is_point(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(
        isinstance(v, int | float) and not isinstance(v, bool) and isfinite(v) for v in value
    )  # fmt: skip


# --- contracts ----------------------------------------------------------------------------------


def _contract(name: str, settings: Settings, place_of: PlaceOf) -> Contract:
    buyer, between, seller = name.partition(BETWEEN)
    if not between or not buyer or not seller:
        raise UserError("should be BUYER with SELLER", name=name, place=place_of(None))
    readers: dict[str, Callable[[Any], Any]] = {
        "price": _price,
        "duration": parse_duration,
        "unit": _load,
        "kinds": _words,
        "forwarding": _allowed,
        "max_delay": parse_duration,
        "penalty": _number,
        "begins": parse_duration,
        "ends": parse_duration,
    }
    taken = read_settings(name, settings, place_of, readers, needed=["price"])
    low, high = taken["price"]
    given: dict[str, Any] = {}
    if "max_delay" in taken:
        given["max_delay_s"] = taken["max_delay"] / 1e6
    for setting, field in (
        ("duration", "duration_us"),
        ("unit", "unit"),
        ("kinds", "kinds"),
        ("forwarding", "may_forward"),
        ("penalty", "penalty"),
        ("begins", "begins_us"),
        ("ends", "ends_us"),
    ):
        if setting in taken:
            given[field] = taken[setting]
    try:
        return Contract(buyer=buyer, seller=seller, low=low, high=high, **given)
    except UserError as error:
        raise error.at(place_of(None)) from None


def _price(value: Any) -> tuple[float, float]:
    if isinstance(value, list):
        if len(value) != 2:
            raise UserError(f"should be a price or [LOWEST, HIGHEST], not {value!r}")
        return _number(value[0]), _number(value[1])
    return _number(value), _number(value)


def _words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise UserError(f"should be a list of kinds of tasks, not {value!r}")
    return tuple(value)


def _allowed(value: Any) -> bool:
    if value not in ("allowed", "refused"):
        raise UserError(f"should be 'allowed' or 'refused', not {value!r}")
    return bool(value == "allowed")
