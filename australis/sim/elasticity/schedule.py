"""Draws from a seed a game, the links between its agents, measurements, and faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from australis.elasticity.cost import Module
from australis.elasticity.equilibrium import best_equilibrium
from australis.elasticity.game import Game
from australis.elasticity.generate import object_recognition, random_game
from australis.elasticity.graph import FlowGraph
from australis.elasticity.inertia import Inertia
from australis.elasticity.rounding import Rounding, whole_cores
from australis.elasticity.service import Feed, Sampled
from australis.elasticity.shared import Node, sharing
from australis.elasticity.tree import lowest_tree
from australis.kernel.durations import MILLISECOND, SECOND
from australis.kernel.rng import SeedTree
from australis.protocols.elasticity.agent import AgentMachine
from australis.protocols.elasticity.events import ElasticityOptions, Measured
from australis.sim.faults import Fault, Kind
from australis.sim.network import Link

CALM = 3
"""The number of final control steps without faults and losses and with exact measurements."""
PATIENT_TRIES = 30
"""With this number of tries, all answers are lost only if the peer is down, even at one fifth lost
messages.
"""


@dataclass(frozen=True)
class SlowLink:
    """A link whose latency is higher one way for a while."""

    at_us: int
    lasts_us: int
    node: str
    other: str
    extra_us: int

    @property
    def until_us(self) -> int:
        """When the link has its usual latency again."""
        return self.at_us + self.lasts_us

    def __str__(self) -> str:
        return (
            f"{self.at_us / 1e6:8.2f} s: {self.node} to {self.other} takes"
            f" {self.extra_us / 1e3:g} ms more for {self.lasts_us / 1e6:.2f} s"
        )


@dataclass(frozen=True)
class Schedule:
    """Everything that determines one run."""

    seed: int
    game: Game
    """The game as agents know it at first."""
    every_s: float | None
    """The time between arrivals in the end, if the agents were told of it."""
    nodes: tuple[Node, ...]
    """Modules that share cores."""
    options: ElasticityOptions
    link: Link
    extra_us: int
    """The largest extra delay of a slow link."""
    skew_us: int
    patient: bool
    """Whether agents wait until every lost message has been resent and received."""
    cores: Mapping[str, int]
    """The cores of each module at first."""
    faulty: int
    """The number of control steps before the calm ones."""
    measured: Mapping[int, Mapping[str, Measured]]
    """The measurements that agents receive before each control step."""
    faults: tuple[Fault | SlowLink, ...]
    agent_class: type[AgentMachine] = AgentMachine

    @property
    def steps(self) -> int:
        """The number of all control steps."""
        return self.faulty + CALM

    @property
    def late_us(self) -> int:
        """The largest delay of a message that arrives at all."""
        return self.link.latency_us + self.link.jitter_us + self.extra_us

    @property
    def lead_us(self) -> int:
        """The interval before a step begins, in the world's time, in which events may affect that
        step.
        """
        return self.skew_us + 2 * self.late_us + MILLISECOND

    @property
    def heals_us(self) -> int:
        """When all faults are over."""
        return (self.faulty + 1) * self.options.step_us - self.lead_us - 1

    def over_us(self, step: int) -> int:
        """When every agent must have ended a control step."""
        return step * self.options.step_us + self.options.deadline_us + MILLISECOND

    @property
    def quiet(self) -> bool:
        """Whether every message that is not lost arrives before an agent asks for it again."""
        widest = _widest(self.game.graph, self.options.gossip)
        return self.skew_us + widest * self.late_us < self.options.resend_us

    @property
    def waits_for_the_gone(self) -> bool:
        """Whether the deadline leaves time to detect that an agent is down, and then to continue
        without it.
        """
        asks_us = 2 * (self.options.tries + 1) * self.options.resend_us
        takes_us = _exchanges(self.game.graph, self.options) * self.late_us
        return asks_us + takes_us + self.lead_us < self.options.deadline_us


def draw(seed: int, chance: SeedTree) -> Schedule:
    """Draw the schedule of a seed."""
    game, every_s, nodes = _draw_game(chance.stream("game"))
    link, extra_us = _draw_link(chance.stream("links"))
    rng = chance.stream("options")
    skew_us = rng.choice((0, 50 * MILLISECOND, 2 * SECOND))
    patient = rng.random() < 0.5
    options = _draw_options(rng, game, bool(nodes))
    late_us = link.latency_us + link.jitter_us + extra_us
    options = _timed(chance.stream("times"), options, game.graph, late_us, skew_us, patient)
    drawn = Schedule(
        *(seed, game, every_s, nodes, options, link, extra_us, skew_us, patient),
        cores=_draw_cores(chance.stream("cores"), game),
        faulty=rng.randint(8, 15),
        measured={},
        faults=(),
    )
    measured = _draw_loads(chance.stream("loads"), drawn)
    return replace(drawn, measured=measured, faults=_draw_faults(chance.stream("faults"), drawn))


# --- games ------------------------------------------------------------------------------------------


def _draw_game(rng: Random) -> tuple[Game, float | None, tuple[Node, ...]]:
    if rng.random() < 0.1:
        game = object_recognition()
    else:
        kinds = rng.choice(("a", "b", "c", "abc"))
        size = rng.randint(2, rng.choice((3, 7, 12)))
        game = random_game(size, rng, kinds, rng.choice((2, 4, 8)))
    every_s = rng.uniform(0.1, 2.0)
    known = True
    modules = {
        name: _sampled(module, rng) if rng.random() < 0.1 else module
        for name, module in game.modules.items()
    }
    if rng.random() < 0.25:
        game = _joined(game.graph, modules, rng, every_s)
    else:
        known = rng.random() < 0.85
        game = Game(game.graph, modules)
        game = game.arriving(every_s) if known else game
    nodes = _draw_nodes(game, rng) if rng.random() < 0.25 else ()
    return sharing(game, nodes), every_s if known else None, nodes


def _sampled(module: Module, rng: Random) -> Module:
    """The same game, in which only some measurements are known."""
    points = sorted(rng.sample((1, 2, 3, 4, 6, 8, 12, 16, 24), rng.randint(1, 5)))
    samples = tuple((n, module.service.time_s(n) * rng.uniform(0.9, 1.1)) for n in points)
    return replace(module, service=Sampled(samples))


def _joined(graph: FlowGraph, modules: Mapping[str, Module], rng: Random, every_s: float) -> Game:
    """The same game without its source: modules that had tasks from it alone become sources."""
    arcs = {arc: part for arc, part in graph.arcs.items() if graph.source not in arc}
    names = [name for name in graph.modules if name != graph.source]
    taken = {there for _, there in arcs}
    rates = {name: rng.uniform(0.5, 2.0) for name in names if name not in taken}
    joined = FlowGraph.joined(names, arcs, rates)
    return Game.of(joined, *(modules[name] for name in names), every_s=every_s)


def _draw_nodes(game: Game, rng: Random) -> tuple[Node, ...]:
    """Draw nodes of two modules or more, some with fewer cores than their modules would choose.

    A source that is told the arrival rate forgets the speed of its node, so it never has a node
    alone.
    """
    names = [name for name in game.modules if not _is_virtual(game, name)]
    rng.shuffle(names)
    wanted = whole_cores(game, best_equilibrium(game).degrees)
    nodes: list[Node] = []
    while len(names) >= 2 and (not nodes or rng.random() < 0.7):
        size = min(rng.randint(2, 4), len(names))
        group, names = tuple(names[:size]), names[size:]
        cores = round(rng.uniform(0.4, 1.1) * sum(wanted[name] for name in group))
        nodes.append(Node(f"node-{len(nodes) + 1}", max(size, cores), group))
    return tuple(nodes)


def _is_virtual(game: Game, name: str) -> bool:
    return isinstance(game.modules[name].service, Feed)


def _draw_cores(rng: Random, game: Game) -> dict[str, int]:
    """Draw any number of cores, now and then above a module's limit, which can change."""
    return {
        name: 0 if _is_virtual(game, name) else rng.randint(1, module.most + rng.choice((0, 0, 3)))
        for name, module in game.modules.items()
    }


# --- settings -----------------------------------------------------------------------------------------


def _draw_link(rng: Random) -> tuple[Link, int]:
    """Draw the default of all links, and the largest extra delay of a slow link."""
    latency_us = rng.choice((1, 20, 200)) * MILLISECOND
    extra_us = int(latency_us * rng.uniform(0.0, 5.0)) if rng.random() < 0.3 else 0
    link = Link(
        latency_us=latency_us,
        jitter_us=int(latency_us * rng.choice((0.0, 0.5, 3.0))),
        loss=rng.choice((0.0, 0.0, 0.02, 0.1, 0.2)),
        duplicate=rng.choice((0.0, 0.0, 0.05, 0.2)),
        in_order=rng.random() < 0.5,
    )
    return link, extra_us


def _draw_options(rng: Random, game: Game, shared: bool) -> ElasticityOptions:
    rounds = rng.choice((1, 1, 2, 3, 5, 8, 12))
    gossip = rng.choice((1, 2, 4, 8)) if rounds > 1 and rng.random() < 0.4 else 0
    inertia = Inertia()
    if rng.random() < 0.4:
        # Where cores are shared, cores that one module holds for a while may be missing for
        # another.
        cost = 0.0 if shared else rng.uniform(0.0, 0.1)
        inertia = Inertia(cost, rng.uniform(1.0, 5.0), rng.choice((0.0, 0.02, 0.1)))
    return ElasticityOptions(
        rounds=rounds,
        increment=rng.choice((0.05, 0.1, 0.3, 1.0)),
        gossip=gossip,
        rounding=rng.choice((Rounding.UP, Rounding.UP, Rounding.NEAREST)),
        newest=rng.choice((0.3, 0.7, 1.0)),
        inertia=inertia,
    )


def _timed(
    rng: Random,
    options: ElasticityOptions,
    graph: FlowGraph,
    late_us: int,
    skew_us: int,
    patient: bool,
) -> ElasticityOptions:
    """Choose timeouts with which a step without faults ends before its deadline."""
    widest, exchanges = _widest(graph, options.gossip), _exchanges(graph, options)
    if rng.random() < 0.5:
        resend_us = skew_us + widest * late_us + rng.randint(10, 300) * MILLISECOND
    else:
        resend_us = max(200 * MILLISECOND, int(late_us * rng.uniform(0.5, 2.0)))
    least_us = skew_us + exchanges * late_us
    if patient:
        tries = PATIENT_TRIES
        deadline_us = least_us + (exchanges + 10) * 10 * resend_us
    else:
        tries = rng.choice((2, 3, 8)) + 2 * late_us // resend_us
        deadline_us = int(least_us * rng.uniform(1.1, 2.0)) + rng.randint(1, 12) * resend_us
    spare_us = rng.randint(1, late_us)
    if (
        rng.random() < 0.6
    ):  # In the other runs a step begins when the previous one has hardly ended.
        spare_us = int(deadline_us * rng.uniform(0.5, 2.0)) + skew_us
    return replace(
        options,
        resend_us=resend_us,
        tries=tries,
        deadline_us=deadline_us,
        step_us=deadline_us + spare_us,
    )


def _exchanges(graph: FlowGraph, options: ElasticityOptions) -> int:
    """The largest number of sequential messages in a control step."""
    adding = options.gossip or 2 * lowest_tree(graph).height
    return options.rounds * (graph.diameter + adding + 1) + graph.diameter


def _widest(graph: FlowGraph, gossip: int) -> int:
    """The largest number of sequential messages for which an agent waits."""
    return graph.diameter + 2 * lowest_tree(graph).height + gossip + 2


# --- events ---------------------------------------------------------------------------------------


def _draw_loads(rng: Random, drawn: Schedule) -> dict[int, dict[str, Measured]]:
    """Draw new loads for some agents in each step, and true loads for all in calm steps."""
    game, found = drawn.game, {}
    for step in range(1, drawn.steps + 1):
        calm = step > drawn.faulty
        told: dict[str, Measured] = {}
        for name, module in game.modules.items():
            every_s = running_s = None
            if name == game.graph.source and drawn.every_s is not None:
                every_s = drawn.every_s * (1.0 if calm else rng.uniform(0.3, 3.0))
            if not _is_virtual(game, name):
                # A node's measurement stays valid as long as service times are those at which it
                # was taken.
                other = not calm and not drawn.nodes
                running_s = module.service.running_s * (rng.uniform(0.7, 1.4) if other else 1.0)
            if calm or rng.random() < 0.6:
                told[name] = Measured(running_s, every_s)
        found[step] = told
    return found


def _draw_faults(rng: Random, drawn: Schedule) -> tuple[Fault | SlowLink, ...]:
    """Draw some faults of each kind, or none."""
    if rng.random() < 0.1:
        return ()
    kinds: list[Kind | None] = []
    for kind, most in ((Kind.CRASH, 4), (Kind.PAUSE, 3), (Kind.CUT, 4)):
        kinds += [kind] * rng.randint(0, most)
    if drawn.extra_us:
        kinds += [None] * rng.randint(1, 3)
    faults = [_draw_fault(rng, drawn, kind) for kind in kinds]
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def _draw_fault(rng: Random, drawn: Schedule, kind: Kind | None) -> Fault | SlowLink:
    """Draw one fault of a kind, or a slow link."""
    at_us, lasts_us = _draw_times(rng, drawn)
    graph = drawn.game.graph
    if kind in (Kind.CRASH, Kind.PAUSE):
        return Fault(kind, at_us, lasts_us, rng.choice(graph.modules))
    here, there = rng.choice(list(graph.arcs))
    if rng.random() < 0.5:
        here, there = there, here
    if kind is None:
        return SlowLink(at_us, lasts_us, here, there, rng.randint(1, drawn.extra_us))
    kind = Kind.CUT_ONE_WAY if rng.random() < 0.2 else Kind.CUT
    return Fault(kind, at_us, lasts_us, here, there)


def _draw_times(rng: Random, drawn: Schedule) -> tuple[int, int]:
    """Draw a begin and a duration: several whole control steps, a part of one, or a moment."""
    options = drawn.options
    step = rng.randint(1, drawn.faulty)
    begin_us = step * options.step_us
    kind = rng.choice(("whole", "part", "moment"))
    if kind == "whole":
        at_us = begin_us - drawn.lead_us - MILLISECOND
        last = step + rng.choice((0, 0, 1, 2))
        until_us = drawn.over_us(last) + MILLISECOND
    else:
        busy_us = _exchanges(drawn.game.graph, options) * drawn.late_us + SECOND
        at_us = begin_us + rng.randint(-drawn.lead_us, min(busy_us, options.deadline_us))
        longest_us = options.deadline_us if kind == "part" else 4 * options.resend_us
        until_us = at_us + rng.randint(MILLISECOND, longest_us)
    at_us = min(max(at_us, 0), drawn.heals_us - 1)
    return at_us, min(until_us, drawn.heals_us) - at_us
