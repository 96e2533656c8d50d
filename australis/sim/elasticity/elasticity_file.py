"""Elasticity files: YAML that describes modules, the flow of tasks, and the price of cores.

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

Tasks arrive from outside at the modules under `arrivals`, one per interval (`every`) or at a `rate`
in tasks per second; if there are several such modules, a virtual source joins them. `takes` is the
service time of a task on one core, and n cores are n times as fast, up to the `fastest` number of
cores, beyond which more cores change nothing, or make the module slower if it `grows`.
Alternatively, `samples` gives service times measured by number of cores. `delay_price` is the price
of a second between two results, `core_price` the price of a core, `fixed` the cost independent of
both, and `most` the largest number of cores of a module. `arcs` gives the probability with which a
task continues to each module (0.25 or 1/4), `nodes` the modules that share cores.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta, field

from australis.elasticity.cost import Module
from australis.elasticity.game import Game
from australis.elasticity.graph import Arcs, FlowGraph
from australis.elasticity.service import Ideal, Sampled, Saturating, ServiceTime, WithMinimum
from australis.elasticity.shared import Node, sharing
from australis.kernel.durations import SECOND, parse_duration
from australis.kernel.errors import UserError
from australis.kernel.names import meant
from australis.yamlfile.document import Document, parse
from australis.yamlfile.schema import Section, Settings, Value, arguments, read, shown
from australis.yamlfile.values import Duration, Name, Part, Probability

MAX_VALUE = 1e12
"""Prices and rates lie between the inverse of this value and this value."""
MAX_CORES = 100_000
MAX_DURATION_S = 1e8
RAREST = 1e-9
"""A module that receives a smaller part of all tasks is treated as receiving none."""


# --- sections and settings ----------------------------------------------------------------------

Price = Annotated[
    float,
    Meta(ge=1 / MAX_VALUE, le=MAX_VALUE, description=f"a number above 0 (up to {MAX_VALUE:g})"),
]
FixedPrice = Annotated[
    float, Meta(ge=0, le=MAX_VALUE, description=f"a number from 0 on (up to {MAX_VALUE:g})")
]
Cores = Annotated[
    int, Meta(ge=1, le=MAX_CORES, description=f"a whole number from 1 to {MAX_CORES:,}")
]
Fastest = Annotated[
    float, Meta(ge=1, le=MAX_CORES, description=f"a number of cores from 1 to {MAX_CORES:,}")
]
Modules = Annotated[tuple[Name, ...], Meta(min_length=1, description="a list of modules")]


class Elapsed(Duration):
    """A duration."""

    @classmethod
    def read(cls, written: Any) -> Elapsed:
        us = parse_duration(written)
        if not 0 < us <= MAX_DURATION_S * SECOND:
            longest = f"(up to {MAX_DURATION_S:g} s)"
            raise UserError(f"should be longer than 0 s {longest}, not {shown(written)}")
        return cls(us)


class Samples(Value):
    """Service times in seconds, measured with given numbers of cores."""

    @classmethod
    def read(cls, written: Any) -> Samples:
        if not isinstance(written, dict) or not written:
            raise UserError("should be numbers of cores, each with a duration")
        found = []
        for cores, time in written.items():
            try:
                found.append((float(cores), Elapsed.read(time).s))
            except ValueError:
                raise UserError(f"should have numbers of cores, not {cores!r}") from None
        return cls(tuple(found))


class ArrivalSettings(Settings, frozen=True):
    """How often a task arrives from outside."""

    every: Elapsed | None = None
    rate: Price | None = None

    def __post_init__(self) -> None:
        if (self.every is None) == (self.rate is None):
            raise UserError("needs either 'every' or 'rate'")

    @property
    def every_s(self) -> float:
        """The time between two arrivals."""
        return self.every.s if self.every else 1 / (self.rate or 1.0)


class ModuleSettings(Settings, frozen=True, kw_only=True):
    """One module: its service time and its prices."""

    takes: Elapsed | None = None
    fastest: Fastest | None = None
    grows: bool | None = None
    samples: Samples | None = None
    delay_price: Price
    core_price: Price
    most: Cores
    fixed: FixedPrice = Module.fixed

    @property
    def service(self) -> ServiceTime:
        """The service time by number of cores."""
        if self.samples is not None:
            for key in ("takes", "fastest", "grows"):
                if getattr(self, key) is not None:
                    raise UserError(f"has 'samples', beside which '{key}' says nothing")
            return Sampled(self.samples.meaning)
        if self.takes is None:
            raise UserError("needs 'takes' or 'samples'")
        if self.fastest is None:
            if self.grows is not None:
                raise UserError("needs 'fastest': the number of cores beyond which it 'grows'")
            return Ideal(self.takes.s)
        return (WithMinimum if self.grows else Saturating)(self.takes.s, self.fastest)


class SharedNodeSettings(Settings, frozen=True):
    """A machine, and the modules that share its cores."""

    cores: Cores
    modules: Modules


class Incentives(Settings, frozen=True):
    """How modules are paid for using more cores."""

    increment: Part = 0.1
    """The part of a core's price by which incentives grow per round."""
    rounds: Cores = 50
    """The largest number of rounds."""


class ElasticitySections(Settings, frozen=True):
    """The sections of an elasticity file."""

    arrivals: Section[ArrivalSettings]
    modules: Section[ModuleSettings]
    arcs: Section[dict[str, Probability]] = field(default_factory=dict)
    nodes: Section[SharedNodeSettings] = field(default_factory=dict)
    incentives: Incentives = Incentives()


@dataclass(frozen=True)
class ElasticityFile:
    """A graph as described by a file."""

    game: Game
    """The game in which modules share the cores of nodes."""
    apart: Game
    """The same game with separate cores for each module."""
    nodes: tuple[Node, ...]
    every_s: float
    """The time between two arrivals, at whichever module they arrive."""
    incentives: Incentives


# --- reading ------------------------------------------------------------------------------------


def load(text: str, file: str) -> ElasticityFile:
    """Read an elasticity file and check it."""
    document = parse(text, file)
    said = read(document, ElasticitySections, "an elasticity file")
    modules = []
    for name, one in said.modules.items():
        prices = (one.delay_price, one.core_price, one.most)
        with document.blaming("modules", name, "samples", name=name):
            modules.append(Module(name, one.service, *prices, fixed=one.fixed))
    _refuse_unknown_modules(document, said)
    arrivals = {name: one.every_s for name, one in said.arrivals.items()}
    arcs = {
        (here, there): probability.meaning
        for here, onward in said.arcs.items()
        for there, probability in onward.items()
    }
    with document.blaming_named("arcs", "modules"):
        graph, every_s = _graph(said.modules, arcs, arrivals)
        apart = Game.of(graph, *modules, every_s=every_s)
    nodes = tuple(Node(name, **arguments(one)) for name, one in said.nodes.items())
    with document.blaming_named("nodes"):
        game = sharing(apart, nodes)
    return ElasticityFile(game, apart, nodes, every_s, said.incentives)


def _refuse_unknown_modules(document: Document, said: ElasticitySections) -> None:
    paths: list[tuple[str, ...]] = [("arrivals", name) for name in said.arrivals]
    paths += [("arcs", here) for here in said.arcs]
    paths += [("arcs", here, there) for here in said.arcs for there in said.arcs[here]]
    for path in paths:
        name = path[-1]
        if name not in said.modules:
            what = "gets tasks from outside" if path[0] == "arrivals" else "is at the end of an arc"
            sentence = f"{what} but is no module{meant(name, said.modules)}"
            raise UserError(sentence, name=name, place=document.place(*path))


def _graph(
    names: Collection[str], arcs: Arcs, arrivals: Mapping[str, float]
) -> tuple[FlowGraph, float]:
    """The graph, and the time between two arrivals in all of it."""
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
