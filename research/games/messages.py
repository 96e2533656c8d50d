"""The number of messages, and the accuracy of sums by gossip (games figure 17, tables I, II)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log, log2
from random import Random
from statistics import fmean

from australis.elasticity.cost import Module
from australis.elasticity.game import Game
from australis.elasticity.generate import object_recognition, random_graph
from australis.elasticity.gossip import push_sum
from australis.elasticity.graph import FlowGraph
from australis.elasticity.incentives import cooperate
from australis.elasticity.service import Ideal
from australis.protocols.elasticity.events import ElasticityOptions, Measured
from australis.sim.elasticity.simulation import ElasticitySimulation
from research.claims import Claim, Picture, Progress, Result, Source, Table, own_claim
from research.games.runs import DEVIATIONS
from research.games.trial import ROUNDS, repetition
from research.games.workloads import WORKLOADS
from research.plots import Plot, Series
from research.predicates import at_most, each, exactly, falling, rising

ITERATIONS = (1, 2, 3, 5, 7, 10, 15, 20, 30)
GOSSIP = 15
NEAR = 0.02
FIGURE_10 = 30
SIZES = (5, 10, 20, 40, 80)
QUICK_SIZES = (5, 10, 20)
STRATEGIES = {
    "selfish": ElasticityOptions(newest=1.0),
    "with incentives, tree": ElasticityOptions(newest=1.0, rounds=ROUNDS),
    "with incentives, gossip": ElasticityOptions(newest=1.0, rounds=ROUNDS, gossip=GOSSIP),
}


class GamesMessages:
    """Agents that exchange messages with their neighbours, and the number of messages."""

    name = "games-messages"
    description = "Messages a control step by strategy and size of the graph; error of gossip."
    reproduces = "games figure 17, tables I and II"
    duration = "1 min, quick 10 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Run every second step of each load; with `quick` every fiftieth, and smaller graphs."""
        errors = _errors()
        counts = {}
        for workload in WORKLOADS:
            load = repetition(workload, 0)[:: 50 if quick else 2]
            for name, options in STRATEGIES.items():
                progress(f"{workload.name}, {name}")
                counts[workload.name, name] = _count(load, options)
        progress("larger graphs")
        grown = [
            _grown(kind, make, size)
            for kind, make in GRAPHS.items()
            for size in (QUICK_SIZES if quick else SIZES)
        ]
        return Result(
            (*_claims(errors, counts), *_growth_claims(grown)),
            (_error_table(errors), _count_table(counts), _growth_table(grown)),
            (
                *DEVIATIONS[:1],
                "The paper counts a step with gossip as rounds times the exchanges of both; ours has"
                " one more exchange in which agents say that a step has ended.",
            ),
            (_picture(errors),),
        )


# --- gossip -----------------------------------------------------------------------------------------


def _errors() -> dict[int, tuple[float, float]]:
    """The mean and the largest relative error of all modules, by the number of exchanges."""
    game = object_recognition()
    found: dict[int, list[float]] = {n: [] for n in ITERATIONS}
    for every_s in (0.3, 0.45, 0.6, 0.8):
        costs = game.arriving(every_s).costs(cooperate(game.arriving(every_s)).profile.degrees)
        total = sum(costs.values())
        for n, errors in found.items():
            told = push_sum(game.graph, costs, n)
            errors += [abs(value / total - 1) for value in told.values()]
    return {n: (fmean(errors), max(errors)) for n, errors in found.items()}


def _error_table(errors: dict[int, tuple[float, float]]) -> Table:
    rows = tuple((n, f"{mean:.4%}", f"{most:.4%}") for n, (mean, most) in errors.items())
    return Table("Error of local push-sum on figure 10", ("exchanges", "mean", "largest"), rows)


def _picture(errors: dict[int, tuple[float, float]]) -> Picture:
    series = [
        Series("largest", tuple((n, most * 100) for n, (_, most) in errors.items())),
        Series("mean", tuple((n, mean * 100) for n, (mean, _) in errors.items())),
    ]
    return Picture("gossip", Plot("Error of local push-sum", "exchanges", "percent", series))


# --- messages of a step ----------------------------------------------------------------------------------


def _count(load: list[float], options: ElasticityOptions) -> tuple[float, float]:
    """The mean number of messages and rounds per step."""
    game = object_recognition()
    floor = ElasticitySimulation(game.arriving(load[0]), options)
    for every_s in load:
        floor.tell(game.graph.source, Measured(every_s=every_s))
        floor.run()
    told = floor.hosts[game.graph.source].settled
    return sum(floor.messages.values()) / len(load), fmean(one.rounds for one in told)


def _claims(
    errors: dict[int, tuple[float, float]], counts: dict[tuple[str, str], tuple[float, float]]
) -> list[Claim]:
    selfish, tree, gossip = (
        [counts[workload.name, name][0] for workload in WORKLOADS] for name in STRATEGIES
    )
    return [
        Claim(
            f"Error of a sum after {GOSSIP} exchanges, the largest",
            errors[GOSSIP][1],
            at_most(NEAR),
            "about 2%",
        ),
        own_claim(
            "Exchanges more always make the largest error smaller (the last one)",
            [errors[n][1] for n in ITERATIONS],
            falling(),
            shown=float(f"{errors[ITERATIONS[-1]][1]:.3g}"),
        ),
        Claim(
            "Messages of a selfish step on figure 10: D times 2 |A|",
            selfish,
            each(exactly(FIGURE_10)),
            FIGURE_10,
        ),
        Claim(
            "Messages a step: selfish, with incentives by tree, by gossip (cyclic; trend; rwalk)",
            list(zip(selfish, tree, gossip, strict=True)),
            each(rising()),
            "gossip most, selfish much fewer",
            shown="; ".join(
                f"{a:.0f} {b:.0f} {c:.0f}" for a, b, c in zip(selfish, tree, gossip, strict=True)
            ),
        ),
    ]


def _count_table(counts: dict[tuple[str, str], tuple[float, float]]) -> Table:
    rows = tuple(
        (load, name, round(messages, 1), round(rounds, 2))
        for (load, name), (messages, rounds) in counts.items()
    )
    return Table("Messages and rounds a step", ("load", "strategy", "messages", "rounds"), rows)


# --- growth of messages ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Grown:
    """A graph, and the messages of one control step."""

    kind: str
    modules: int
    arcs: int
    diameter: int
    selfish: int
    rounds: int
    tree: int

    @property
    def order(self) -> float:
        """The growth of messages according to tables I and II."""
        return self.modules**2 * (log(self.modules) if self.kind == "dense" else 1)


def _chain(size: int) -> FlowGraph:
    """The sparsest graph: a chain."""
    names = [f"m{n}" for n in range(size)]
    return FlowGraph(names, dict.fromkeys(pairwise(names), 1.0))


def _dense(size: int) -> FlowGraph:
    """A source and about log m layers; every module sends to all modules of the next layer."""
    names = [f"m{n}" for n in range(size)]
    wide = ceil((size - 1) / max(1, round(log2(size))))
    layers = [names[:1], *(names[n : n + wide] for n in range(1, size, wide))]
    arcs = {
        (here, there): 1 / len(after)
        for before, after in pairwise(layers)
        for here in before
        for there in after
    }
    return FlowGraph(names, arcs)


GRAPHS: dict[str, Callable[[int], FlowGraph]] = {
    "sparse": _chain,
    "dense": _dense,
    "in layers": lambda size: random_graph(size, Random(size)),
}


def _grown(kind: str, make: Callable[[int], FlowGraph], size: int) -> Grown:
    graph = make(size)
    modules = [
        Module(name, Ideal(1.0 + n % 7), 0.5, 0.01, 64) for n, name in enumerate(graph.modules)
    ]
    game = Game.of(graph, *modules)
    alone = ElasticitySimulation(game, ElasticityOptions(newest=1.0))
    alone.run()
    together = ElasticitySimulation(game, ElasticityOptions(newest=1.0, rounds=5))
    together.run()
    told = next(iter(together.hosts.values())).settled[-1]
    return Grown(
        kind,
        size,
        len(graph.arcs),
        graph.diameter,
        sum(alone.messages.values()),
        told.rounds,
        sum(together.messages.values()),
    )


def _growth_claims(found: list[Grown]) -> list[Claim]:
    claims = [
        own_claim(
            "Graphs in which a selfish step has exactly D times 2 |A| messages",
            sum(one.selfish == one.diameter * 2 * one.arcs for one in found),
            exactly(len(found)),
        )
    ]
    for kind, order in (("sparse", "m²"), ("dense", "m² log m")):
        for what in ("selfish", "tree"):
            parts = [
                getattr(one, what) / one.order / (one.rounds if what == "tree" else 1)
                for one in found
                if one.kind == kind
            ]
            claims.append(
                Claim(
                    f"Messages over {order}, {kind} graphs, {what}: as graphs grow (tolerated: times"
                    " that of the smallest)",
                    [part / parts[0] for part in parts[1:]],
                    each(at_most(2)),
                    f"O({order})" if what == "selfish" else f"O(R {order})",
                    Source.TABLE,
                    " ".join(f"{part:.2f}" for part in parts),
                )
            )
    return claims


def _growth_table(found: list[Grown]) -> Table:
    rows = tuple(
        (o.kind, o.modules, o.arcs, o.diameter, o.selfish, o.rounds, o.tree) for o in found
    )
    columns = ("graph", "modules", "arcs", "diameter", "selfish", "rounds", "with incentives")
    return Table("Messages of one control step", columns, rows)


EXPERIMENT = GamesMessages()
