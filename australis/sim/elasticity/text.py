"""Elasticity files: YAML that says which modules there are, how tasks flow, and what cores cost.

    arrivals:
      camera: {every: 500 ms}
    modules:
      camera: {takes: 100 ms, delay_price: 0.5, core_price: 0.005, most: 1}
      faces: {takes: 4 s, fastest: 12, delay_price: 0.5, core_price: 0.02, most: 16}
      plates: {samples: {1: 2 s, 4: 600 ms}, delay_price: 0.5, core_price: 0.02, most: 8}
    arcs:
      camera: {faces: 0.25, plates: 0.75}
    nodes:
      rack: {cores: 16, modules: [faces, plates]}
    incentives: {increment: 0.1, rounds: 50}

Tasks come from outside to the modules under `arrivals`, one `every` so often or at a `rate` in tasks a
second; if there are several such modules, a virtual source joins them. A module `takes` so long for a
task on one core, and n cores are n times as fast: up to the `fastest` number of them, beyond which more
change nothing, or make it slower if it `grows`. Instead, `samples` say what was measured with how many
cores. `delay_price` is what a second between two results costs, `core_price` what a core costs, `fixed`
what is paid anyway; a module may have so many cores at `most`. `arcs` say how likely a task goes on to
which module (0.25 or 1/4), `nodes` which modules share cores. Every mistake is told with the file and
line where it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from australis.diagram.parts import PlaceOf, Settings
from australis.diagram.yaml_lines import Sections, not_too_deep, read_sections, read_settings
from australis.elasticity.cost import Module
from australis.elasticity.game import Game
from australis.elasticity.graph import Arcs, FlowGraph
from australis.elasticity.service import Ideal, Sampled, Saturating, ServiceTime, WithMinimum
from australis.elasticity.shared import Node, sharing
from australis.kernel.durations import SECOND, parse_duration
from australis.kernel.errors import Place, UserError

NEEDED = ("arrivals", "modules")
SECTIONS = (*NEEDED, "arcs", "nodes", "incentives")
LARGEST = 1e12
"""Prices and rates are between this and one part in as many."""
MOST_CORES = 100_000
LONGEST_S = 1e8
RAREST = 1e-9
"""A module that gets a smaller part of all tasks gets none, as it were."""


@dataclass(frozen=True)
class Incentives:
    """How modules are paid for taking more cores."""

    increment: float = 0.1
    """The part of a core's price by which incentives grow in a round,"""
    rounds: int = 50
    """of which there are so many at most."""


@dataclass(frozen=True)
class Plan:
    """A graph as it is described."""

    game: Game
    """What is played where modules share the cores of nodes,"""
    apart: Game
    """and the same as if each had its cores for itself."""
    nodes: tuple[Node, ...]
    every_s: float
    """How often a task comes, wherever it comes to."""
    incentives: Incentives


def load(text: str, file: str) -> Plan:
    """Read an elasticity file and check it."""
    with not_too_deep(file):
        sections = read_sections(text, file, "an elasticity file", SECTIONS, NEEDED)
        modules = sections.parts("modules", _module)
        names = [module.name for module in modules]
        arrivals = dict(sections.parts("arrivals", partial(_arrival, names)))
        onward = sections.parts("arcs", partial(_onward, names))
        nodes = sections.parts("nodes", partial(_node, names))
        incentives = sections.part("incentives", _incentives) or Incentives()
    arcs = {arc: part for parts in onward for arc, part in parts.items()}
    with _told(sections, "arcs", "modules"):
        graph, every_s = _graph(names, arcs, arrivals)
        apart = Game.of(graph, *modules, every_s=every_s)
    with _told(sections, "nodes"):
        game = sharing(apart, nodes)
    return Plan(game, apart, nodes, every_s, incentives)


def _graph(
    names: Collection[str], arcs: Arcs, arrivals: Mapping[str, float]
) -> tuple[FlowGraph, float]:
    """The graph, and how often a task comes to all of it."""
    if len(arrivals) == 1:
        ((source, every_s),) = arrivals.items()
        graph = FlowGraph(names, arcs, source=source)
    else:
        rates = {name: 1 / every_s for name, every_s in arrivals.items()}
        graph, every_s = FlowGraph.joined(names, arcs, rates), 1 / sum(rates.values())
    for name, ratio in graph.ratios.items():
        if ratio < RAREST:
            raise UserError(f"gets {ratio:.1g} of all tasks, as good as none", name=name)
    return graph, every_s


@contextmanager
def _told(sections: Sections, *within: str) -> Iterator[None]:
    """Say where the name stands about which there is a mistake, in the first of these sections."""
    try:
        yield
    except UserError as error:
        places = sections.places
        found = [places.get(f"{section} {error.name}") for section in within]
        place = next((place for place in found if place), Place(sections.file))
        raise error.at(place) from None


# --- sections ---------------------------------------------------------------------------------------


def _arrival(
    names: Collection[str], name: str, settings: Settings, place_of: PlaceOf
) -> tuple[str, float]:
    """The module, and how often a task comes to it from outside."""
    if name not in names:
        raise UserError("gets tasks from outside but is no module", name=name, place=place_of(None))
    readers = {"every": _seconds, "rate": _positive}
    taken = read_settings(name, settings, place_of, readers)
    if len(taken) != 1:
        raise UserError("needs either 'every' or 'rate'", name=name, place=place_of(None))
    return name, taken["every"] if "every" in taken else 1 / taken["rate"]


def _module(name: str, settings: Settings, place_of: PlaceOf) -> Module:
    readers: dict[str, Callable[[Any], Any]] = {
        "takes": _seconds,
        "fastest": _fastest,
        "grows": _yes_or_no,
        "samples": _samples,
        "delay_price": _positive,
        "core_price": _positive,
        "most": _whole,
        "fixed": _fixed,
    }
    needed = ("delay_price", "core_price", "most")
    taken = read_settings(name, settings, place_of, readers, needed)
    prices = {key: taken[key] for key in (*needed, "fixed") if key in taken}
    try:
        return Module(name, _service(taken), **prices)
    except UserError as error:
        raise error.at(place_of("samples"), name) from None


def _service(taken: Mapping[str, Any]) -> ServiceTime:
    if "samples" in taken:
        for key in ("takes", "fastest", "grows"):
            if key in taken:
                raise UserError(f"has 'samples', beside which '{key}' says nothing")
        return Sampled(taken["samples"])
    if "takes" not in taken:
        raise UserError("needs 'takes' or 'samples'")
    if "fastest" not in taken:
        if "grows" in taken:
            raise UserError("needs 'fastest': the number of cores beyond which it 'grows'")
        return Ideal(taken["takes"])
    if taken.get("grows"):
        return WithMinimum(taken["takes"], taken["fastest"])
    return Saturating(taken["takes"], taken["fastest"])


def _onward(
    names: Collection[str], name: str, settings: Settings, place_of: PlaceOf
) -> dict[tuple[str, str], float]:
    """The arcs from a module on."""
    keys: dict[str, str | None] = {name: None, **{there: there for there in settings}}
    for end, key in keys.items():
        if end not in names:
            raise UserError(
                "is at the end of an arc but is no module", name=end, place=place_of(key)
            )
    taken = read_settings(name, settings, place_of, dict.fromkeys(names, _probability))
    return {(name, there): part for there, part in taken.items()}


def _node(names: Collection[str], name: str, settings: Settings, place_of: PlaceOf) -> Node:
    readers: dict[str, Callable[[Any], Any]] = {"cores": _whole, "modules": _names}
    taken = read_settings(name, settings, place_of, readers, list(readers))
    for module in taken["modules"]:
        if module not in names:
            sentence = f"should run {module}, which is no module"
            raise UserError(sentence, name=name, place=place_of("modules"))
    return Node(name, **taken)


def _incentives(name: str, settings: Settings, place_of: PlaceOf) -> Incentives:
    readers: dict[str, Callable[[Any], Any]] = {"increment": _part, "rounds": _whole}
    return Incentives(**read_settings(name, settings, place_of, readers))


# --- values ------------------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _positive(value: Any) -> float:
    if not _is_number(value) or not 1 / LARGEST <= value <= LARGEST:
        raise UserError(f"should be a number above 0 (up to {LARGEST:g}), not {value!r}")
    return float(value)


def _fixed(value: Any) -> float:
    if not _is_number(value) or not 0 <= value <= LARGEST:
        raise UserError(f"should be a number from 0 on (up to {LARGEST:g}), not {value!r}")
    return float(value)


def _fastest(value: Any) -> float:
    if not _is_number(value) or not 1 <= value <= MOST_CORES:
        raise UserError(f"should be a number of cores from 1 to {MOST_CORES:,}, not {value!r}")
    return float(value)


def _whole(value: Any) -> int:
    if not _is_number(value) or value not in range(1, MOST_CORES + 1):
        raise UserError(f"should be a whole number from 1 to {MOST_CORES:,}, not {value!r}")
    return int(value)


def _part(value: Any) -> float:
    if not _is_number(value) or not 1 / LARGEST <= value <= 1:
        raise UserError(f"should be above 0 and at most 1, not {value!r}")
    return float(value)


def _probability(value: Any) -> float:
    """A part of 1, or one whole number over another."""
    if isinstance(value, str) and "/" in value:
        try:
            return _part(float(Fraction(value)))
        except (ValueError, ArithmeticError):
            raise UserError(f"should be a probability, not {value!r}") from None
    return _part(value)


def _yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UserError(f"should be true or false, not {value!r}")
    return value


def _seconds(value: Any) -> float:
    us = parse_duration(value)
    if not 0 < us <= LONGEST_S * SECOND:
        raise UserError(f"should be longer than 0 s (up to {LONGEST_S:g} s), not {value!r}")
    return us / SECOND


def _samples(value: Any) -> tuple[tuple[float, float], ...]:
    if not isinstance(value, dict) or not value:
        raise UserError("should be numbers of cores, each with a duration")
    found = []
    for cores, time in value.items():
        try:
            found.append((float(cores), _seconds(time)))
        except ValueError:
            raise UserError(f"should have numbers of cores, not {cores!r}") from None
    return tuple(found)


def _names(value: Any) -> tuple[str, ...]:
    good = isinstance(value, list) and value and all(isinstance(one, str) for one in value)
    if not good:
        raise UserError(f"should be a list of modules, not {value!r}")
    return tuple(value)
