"""`australis bench contracts`: the speed and the scale of simulated contracts.

The sixteen hundred runs of the thesis' figure 7-1; one run of a million participants; and the same
run of 995 participants on arrays and as a process for each participant in simpy, which must end
with the same loads (the comparison uses CPU time, which other load hardly affects).
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from australis.kernel.errors import Stopped
from research.bench import simpy_contracts
from research.bench.failover import target_lines
from research.thesis_contracts.arrays.instance import simulate
from research.thesis_contracts.arrays.variants import Configuration, Variant, figure_7_1, run_all

MILLION = 1_000_000
CONTRACTS = 10
LEVEL = 0.75
LIMIT_S = 60.0
LIMIT_MB = 4096
TIMES = 50
"""The required ratio of speeds, compared with simpy."""
COMPARED = Configuration(Variant.UNIFORM_RANGE, LEVEL, 3, 0)

Say = Callable[[str], None]
Done = Callable[[int, int], None]
"""Receives the number of runs done, and the total."""


def measure(rounds: int, million: bool, say: Say, done: Done) -> dict[str, Any]:
    """Run all three parts."""
    import_module("simpy")  # a missing library is reported before anything is measured
    say("compiling")
    simulate(COMPARED.instance())
    figure = _figure(done)
    say(f"figure 7-1: {figure['runs']:,} runs in {figure['seconds']:.1f} s")
    ratios = _against_simpy(rounds, say)
    result: dict[str, Any] = {
        "bench": "contracts",
        "figure_7_1": figure,
        "simpy": ratios,
        "targets": [
            _at_most("1,600 runs of figure 7-1, s", figure["seconds"], LIMIT_S),
            {
                "name": "times as fast as simpy",
                "value": ratios["ratio"],
                "min": TIMES,
                "ok": ratios["ratio"] >= TIMES,
            },
        ],
    }
    if million:
        say("a million participants")
        large = result["million"] = _apart()
        result["targets"] += [
            _at_most("a million participants, s", large["seconds"], LIMIT_S),
            _at_most("a million participants, MB", large["memory_mb"], LIMIT_MB),
            _at_most("a million participants, tasks misplaced", large["excess"], 0),
        ]
    return result


def _at_most(name: str, value: float, most: float) -> dict[str, Any]:
    return {"name": name, "value": value, "max": most, "ok": value <= most}


def _figure(done: Done) -> dict[str, Any]:
    every = list(figure_7_1())
    began = time.perf_counter()
    run_all(
        every,
        lambda one: one.misplaced(simulate(one.instance())),
        lambda count: done(count, len(every)),
    )
    return {"runs": len(every), "seconds": time.perf_counter() - began}


def _against_simpy(rounds: int, say: Say) -> dict[str, Any]:
    instance = COMPARED.instance()
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(1, rounds + 1):
        began = time.process_time()
        found = simulate(instance)
        ours.append(time.process_time() - began)
        began = time.process_time()
        loads = simpy_contracts.simulate(instance)
        theirs.append(time.process_time() - began)
        if not np.array_equal(found.load, loads):
            raise Stopped("the two simulators disagree: they do not do the same")
        say(f"round {number}: arrays {ours[-1]:.3f} s, simpy {theirs[-1]:.2f} s")
    ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
    return {
        "participants": len(instance.load),
        "ours_s": statistics.median(ours),
        "simpy_s": statistics.median(theirs),
        "ratio": ratio,
    }


def _apart() -> dict[str, Any]:
    """Run the large run in its own process, to measure its memory alone."""
    command = [sys.executable, "-m", "research.bench.contracts"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Stopped(f"the large run failed: {''.join(done.stderr.strip().splitlines()[-1:])}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def large() -> dict[str, Any]:
    """One run of a million participants, from drawing its graph to the last movement."""
    small = Configuration(Variant.UNIFORM_RANGE, LEVEL, CONTRACTS, 0, 100)
    simulate(small.instance())  # compile first
    began = time.perf_counter()
    configuration = Configuration(Variant.UNIFORM_RANGE, LEVEL, CONTRACTS, 0, MILLION)
    outcome = simulate(configuration.instance())
    return {
        "seconds": time.perf_counter() - began,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "excess": outcome.excess,
        "movements": outcome.movements,
        "tasks_moved": outcome.tasks,
        "messages": outcome.messages,
        "simulated_s": outcome.last_us / 1e6,
    }


def table(result: dict[str, Any]) -> str:
    """The result as a table."""
    simpy = result["simpy"]
    lines = [
        f"figure 7-1: {result['figure_7_1']['runs']:,} runs of 995 participants in"
        f" {result['figure_7_1']['seconds']:.1f} s",
        f"one run of {simpy['participants']} participants: {simpy['ours_s']:.3f} s;"
        f" simpy, a process each: {simpy['simpy_s']:.2f} s",
    ]
    if "million" in result:
        large = result["million"]
        lines.append(
            f"{MILLION:,} participants with {CONTRACTS} contracts at least: {large['seconds']:.1f} s,"
            f" {large['memory_mb']:,.0f} MB, {large['movements']:,} movements of"
            f" {large['tasks_moved']:,} tasks, {large['excess']} misplaced in the end"
        )
    return "\n".join([*lines, *target_lines(result["targets"])])


if __name__ == "__main__":
    sys.stdout.write(json.dumps(large()) + "\n")
