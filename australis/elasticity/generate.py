"""The paper's application, and random games."""

from __future__ import annotations

from math import ceil
from random import Random

from australis.elasticity.cost import Module
from australis.elasticity.game import Game
from australis.elasticity.graph import FlowGraph
from australis.elasticity.service import Ideal, Saturating, ServiceTime, WithMinimum
from australis.kernel.errors import UserError

FARTHER = 0.2
"""The fraction of a random graph's modules with an input that skips a layer."""
TYPICAL_S = 0.5
"""The time between two tasks in the paper's application."""


def object_recognition() -> Game:
    """Five modules that recognise objects in images (games figure 10, table III).

    >>> {name: round(m.ideal_degree(), 1) for name, m in object_recognition().modules.items()}
    {'dispatcher': 1.0, 'denoiser-1': 8.0, 'denoiser-2': 8.0, 'edge-detector': 14.8, 'recognizer': 20.2}
    """
    modules = (
        Module("dispatcher", Ideal(0.1), 0.5, 4.83e-3, 1),
        Module("denoiser-1", Ideal(2.48), 0.5, 4.83e-3, 8),
        Module("denoiser-2", Ideal(3.66), 0.5, 4.83e-3, 8),
        Module("edge-detector", Ideal(7.80), 0.5, 1.77e-2, 32),
        Module("recognizer", Ideal(14.44), 0.5, 1.77e-2, 32),
    )
    names = [module.name for module in modules]
    dispatcher, one, two, edges, recognizer = names
    arcs = {
        (dispatcher, one): 0.5,
        (dispatcher, two): 0.5,
        (one, edges): 1.0,
        (two, edges): 1.0,
        (edges, recognizer): 1.0,
    }
    return Game.of(FlowGraph(names, arcs), *modules)


def random_graph(size: int, rng: Random, joins: int = 2, width: int = 8) -> FlowGraph:
    """A number of modules behind one source, in layers of at most `width` modules.

    Each gets tasks from up to `joins` modules of the preceding layer, and some also from the layer
    before that. No task leaves before the last layer, so that the load of later modules does not
    vanish.

    >>> graph = random_graph(1_000, Random(1))
    >>> len(graph.modules), min(graph.ratios.values()) > 0.001
    (1000, True)
    """
    if size < 1:
        raise UserError(f"should have at least one module, not {size}", name="graph")
    layers = _layers([f"m{n}" for n in range(size)], rng, width)
    weights: dict[str, dict[str, float]] = {name: {} for layer in layers for name in layer}
    for at, layer in enumerate(layers[1:], 1):
        before = layers[at - 1]
        for name in layer:
            sources = rng.sample(before, min(len(before), rng.randint(1, joins)))
            if at > 1 and rng.random() < FARTHER:
                sources.append(rng.choice(layers[at - 2]))
            for source in sources:
                weights[source][name] = rng.uniform(0.2, 1.0)
        for source in before:
            if not weights[source]:
                weights[source][rng.choice(layer)] = 1.0
    arcs = {
        (here, there): weight / sum(onward.values())
        for here, onward in weights.items()
        for there, weight in onward.items()
    }
    return FlowGraph(weights, arcs)


def _layers(names: list[str], rng: Random, width: int) -> list[list[str]]:
    """The source alone, then layers of random size."""
    layers, rest = [names[:1]], names[1:]
    while rest:
        many = rng.randint(1, width)
        layers.append(rest[:many])
        rest = rest[many:]
    return layers


def random_service(rng: Random, kinds: str = "abc") -> ServiceTime:
    """A random service time of one of the kinds in figure 3."""
    running_s = rng.uniform(0.05, 15.0)
    kind = rng.choice(kinds)
    if kind == "a":
        return Ideal(running_s)
    fastest = rng.uniform(1.0, 40.0)
    return Saturating(running_s, fastest) if kind == "b" else WithMinimum(running_s, fastest)


def random_game(size: int, rng: Random, kinds: str = "a", width: int = 8) -> Game:
    """A game with prices and times like those of table III, and service times of these kinds.

    The limit of each module is at least enough for a task every half second, and up to twice or a
    hundred times that: in some games limits matter, in others only prices do.
    """
    graph = random_graph(size, rng, width=width)
    spare = rng.choice((2.0, 100.0))
    modules = []
    for name, ratio in graph.ratios.items():
        service = random_service(rng, kinds)
        enough = service.running_s * ratio / TYPICAL_S
        modules.append(
            Module(
                name,
                service,
                rng.uniform(0.2, 1.0),
                rng.uniform(0.003, 0.03),
                ceil(enough * rng.uniform(1.0, spare)),
                fixed=rng.choice((0.0, 0.01)),
            )
        )
    return Game.of(graph, *modules)
