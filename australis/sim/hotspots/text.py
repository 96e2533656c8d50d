"""Peers files: YAML that says which operators there are, who offers them, and what runs.

    operators:
      Filter: {cost: 200 ms}
      Encryption.AES.256: {cost: 700 ms}
    peers:
      p1: {offers: [Filter, Encryption.AES.256], speed: 1.2, others: 2}
      p2: {offers: [Encryption.AES.256]}
    applications:
      backup: {operators: [Filter, Encryption.AES.256], rate: 0.4}
    hotspots: {overload: 2, imbalance: 0.2, minutes: 1, levels: 5, overlap: 0.2}

`cost` is that of one tuple on a processor of speed 1, `rate` in tuples a second, `others` the number
of other processes at work there. Every mistake is told with the file and line where it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from australis.diagram.parts import PlaceOf, Settings
from australis.diagram.yaml_lines import not_too_deep, read_sections, read_settings
from australis.kernel.durations import SECOND, parse_duration
from australis.kernel.errors import UserError
from australis.protocols.hotspots.criteria import Thresholds
from australis.protocols.hotspots.events import HotSpotOptions
from australis.protocols.hotspots.levels import Interval, Levels, even_levels
from australis.sim.hotspots.plan import ApplicationPlan, PeerPlan, Plan

NEEDED = ("operators", "peers", "applications")


def load(text: str, file: str) -> Plan:
    """Read a peers file and check it."""
    with not_too_deep(file):
        sections = read_sections(text, file, "a peers file", (*NEEDED, "hotspots"), NEEDED)
        operators = dict(sections.parts("operators", _operator))
        peers = dict(sections.parts("peers", _peer))
        applications = dict(sections.parts("applications", _application))
        options = sections.part("hotspots", _options) or HotSpotOptions()
    try:
        return Plan(operators, peers, applications, options)
    except UserError as error:
        for section in NEEDED:
            place = sections.places.get(f"{section} {error.name}")
            if place is not None:
                raise error.at(place) from None
        raise


def _operator(name: str, settings: Settings, place_of: PlaceOf) -> tuple[str, float]:
    taken = read_settings(name, settings, place_of, {"cost": parse_duration}, needed=["cost"])
    return name, taken["cost"] / SECOND


def _peer(name: str, settings: Settings, place_of: PlaceOf) -> tuple[str, PeerPlan]:
    readers: dict[str, Callable[[Any], Any]] = {
        "offers": _names,
        "speed": _positive,
        "others": _number,
    }
    taken = read_settings(name, settings, place_of, readers, needed=["offers"])
    return name, PeerPlan(**taken)


def _application(name: str, settings: Settings, place_of: PlaceOf) -> tuple[str, ApplicationPlan]:
    readers: dict[str, Callable[[Any], Any]] = {"operators": _names, "rate": _positive}
    taken = read_settings(name, settings, place_of, readers, needed=["operators", "rate"])
    return name, ApplicationPlan(taken["operators"], taken["rate"])


def _options(name: str, settings: Settings, place_of: PlaceOf) -> HotSpotOptions:
    readers: dict[str, Callable[[Any], Any]] = {
        "overload": _positive,
        "imbalance": _number,
        "minutes": _count,
        "levels": _levels,
        "overlap": _number,
    }
    taken = read_settings(name, settings, place_of, readers)
    levels, overlap = taken.pop("levels", 5), taken.pop("overlap", None)
    try:
        if isinstance(levels, int):
            levels = even_levels(levels, 0.2 if overlap is None else overlap)
        elif overlap is not None:
            raise UserError("is for a number of levels; these say themselves how", name="overlap")
        return HotSpotOptions(thresholds=Thresholds(**taken), levels=levels)
    except UserError as error:
        raise error.at(place_of(error.name)) from None


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < inf:
        raise UserError(f"should be a number that is not negative, not {value!r}")
    return float(value)


def _positive(value: Any) -> float:
    if _number(value) == 0:
        raise UserError("should be more than 0")
    return float(value)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"should be a whole number above 0, not {value!r}")
    return value


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise UserError(f"should be a list of operators, not {value!r}")
    return tuple(value)


def _levels(value: Any) -> int | tuple[Interval, ...]:
    """A number of even ones, or each as [FROM, TO], the highest as [FROM]."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, list):
        raise UserError(f"should be a number or a list of [FROM, TO], not {value!r}")
    found = tuple(_interval(one) for one in value)
    Levels(found)
    return found


def _interval(value: Any) -> Interval:
    match value:
        case [low]:
            return _number(low), inf
        case [low, high]:
            return _number(low), _number(high)
    raise UserError(f"should be a number or a list of [FROM, TO], not {value!r}")
