"""`australis bench placement`: ants beside the optimum, steepest descent and a solver.

The first part has a hundred random queries with a known optimum, compared with the ants' latency.
The second part has a growing number of tasks, in queries of ten: the time and the evaluations of
the queueing model that the ants need, and steepest descent for placements as good as theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Any

from australis.placement import generate
from australis.placement.model import Books, footprint
from australis.placement.network import Network
from australis.placement.queries import Query
from australis.sim.ants.simulation import SETTLE_S, AntsSimulation
from research.ants.search import descent, improve, optimum
from research.bench.failover import target_lines

INSTANCES = 100
SERVERS = 12
TASKS = (2, 6)
SIZES = (10, 50, 100, 150)
QUERY_TASKS = 10
MANY_SERVERS = 30
RATE = 10.0
STARTS = 3
NEAR = 1.05
FROM_TASKS = 50
"""The number of tasks from which ants should need less than steepest descent."""

Done = Callable[[int, int], None]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Size:
    """The outcome for one number of tasks."""

    tasks: int
    ants_s: float
    """The mean latency of the ants' placements."""
    solver_s: float
    descent_s: float
    ants_wall_s: float
    """The wall-clock time of a simulation of all servers."""
    ants_simulated_s: float
    """The simulated time."""
    ants_evaluations: int
    descent_wall_s: float
    descent_evaluations: int
    solver_wall_s: float
    reached: bool
    """Whether steepest descent reached placements as good."""


def measure(
    instances: int = INSTANCES, say: Say = print, done: Done | None = None
) -> dict[str, Any]:
    """Run both parts."""
    ratios, simulated = [], []
    for seed in range(instances):
        ratio, took = _one(seed)
        ratios.append(ratio)
        simulated.append(took)
        if done is not None:
            done(seed + 1, instances)
    sizes = []
    for tasks in SIZES:
        say(f"{tasks} tasks")
        sizes.append(_many(tasks))
    fewer = [s for s in sizes if s.tasks >= FROM_TASKS]
    evaluations = max(s.ants_evaluations / s.descent_evaluations for s in fewer)
    wall = max(s.ants_wall_s / s.descent_wall_s for s in fewer)
    beside = max(s.ants_s / s.solver_s for s in sizes)
    targets = [
        _target("latency, times the optimum, mean", fmean(ratios), NEAR),
        _target("latency, times the solver's, worst of all sizes", beside, NEAR),
        _target(
            f"evaluations, part of steepest descent's, from {FROM_TASKS} tasks", evaluations, 1
        ),
        _target(f"wall time, part of steepest descent's, from {FROM_TASKS} tasks", wall, 1),
    ]
    return {
        "bench": "placement",
        "instances": instances,
        "ratio": {"mean": fmean(ratios), "worst": max(ratios)},
        "placed_after_s": fmean(simulated),
        "sizes": [vars(size) for size in sizes],
        "targets": targets,
    }


def _target(name: str, value: float, most: float) -> dict[str, Any]:
    return {"name": name, "value": value, "max": most, "ok": value <= most}


def _one(seed: int) -> tuple[float, float]:
    """The latency of a query relative to the optimum, and the time until it was placed."""
    rng = Random(seed)
    network = generate.transit_stub(SERVERS, rng)
    query = generate.query("q", network, rng.randint(*TASKS), rng)
    colony = _placed(network, [query], seed)
    placement = colony.placements["q"]
    found = footprint(query, placement, network)
    assert found is not None
    empty = Books(network)
    _, best = optimum(query, empty, dict(placement.hosts))
    took_s = (colony.placed_us["q"] - colony.submitted_us["q"]) / 1e6
    return empty.cost_s(found) / best, took_s


def _placed(network: Network, queries: list[Query], seed: int) -> AntsSimulation:
    colony = AntsSimulation(network, seed)
    colony.settle()
    for query in queries:
        colony.submit(query)
    assert colony.run_until_placed()
    return colony


def _many(tasks: int) -> Size:
    rng = Random(tasks)
    network = generate.transit_stub(MANY_SERVERS, rng)
    queries = [
        generate.query(f"q{n}", network, QUERY_TASKS, rng, RATE)
        for n in range(tasks // QUERY_TASKS)
    ]
    began = time.perf_counter()
    colony = _placed(network, queries, tasks)
    ants_wall_s = time.perf_counter() - began
    ants_s = colony.books().mean_latency_s()
    began = time.perf_counter()
    _, total, evaluations = descent(
        queries, network, rng, STARTS, good_enough_s=ants_s * len(queries)
    )
    descent_wall_s = time.perf_counter() - began
    began = time.perf_counter()
    solver_s = _solved(colony, rng)
    return Size(
        tasks,
        ants_s,
        min(solver_s, ants_s, total / len(queries)),
        total / len(queries),
        ants_wall_s,
        max(colony.placed_us.values()) / 1e6 - SETTLE_S,
        colony.evaluations,
        descent_wall_s,
        evaluations,
        time.perf_counter() - began,
        total <= ants_s * len(queries),
    )


def _solved(colony: AntsSimulation, rng: Random) -> float:
    """The result of a local search that begins with the ants' placements."""
    books = colony.books()
    improve(books, rng, rounds=2, kicks=2)
    return books.mean_latency_s()


def table(result: dict[str, Any]) -> str:
    """The result as a table."""
    ratio = result["ratio"]
    lines = [
        f"{result['instances']} random queries of {TASKS[0]} to {TASKS[1]} tasks on {SERVERS} servers:"
        f" latency {ratio['mean']:.4f} times the optimum on average, {ratio['worst']:.3f} at worst;"
        f" placed after {result['placed_after_s']:.2f} s",
        f"queries of {QUERY_TASKS} tasks on {MANY_SERVERS} servers; mean latency, time and evaluations:",
        f"  {'tasks':>5}{'ants':>34}{'steepest descent':>44}{'solver':>20}",
    ]
    for s in result["sizes"]:
        reached = " as good" if s["reached"] else "   worse"
        lines.append(
            f"  {s['tasks']:>5}"
            f"{s['ants_s'] * 1e3:>9.2f} ms{s['ants_wall_s']:>8.1f} s{s['ants_evaluations']:>12,}"
            f"{s['descent_s'] * 1e3:>12.2f} ms{s['descent_wall_s']:>8.1f} s"
            f"{s['descent_evaluations']:>12,}{reached}"
            f"{s['solver_s'] * 1e3:>9.2f} ms{s['solver_wall_s']:>7.1f} s"
        )
    return "\n".join([*lines, *target_lines(result["targets"])])
