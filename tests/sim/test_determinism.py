"""A run depends on its seed alone: not on the process, and not on how Python hashes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SEEDS = 50
PROGRAM = """
from dataclasses import replace
from australis.kernel.trace import Trace
from australis.sim.dpc.presets import draw
from australis.sim.dpc.run import Run

for seed in range({seeds}):
    trace = Trace(keep=0)
    short = replace(draw("swarm", seed), safety_us={safety_us}, liveness_us=0)
    outcome = Run(short, trace).execute()
    print(seed, trace.length, trace.digest, outcome.simulated_us)
"""


def start(hash_seed: str) -> subprocess.Popen[str]:
    program = PROGRAM.format(seeds=SEEDS, safety_us=40_000_000)
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True
    )


def test_the_same_seed_is_the_same_run_in_another_process() -> None:
    runs = [start("1"), start("2")]
    first, second = ([*run.communicate()[0].splitlines()] for run in runs)
    assert [run.returncode for run in runs] == [0, 0]
    assert len(first) == SEEDS
    differing = [a for a, b in zip(first, second, strict=True) if a != b]
    assert not differing
    digests = {line.split()[2] for line in first}
    assert len(digests) == SEEDS, "other seeds are other runs"
