"""Placement files: YAML that says which servers and links there are, and which queries.

    servers:
      edge: {speed: 1}
      core: {speed: 4, bound: 0.8}
    links:
      edge - core: {latency: 2 ms, bandwidth: 100}
    queries:
      alarms:
        producers: {camera: {at: edge, rate: 30, bytes: 2000}}
        tasks:
          faces: {takes: camera, work: 10 ms, makes: 0.2, bytes: 500}
        consumers: {guard: {at: edge, takes: faces}}

`work` is the time a tuple takes on a server of speed 1, `makes` the number of tuples a task makes of
one, `rate` is in tuples a second, `bandwidth` in Mbit/s, the same both ways. Producers with the same
`stream` at one server put out the same, and tasks that say they do the same (`does`) with the same make
the same: one of them is enough for several queries. `state` is what a task remembers, in MB. Every
mistake is told with the file and line where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from australis.diagram.parts import PlaceOf, Settings
from australis.diagram.yaml_lines import not_too_deep, read_sections, read_settings
from australis.kernel.durations import SECOND, parse_duration
from australis.kernel.errors import UserError
from australis.placement.check import check_ends, check_room
from australis.placement.network import Network, Server
from australis.placement.queries import Consumer, Producer, Query, Task
from australis.queueing.links import Wire

SECTIONS = ("servers", "links", "queries")
BYTES_PER_MBIT = 125_000.0
BYTES_PER_MB = 1e6


@dataclass(frozen=True)
class Plan:
    """A network, and what is to run on it."""

    network: Network
    queries: tuple[Query, ...]


def load(text: str, file: str) -> Plan:
    """Read a placement file and check it."""
    with not_too_deep(file):
        sections = read_sections(text, file, "a placement file", SECTIONS, SECTIONS)
        servers = sections.parts("servers", _server)
        links = dict(sections.parts("links", _link))
        queries = sections.parts("queries", _query)
    try:
        network = Network.both_ways(servers, links)
        for query in queries:
            check_ends(query, network)
            check_room(query, network)
    except UserError as error:
        for section in SECTIONS:
            place = sections.places.get(f"{section} {error.name}")
            if place is not None:
                raise error.at(place) from None
        raise
    return Plan(network, queries)


def _server(name: str, settings: Settings, place_of: PlaceOf) -> Server:
    taken = read_settings(name, settings, place_of, {"speed": _positive, "bound": _part})
    return Server(name, **taken)


def _link(name: str, settings: Settings, place_of: PlaceOf) -> tuple[tuple[str, str], Wire]:
    ends = [end.strip() for end in name.split(" - ")]
    if len(ends) != 2 or not all(ends):
        raise UserError("should be two servers: HERE - THERE", name=name, place=place_of(None))
    readers: dict[str, Callable[[Any], Any]] = {"latency": _seconds, "bandwidth": _positive}
    taken = read_settings(name, settings, place_of, readers, needed=["latency"])
    wire = Wire(taken.get("bandwidth", 1_000.0) * BYTES_PER_MBIT, taken["latency"])
    return (ends[0], ends[1]), wire


def _query(name: str, settings: Settings, place_of: PlaceOf) -> Query:
    readers = dict.fromkeys(("producers", "tasks", "consumers"), _named)
    taken = read_settings(name, settings, place_of, readers, needed=list(readers))
    made: dict[str, list[Any]] = {}
    for key, make in (("producers", _producer), ("tasks", _task), ("consumers", _consumer)):
        try:
            made[key] = [make(part, one) for part, one in taken[key].items()]
        except UserError as error:
            raise error.at(place_of(key)) from None
    try:
        return Query(name, tuple(made["producers"]), tuple(made["tasks"]), tuple(made["consumers"]))
    except UserError as error:
        raise error.at(place_of("tasks")) from None


def _producer(name: str, settings: Mapping[str, Any]) -> Producer:
    readers = {"at": _name, "rate": _positive, "bytes": _positive, "stream": _name}
    return Producer(name, **_read(name, settings, readers, ["at", "rate"]))


def _task(name: str, settings: Mapping[str, Any]) -> Task:
    readers = {
        "takes": _names,
        "work": _seconds,
        "makes": _positive,
        "bytes": _positive,
        "does": _name,
        "state": _positive,
    }
    taken = _read(name, settings, readers, ["takes", "work"])
    state_bytes = taken.pop("state", 0.0) * BYTES_PER_MB
    return Task(name, taken.pop("takes"), **taken, state_bytes=state_bytes)


def _consumer(name: str, settings: Mapping[str, Any]) -> Consumer:
    taken = _read(name, settings, {"at": _name, "takes": _name}, ["at", "takes"])
    return Consumer(name, taken["at"], taken["takes"])


def _read(
    name: str,
    settings: Mapping[str, Any],
    readers: Mapping[str, Callable[[Any], Any]],
    needed: list[str],
) -> dict[str, Any]:
    return read_settings(name, dict(settings), lambda key: None, readers, needed)  # type: ignore[arg-type,return-value]


def _named(value: Any) -> dict[str, dict[str, Any]]:
    good = isinstance(value, dict) and value and all(isinstance(v, dict) for v in value.values())
    if not good:
        raise UserError("should have names, each with settings")
    return {str(name): settings for name, settings in value.items()}


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise UserError(f"should be a name, not {value!r}")
    return value


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise UserError(f"should be a name or a list of names, not {value!r}")
    return tuple(value)


def _positive(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < inf:
        raise UserError(f"should be a number above 0, not {value!r}")
    return float(value)


def _part(value: Any) -> float:
    if _positive(value) > 1:
        raise UserError(f"should be at most 1, not {value!r}")
    return float(value)


def _seconds(value: Any) -> float:
    return parse_duration(value) / SECOND
