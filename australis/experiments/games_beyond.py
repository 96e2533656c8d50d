"""Elasticity beyond the paper: large graphs, lost messages, other prices, shared nodes, rivals."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from statistics import fmean

from australis.elasticity.equilibrium import (
    best_equilibrium,
    integer_optimum,
    social_optimum,
)
from australis.elasticity.game import Game
from australis.elasticity.generate import random_game
from australis.elasticity.incentives import cooperate
from australis.elasticity.rounding import whole_cores
from australis.elasticity.shared import Node, sharing
from australis.elasticity.workloads import RANDOM_WALK, STEPS
from australis.experiments.claims import Claim, Progress, Result, Table, own_claim
from australis.experiments.games_runs import DEVIATIONS, many
from australis.protocols.elasticity.events import ElasticityOptions
from australis.sim.elasticity.compare import OURS, RIVALS, THRESHOLDS, Beside, beside, priced
from australis.sim.elasticity.floor import Floor
from australis.sim.elasticity.trial import BUFFER, Worked, repetition, with_queues
from australis.sim.network import Link

SIZES = (5, 20, 100, 300, 1_000)
QUICK_SIZES = (5, 20, 100)
GAMES = 20
QUICK_GAMES = 5
ROUNDS = 2_000
INCREMENT = 0.05
NEAR = 1.05
LOSS = 0.05
EXACT = 1e-9
UNLIMITED = 1_000_000
PRICES = (1.0, 10.0)
"""How many times table III cores cost."""
DEAR = 10.0
"""So many times table III cores cost where steps of incentives matter."""
CLOSE = (0.1, 0.5, 0.9, 0.99, 0.999, 1.0)
"""Steps of incentives, parts of a core's price: the last one is all of it."""
ON_A_NODE = 4
QUEUED = (
    "cooperative, estimated",
    "selfish, estimated",
    "true rates (DS2)",
    "target 0.7 (Flink)",
    "static, peak",
    "static, mean",
)


class GamesBeyond:
    """What the paper leaves out."""

    name = "games-beyond"
    description = "Random graphs, lost messages, unequal prices, shared nodes, and rivals."
    reproduces = "nothing in the paper"
    duration = "1 min, quick 15 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Everything; with `quick` fewer and smaller graphs, and one repetition of each load."""
        games = range(QUICK_GAMES if quick else GAMES)
        sizes = [
            Size(what, tuple(many(partial(_one, size, spread, free), games, progress, what)))
            for what, size, spread, free in _kinds(QUICK_SIZES if quick else SIZES)
        ]
        lossy = many(_lossy, games, progress, "5 % lost")
        shared = many(_shared, games, progress, "shared nodes")
        close = [_close(increment) for increment in CLOSE]
        rivals = {}
        for factor in PRICES:
            progress(f"rivals, cores at {factor:g} times the price")
            rivals[factor] = beside(range(1 if quick else 5), factor)
        steps = STEPS // 10 if quick else STEPS
        queued = many(partial(_queued, steps), QUEUED, progress, "rivals task by task")
        return Result(
            (
                *_size_claims(sizes),
                *_lossy_claims(lossy),
                *_shared_claims(shared),
                *_rival_claims(rivals),
            ),
            (
                _size_table(sizes),
                _lossy_table(lossy),
                _shared_table(shared),
                _close_table(close),
                *(_rival_table(factor, found) for factor, found in rivals.items()),
                _queue_table(queued),
            ),
            (
                DEVIATIONS[0],
                "Prices and times of random graphs are like those of table III. Tasks come at 0.3 to 1.7"
                " times the pace of the best equilibrium. With limits the slowest of many modules is"
                " slow whatever anybody pays, and the price of stability is next to 1.",
                "Rivals decide by the same measurements, with the same averages where they take any."
                f" Threshold scaling has the best of {len(THRESHOLDS)} settings for these loads.",
                "With the prices of table III keeping up with what comes is best, and DS2, which knows no"
                " prices, decides the same as modules that cooperate but where somebody is at its limit:"
                " there it gives the others cores that change nothing.",
            ),
        )


# --- random graphs ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OneGame:
    """One random game."""

    stability: float
    """The best equilibrium, times the social optimum,"""
    selfish: float
    """with whole cores, times the integer optimum,"""
    cooperative: float
    """and with incentives."""
    rounds: int
    step_ms: float


@dataclass(frozen=True)
class Size:
    """Random games of one kind and size."""

    what: str
    games: tuple[OneGame, ...]

    def mean(self, what: str) -> float:
        """Of a figure of all games."""
        return fmean(getattr(game, what) for game in self.games)

    def most(self, what: str) -> float:
        """Of all games."""
        return float(max(getattr(game, what) for game in self.games))


def made(size: int, seed: int, spread: float = 1.0, free: bool = False) -> Game:
    """A random game with arrivals, and prices that differ by up to such a factor both ways.

    Modules have service times like figures 3a to 3c and limits; or, if they are `free`, as many cores as
    they like, each worth as much as the first: then nothing but prices and arrivals matters.
    """
    rng = Random(f"{size} {seed} {spread}")
    game = random_game(size, rng, "a" if free else "abc")
    modules = {
        name: replace(
            module,
            core_price=module.core_price * spread ** rng.uniform(-1, 1),
            delay_price=module.delay_price * spread ** rng.uniform(-1, 1),
            most=UNLIMITED if free else module.most,
        )
        for name, module in game.modules.items()
    }
    game = Game(game.graph, modules)
    return game.arriving(best_equilibrium(game).pace_s * rng.uniform(0.3, 1.7))


def _one(size: int, spread: float, free: bool, seed: int) -> OneGame:
    game = made(size, seed, spread, free)
    began = time.process_time()
    played = cooperate(game, INCREMENT, ROUNDS)
    cores = whole_cores(game, played.profile.degrees)
    took_ms = (time.process_time() - began) * 1e3
    alone = whole_cores(game, played.first.degrees)
    best = integer_optimum(game).cost
    return OneGame(
        played.first.cost / social_optimum(game).cost,
        game.total(alone) / best,
        game.total(cores) / best,
        played.rounds,
        took_ms,
    )


def _kinds(sizes: Sequence[int]) -> list[tuple[str, int, float, bool]]:
    """What is played: its name, modules, how much prices differ, whether cores are free to take."""
    return [
        *((f"{size:,} modules, with limits", size, 1.0, False) for size in sizes),
        *((f"{size:,} modules, prices alone", size, 1.0, True) for size in sizes),
        ("50 modules, prices differ a hundredfold", 50, 10.0, True),
    ]


def _size_claims(sizes: list[Size]) -> list[Claim]:
    worst = max(sizes, key=lambda size: size.mean("cooperative"))
    games = [game for size in sizes for game in size.games]
    least = min(game.stability for game in games)
    return [
        own_claim(
            f"Cost with incentives, whole cores, times the integer optimum: the worst mean"
            f" ({worst.what})",
            worst.mean("cooperative"),
            worst.mean("cooperative") <= NEAR,
            f"≤ {NEAR:g}",
        ),
        own_claim(
            f"Price of stability: the least of {len(games)} random games",
            least,
            least >= 1 - EXACT,
            "≥ 1, as it is defined",
        ),
    ]


def _size_table(sizes: list[Size]) -> Table:
    rows = tuple(
        (
            size.what,
            len(size.games),
            round(size.mean("stability"), 3),
            round(size.most("stability"), 3),
            round(size.mean("selfish"), 3),
            round(size.mean("cooperative"), 4),
            round(size.most("cooperative"), 4),
            round(size.mean("rounds")),
            round(size.mean("step_ms"), 2),
        )
        for size in sizes
    )
    columns = (
        *("graphs", "games", "price of stability", "most", "selfish", "cooperative", "most"),
        *("rounds", "ms a step"),
    )
    return Table("Random graphs: cost with whole cores, times the integer optimum", columns, rows)


# --- lost messages --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lossy:
    """Agents that lose messages, beside the central solution."""

    apart: float
    more: float
    """Messages, times those without loss."""
    ended_s: float
    """How long the longest step took."""


def _lossy(seed: int) -> Lossy:
    game = made(20, seed)
    options = ElasticityOptions(newest=1.0, rounds=10, gossip=0)
    quiet = Floor(game, options, seed=seed)
    quiet.run(3)
    floor = Floor(game, options, Link(loss=LOSS), seed)
    floor.run(3)
    known = cooperate(game, rounds=10).profile.degrees
    apart = max(abs(n / known[name] - 1) for name, n in floor.degrees().items() if known[name])
    took = max(
        (at % options.step_us) / 1e6 for host in floor.hosts.values() for at in host.ended_us
    )
    more = sum(floor.messages.values()) / sum(quiet.messages.values())
    return Lossy(apart, more, took)


def _lossy_claims(found: list[Lossy]) -> list[Claim]:
    right = sum(one.apart <= EXACT for one in found)
    return [
        own_claim(
            f"Games of 20 modules that end at the central solution with {LOSS:.0%} of messages lost",
            right,
            right == len(found),
            f"all {len(found)}",
        )
    ]


def _lossy_table(found: list[Lossy]) -> Table:
    columns = ("games", "largest difference", "messages, times those without", "longest step (s)")
    row = (
        len(found),
        max(one.apart for one in found),
        round(fmean(one.more for one in found), 3),
        round(max(one.ended_s for one in found), 2),
    )
    return Table(f"{LOSS:.0%} of all messages lost", columns, (row,))


# --- shared nodes -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SharedCores:
    """Modules on nodes whose cores they share."""

    over: int
    """Nodes with more cores in use than they have."""
    apart: float
    """Agents beside the central solution, before rounding."""
    optimum: float
    """Cost, times the integer optimum,"""
    free: float
    """and times what it would be if nodes had as many cores as are wanted."""


def nodes_of(game: Game, rng: Random, tight: float) -> list[Node]:
    """Modules put on nodes at random, which have such a part of the cores that are wanted."""
    names = list(game.graph.modules)
    rng.shuffle(names)
    wanted = whole_cores(game, social_optimum(game).degrees)
    groups = [names[n : n + ON_A_NODE] for n in range(0, len(names), ON_A_NODE)]
    return [
        Node(
            f"node-{n}",
            max(len(group), round(tight * sum(wanted[name] for name in group))),
            tuple(group),
        )
        for n, group in enumerate(groups)
    ]


def _shared(seed: int) -> SharedCores:
    rng = Random(seed)
    game = made(20, seed)
    nodes = nodes_of(game, rng, rng.uniform(0.4, 1.1))
    held = sharing(game, nodes)
    played = cooperate(held, INCREMENT, ROUNDS)
    cores = whole_cores(held, played.profile.degrees)
    over = sum(sum(cores[name] for name in node.modules) > node.cores for node in nodes)
    floor = Floor(held, ElasticityOptions(newest=1.0))
    floor.run()
    first = played.first.degrees
    apart = max(abs(n / first[name] - 1) for name, n in floor.degrees().items() if first[name])
    best = integer_optimum(held).cost
    cost = held.total(cores)
    return SharedCores(over, apart, cost / best, cost / integer_optimum(game).cost)


def _shared_claims(found: list[SharedCores]) -> list[Claim]:
    over = sum(one.over for one in found)
    apart = max(one.apart for one in found)
    cost = fmean(one.optimum for one in found)
    return [
        own_claim("Nodes with more cores in use than they have", over, over == 0, "none"),
        own_claim(
            "Agents on shared nodes: largest difference to the central solution",
            apart,
            apart <= EXACT,
            f"≤ {EXACT:g}",
        ),
        own_claim(
            "Cost on shared nodes, times the integer optimum, mean",
            cost,
            cost <= NEAR,
            f"≤ {NEAR:g}",
        ),
    ]


def _shared_table(found: list[SharedCores]) -> Table:
    columns = ("games", "cost, times the optimum", "most", "times that without nodes", "most")
    row = (
        len(found),
        round(fmean(one.optimum for one in found), 4),
        round(max(one.optimum for one in found), 4),
        round(fmean(one.free for one in found), 3),
        round(max(one.free for one in found), 3),
    )
    return Table(f"Nodes that {ON_A_NODE} of 20 modules share", columns, (row,))


# --- incentives close to the price ------------------------------------------------------------------------


@dataclass(frozen=True)
class Close:
    """A step of incentives, and what comes of it with a task every 0.3 s."""

    increment: float
    cost: float
    """Times the social optimum."""
    rounds: int
    cores: int


def _close(increment: float) -> Close:
    game = priced(DEAR).arriving(0.3)
    played = cooperate(game, increment, ROUNDS)
    cores = whole_cores(game, played.profile.degrees)
    cost = played.profile.cost / social_optimum(game).cost
    return Close(increment, cost, played.rounds, cores["recognizer"])


def _close_table(found: list[Close]) -> Table:
    columns = ("step, part of a core's price", "cost, times the optimum", "rounds", "recognizer")
    rows = tuple((o.increment, round(o.cost, 4), o.rounds, o.cores) for o in found)
    return Table(
        f"Incentives close to the price of a core, which is {DEAR:g} times table III; a task every 0.3 s",
        columns,
        rows,
    )


# --- rivals ---------------------------------------------------------------------------------------------------


def _rival_claims(found: dict[float, list[Beside]]) -> list[Claim]:
    claims = []
    for factor, ways in found.items():
        cost = {way.name: way.cost for way in ways}
        ours = cost["cooperative, estimated"]
        others = {
            name: value
            for name, value in cost.items()
            if not name.startswith(("cooperative", "selfish", "integer"))
        }
        name, least = min(others.items(), key=lambda item: item[1])
        claims.append(
            own_claim(
                f"Cost with incentives, times the cheapest rival's ({name}), cores at {factor:g} times"
                " the price",
                ours / least,
                ours <= least,
                "≤ 1",
            )
        )
    return claims


def _rival_table(factor: float, ways: list[Beside]) -> Table:
    columns = ("strategy", "cost, times the optimum", "tasks lost", "mean cores", "changes")
    rows = tuple(
        (way.name, round(way.cost, 4), f"{way.lost:.1%}", round(way.cores, 1), round(way.changes))
        for way in ways
    )
    return Table(
        f"All three loads, cores at {factor:g} times the price of table III", columns, rows
    )


def _queued(steps: int, name: str) -> tuple[str, Worked]:
    """One way on the random walk, by what queues measure."""
    load = repetition(RANDOM_WALK, 0)
    make, _ = (OURS | RIVALS)[name]
    return name, with_queues(make, load[:: len(load) // steps], 0)


def _queue_table(found: list[tuple[str, Worked]]) -> Table:
    ours = found[0][1]
    rows = tuple(
        (
            name,
            round(worked.cost, 1),
            round(ours.cost / worked.cost, 4),
            worked.completed,
        )
        for name, worked in found
    )
    columns = ("strategy", "cost", f"{found[0][0]}, part of that", "completed")
    return Table(f"rwalk task by task, queues of {BUFFER}", columns, rows)


EXPERIMENT = GamesBeyond()
