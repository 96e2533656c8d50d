"""What is drawn from a seed: a game, how its agents talk, what they measure, and what fails when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
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
from australis.protocols.elasticity.events import ElasticityOptions, Measured
from australis.sim.network import Link

CALM = 3
"""Control steps at the end in which nothing fails, nothing is lost and measurements are exact."""
PATIENT_TRIES = 30
"""So often all answers are lost only if nobody is there, even if a fifth of all messages is."""


class Kind(Enum):
    """What may happen to agents and between them."""

    CRASH = "crashes"
    PAUSE = "stands still"
    CUT = "is cut"
    SLOW = "is slow"


@dataclass(frozen=True)
class Fault:
    """One thing that fails for a while."""

    kind: Kind
    at_us: int
    until_us: int
    here: str
    """An agent, or the one end of a link"""
    there: str | None = None
    """whose other end this is."""
    one_way: bool = False
    extra_us: int = 0
    """By so much a link is slower."""


@dataclass(frozen=True)
class Schedule:
    """One run, before it has begun."""

    seed: int
    game: Game
    """As agents know it at first."""
    every_s: float | None
    """How often a task comes in the end, if that was ever said."""
    nodes: tuple[Node, ...]
    """Modules that share cores."""
    options: ElasticityOptions
    link: Link
    extra_us: int
    """By so much slow links are slower at most."""
    skew_us: int
    patient: bool
    """Whether agents wait until everything that was lost has come after all."""
    cores: Mapping[str, int]
    """What modules have at first."""
    faulty: int
    """So many control steps come before those that are calm."""
    measured: Mapping[int, Mapping[str, Measured]]
    """What agents are told before each control step."""
    faults: tuple[Fault, ...]

    @property
    def steps(self) -> int:
        """All control steps."""
        return self.faulty + CALM

    @property
    def late_us(self) -> int:
        """A message that comes at all takes no longer than this."""
        return self.link.latency_us + self.link.jitter_us + self.extra_us

    @property
    def lead_us(self) -> int:
        """So long before the beginning of a step, by the world's time, what happens may matter to it."""
        return self.skew_us + 2 * self.late_us + MILLISECOND

    @property
    def heals_us(self) -> int:
        """When everything is well again."""
        return (self.faulty + 1) * self.options.step_us - self.lead_us - 1

    def over_us(self, step: int) -> int:
        """When everybody must have ended a control step."""
        return step * self.options.step_us + self.options.deadline_us + MILLISECOND

    @property
    def quiet(self) -> bool:
        """Whether everything that is not lost comes before it is asked for."""
        widest = _widest(self.game.graph, self.options.gossip)
        return self.skew_us + widest * self.late_us < self.options.resend_us

    @property
    def waits_for_the_gone(self) -> bool:
        """Whether there is time enough to notice that somebody is not there, and then to go on."""
        asks_us = 2 * (self.options.tries + 1) * self.options.resend_us
        takes_us = _exchanges(self.game.graph, self.options) * self.late_us
        return asks_us + takes_us + self.lead_us < self.options.deadline_us


def draw(seed: int) -> Schedule:
    """Draw everything."""
    rng = Random(f"elasticity {seed}")
    game, every_s, nodes = _draw_game(rng)
    link = _draw_link(rng)
    extra_us = int(link.latency_us * rng.uniform(0.0, 5.0)) if rng.random() < 0.3 else 0
    skew_us = rng.choice((0, 50 * MILLISECOND, 2 * SECOND))
    patient = rng.random() < 0.5
    options = _draw_options(rng, game, bool(nodes))
    late_us = link.latency_us + link.jitter_us + extra_us
    options = _timed(rng, options, game.graph, late_us, skew_us, patient)
    drawn = Schedule(
        *(seed, game, every_s, nodes, options, link, extra_us, skew_us, patient),
        cores=_draw_cores(rng, game),
        faulty=rng.randint(8, 15),
        measured={},
        faults=(),
    )
    return replace(drawn, measured=_draw_loads(rng, drawn), faults=_draw_faults(rng, drawn))


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
    """The same, but all that is known are some measurements."""
    points = sorted(rng.sample((1, 2, 3, 4, 6, 8, 12, 16, 24), rng.randint(1, 5)))
    samples = tuple((n, module.service.time_s(n) * rng.uniform(0.9, 1.1)) for n in points)
    return replace(module, service=Sampled(samples))


def _joined(graph: FlowGraph, modules: Mapping[str, Module], rng: Random, every_s: float) -> Game:
    """The same without its source: those that had tasks from it alone are sources themselves."""
    arcs = {arc: part for arc, part in graph.arcs.items() if graph.source not in arc}
    names = [name for name in graph.modules if name != graph.source]
    taken = {there for _, there in arcs}
    rates = {name: rng.uniform(0.5, 2.0) for name in names if name not in taken}
    joined = FlowGraph.joined(names, arcs, rates)
    return Game.of(joined, *(modules[name] for name in names), every_s=every_s)


def _draw_nodes(game: Game, rng: Random) -> tuple[Node, ...]:
    """Nodes with two modules or more, some of them too small for what all would like to have.

    A source that hears how often tasks come forgets how fast its node is, so it is never there alone.
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
    """Any number, now and then more than a module may have: what it may have can change."""
    return {
        name: 0 if _is_virtual(game, name) else rng.randint(1, module.most + rng.choice((0, 0, 3)))
        for name, module in game.modules.items()
    }


# --- settings -----------------------------------------------------------------------------------------


def _draw_link(rng: Random) -> Link:
    latency_us = rng.choice((1, 20, 200)) * MILLISECOND
    return Link(
        latency_us=latency_us,
        jitter_us=int(latency_us * rng.choice((0.0, 0.5, 3.0))),
        loss=rng.choice((0.0, 0.0, 0.02, 0.1, 0.2)),
        duplicate=rng.choice((0.0, 0.0, 0.05, 0.2)),
        in_order=rng.random() < 0.5,
    )


def _draw_options(rng: Random, game: Game, shared: bool) -> ElasticityOptions:
    rounds = rng.choice((1, 1, 2, 3, 5, 8, 12))
    gossip = rng.choice((1, 2, 4, 8)) if rounds > 1 and rng.random() < 0.4 else 0
    inertia = Inertia()
    if rng.random() < 0.4:
        # Where cores are shared, those that a module keeps for a while may be missing elsewhere.
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
    """Waiting times with which a step in which nothing fails ends before its deadline."""
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
    if rng.random() < 0.6:  # in the others a step begins when the one before has hardly ended
        spare_us = int(deadline_us * rng.uniform(0.5, 2.0)) + skew_us
    return replace(
        options,
        resend_us=resend_us,
        tries=tries,
        deadline_us=deadline_us,
        step_us=deadline_us + spare_us,
    )


def _exchanges(graph: FlowGraph, options: ElasticityOptions) -> int:
    """So many messages, one after the other, a control step takes at most."""
    adding = options.gossip or 2 * lowest_tree(graph).height
    return options.rounds * (graph.diameter + adding + 1) + graph.diameter


def _widest(graph: FlowGraph, gossip: int) -> int:
    """So many messages, one after the other, somebody waits for at most."""
    return graph.diameter + 2 * lowest_tree(graph).height + gossip + 2


# --- what happens -------------------------------------------------------------------------------------


def _draw_loads(rng: Random, drawn: Schedule) -> dict[int, dict[str, Measured]]:
    """In every step some agents hear of another load; in calm ones all hear of the true one."""
    game, found = drawn.game, {}
    for step in range(1, drawn.steps + 1):
        calm = step > drawn.faulty
        told: dict[str, Measured] = {}
        for name, module in game.modules.items():
            every_s = running_s = None
            if name == game.graph.source and drawn.every_s is not None:
                every_s = drawn.every_s * (1.0 if calm else rng.uniform(0.3, 3.0))
            if not _is_virtual(game, name):
                # What is known of a node holds as long as tasks take what they took when it was told.
                other = not calm and not drawn.nodes
                running_s = module.service.running_s * (rng.uniform(0.7, 1.4) if other else 1.0)
            if calm or rng.random() < 0.6:
                told[name] = Measured(running_s, every_s)
        found[step] = told
    return found


def _draw_faults(rng: Random, drawn: Schedule) -> tuple[Fault, ...]:
    """Some of each kind, or none at all."""
    if rng.random() < 0.1:
        return ()
    kinds = [Kind.CRASH] * rng.randint(0, 4) + [Kind.PAUSE] * rng.randint(0, 3)
    kinds += [Kind.CUT] * rng.randint(0, 4)
    if drawn.extra_us:
        kinds += [Kind.SLOW] * rng.randint(1, 3)
    faults = [_draw_fault(rng, drawn, kind) for kind in kinds]
    return tuple(sorted(faults, key=lambda fault: fault.at_us))


def _draw_fault(rng: Random, drawn: Schedule, kind: Kind) -> Fault:
    at_us, until_us = _draw_times(rng, drawn)
    graph = drawn.game.graph
    if kind in (Kind.CRASH, Kind.PAUSE):
        return Fault(kind, at_us, until_us, rng.choice(graph.modules))
    here, there = rng.choice(list(graph.arcs))
    if rng.random() < 0.5:
        here, there = there, here
    if kind is Kind.CUT:
        return Fault(kind, at_us, until_us, here, there, one_way=rng.random() < 0.2)
    return Fault(kind, at_us, until_us, here, there, True, rng.randint(1, drawn.extra_us))


def _draw_times(rng: Random, drawn: Schedule) -> tuple[int, int]:
    """From when to when: some whole control steps, a part of one, or a moment of it."""
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
    return at_us, min(until_us, drawn.heals_us)
