"""`australis bench elasticity`: the duration and the cost of decisions, beside rivals.

One control step with 5, 50 and 1,000 modules: decided centrally, and by agents that exchange
messages, all of them in one process. Then all repetitions of the paper's table V by the model, some
of them task by task. Last, the total cost beside each rival and the integer optimum.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import median
from typing import Any

from australis.elasticity.generate import random_game
from australis.elasticity.incentives import cooperate
from australis.elasticity.rounding import whole_cores
from australis.protocols.elasticity.events import ElasticityOptions
from australis.sim.elasticity.simulation import ElasticitySimulation
from research.bench.failover import target_lines
from research.games.compare import beside
from research.games.trial import (
    BUFFER,
    ROUNDS,
    cooperative,
    in_model,
    load_named,
    repetition,
    selfish,
    with_queues,
)
from research.games.workloads import WORKLOADS

SIZES = (5, 50, 1_000)
AGENTS_ROUNDS = 5
"""The largest number of rounds of agents: with a thousand of them a round is 600,000 messages."""
TRIES = 5
PRICES = (1.0, 10.0)
"""The factors on the core prices of table III."""
OURS = "cooperative, estimated"
WITHIN_S = 60.0
KNOWN = 1.01
ESTIMATED = 1.05

Say = Callable[[str], None]
Done = Callable[[int, int], None]


@dataclass(frozen=True)
class Step:
    """One control step."""

    modules: int
    central_ms: float
    """The time of the centralized decision, with incentives."""
    agents_ms: float
    """The time of all agents in one process, with incentives, along a tree."""
    messages: int
    each_ms: float
    """The share of one agent in that time."""
    selfish_ms: float
    """The time of all agents with the non-cooperative strategy."""
    selfish_messages: int


def measure(
    repetitions: int, queued: int, compared: int, say: Say = print, done: Done | None = None
) -> dict[str, Any]:
    """Run all three parts."""
    steps = []
    for size in SIZES:
        say(f"a control step of {size} modules")
        steps.append(_step(size))
    say(f"{repetitions} repetitions of table V by the model")
    model_s = _timed(_by_model, repetitions, done)
    say(f"{queued} repetitions task by task")
    queue_s = _timed(_by_queues, queued, done)
    say("rivals")
    ways = {factor: beside(range(compared), factor) for factor in PRICES}
    cost = {way.name: way.cost for way in ways[1.0]}
    targets = [
        _target(f"{repetitions} repetitions of table V by the model, s", model_s, WITHIN_S),
        _target(
            "cost, times the integer optimum, arrivals known",
            cost["cooperative, arrivals known"],
            KNOWN,
        ),
        _target(
            "cost, times the integer optimum, arrivals estimated",
            cost["cooperative, estimated"],
            ESTIMATED,
        ),
    ]
    return {
        "bench": "elasticity",
        "steps": [vars(step) for step in steps],
        "repetitions": repetitions,
        "model_s": model_s,
        "queued": queued,
        "queue_s": queue_s,
        "compared": compared,
        "ways": {f"{factor:g}": [vars(way) for way in found] for factor, found in ways.items()},
        "targets": targets,
    }


def _target(name: str, value: float, most: float) -> dict[str, Any]:
    return {"name": name, "value": value, "max": most, "ok": value <= most}


def _step(size: int) -> Step:
    game = random_game(size, Random(size)).arriving(0.5)
    began = time.perf_counter()
    for _ in range(TRIES):
        whole_cores(game, cooperate(game, rounds=ROUNDS).profile.degrees)
    central_ms = (time.perf_counter() - began) * 1e3 / TRIES
    agents_ms, messages = _agents(size, ElasticityOptions(newest=1.0, rounds=AGENTS_ROUNDS))
    selfish_ms, few = _agents(size, ElasticityOptions(newest=1.0))
    return Step(size, central_ms, agents_ms, messages, agents_ms / size, selfish_ms, few)


def _agents(size: int, options: ElasticityOptions) -> tuple[float, int]:
    """The time of one control step for all agents, and their messages."""
    game = random_game(size, Random(size)).arriving(0.5)
    took = []
    floor = ElasticitySimulation(game, options)
    for _ in range(1 if size > 100 else TRIES):
        floor.messages.clear()
        began = time.perf_counter()
        floor.run()
        took.append((time.perf_counter() - began) * 1e3)
    return median(took), sum(floor.messages.values())


def _timed(what: Callable[[str, int], float], repetitions: int, done: Done | None) -> float:
    """The time of some repetitions of all loads, on all cores."""
    began = time.perf_counter()
    with ProcessPoolExecutor(os.cpu_count() or 1) as pool:
        todo = [
            pool.submit(partial(what, workload.name, seed))
            for seed in range(repetitions)
            for workload in WORKLOADS
        ]
        for n, one in enumerate(todo, 1):
            one.result()
            if done is not None:
                done(n, len(todo))
    return time.perf_counter() - began


def _by_model(name: str, seed: int) -> float:
    load = repetition(load_named(name), seed)
    return in_model(selfish, load, seed).cost - in_model(cooperative, load, seed).cost


def _by_queues(name: str, seed: int) -> float:
    load = repetition(load_named(name), seed)
    return with_queues(selfish, load, seed).cost - with_queues(cooperative, load, seed).cost


def table(result: dict[str, Any]) -> str:
    """The result as a table."""
    lines = [
        f"one control step with incentives, central {ROUNDS} rounds at most, agents {AGENTS_ROUNDS};"
        " agents all in one process:",
        f"  {'modules':>7}{'central':>12}{'agents':>12}{'messages':>12}{'an agent':>12}"
        f"{'selfish':>12}{'messages':>12}",
    ]
    for step in result["steps"]:
        lines.append(
            f"  {step['modules']:>7,}{step['central_ms']:>9.2f} ms{step['agents_ms']:>9.1f} ms"
            f"{step['messages']:>12,}{step['each_ms']:>9.2f} ms{step['selfish_ms']:>9.1f} ms"
            f"{step['selfish_messages']:>12,}"
        )
    lines += [
        f"table V, both strategies, three loads of 600 steps: {result['repetitions']} repetitions by"
        f" the model in {result['model_s']:.1f} s; {result['queued']} task by task, queues of {BUFFER},"
        f" in {result['queue_s']:.1f} s",
    ]
    for factor, ways in result["ways"].items():
        lines += _beside(factor, ways, result["compared"])
    return "\n".join([*lines, *target_lines(result["targets"])])


def _beside(factor: str, ways: list[dict[str, Any]], compared: int) -> list[str]:
    ours = next(way["cost"] for way in ways if way["name"] == OURS)
    lines = [
        f"{compared} repetitions of all loads by the model, cores at {factor} times the price of table"
        " III:",
        f"  {'':<31}{'cost, times':>12}{'ours, part':>12}{'tasks':>8}",
        f"  {'':<31}{'the optimum':>12}{'of that':>12}{'lost':>8}{'cores':>8}{'changes':>9}",
    ]
    return lines + [
        f"  {way['name']:<31}{way['cost']:>12.4f}{ours / way['cost']:>12.4f}{way['lost']:>8.1%}"
        f"{way['cores']:>8.1f}{way['changes']:>9.0f}"
        for way in ways
    ]
