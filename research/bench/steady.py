"""`australis bench steady`: the growth of a cluster's memory and disk over a long time.

Two replicas on Spark count by key in windows at 3,000 tuples/s. Every few seconds the memory of
each node's processes and the size of its files are sampled; after the warm-up, straight lines
through the samples give their growth.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from australis.kernel.durations import SECOND
from australis.kernel.errors import Stopped
from australis.runtime.testbed import Testbed
from research.bench import clusters
from research.bench.failover import target_lines
from research.bench.memory import by_kind

RATE = 3_000
COUNTS = """\
  counts:
    aggregate: s1
    window: 5 s
    by: [src]
    compute: {n: count(*)}
"""
NODES = {"a": "spark", "b": "spark", "e": "reference"}
MAX_DELAY_S = 10
EVERY_S = 5.0
WARM_UP_MIN = 10.0
"""The time during which a JVM compiles frequently used code, and grows by that."""
SLOPE_MB = 1.0
"""The memory that a node may gain per minute."""

Say = Callable[[str], None]
Sample = dict[str, float]


def measure(
    minutes: float,
    warm_up_min: float = WARM_UP_MIN,
    scratch: Path | None = None,
    say: Say = print,
) -> dict[str, Any]:
    """Run for this number of minutes after all is stable and warm."""
    with clusters.scratch_directory(scratch) as root:
        path = clusters.write(
            root,
            operators=COUNTS,
            nodes=NODES,
            replicas={"counts": ["a", "b"]},
            sources={"s1": "e"},
            stream="counts",
            rate=RATE,
            bucket="1 s",
            max_delay=f"{MAX_DELAY_S} s",
        )
        say("two replicas start")
        with Testbed(path, "counts", keep=False) as testbed:
            testbed.wait_until_stable()
            samples = _samples(testbed, (warm_up_min + minutes) * 60, say)
    return _result(samples, minutes, warm_up_min)


def _samples(testbed: Testbed, seconds: float, say: Say) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {node: [] for node in NODES}
    began = told = time.monotonic()
    first = testbed.stable_upto
    while (now := time.monotonic()) - began < seconds:
        for node, samples in found.items():
            if testbed.process(node).poll() is not None:
                raise Stopped(f"node {node} has ended: see {testbed.base / testbed.cluster.state}")
            disk = _size(testbed.base / testbed.cluster.state / node) / 2**20
            memory = by_kind(testbed.process(node).pid)
            samples.append({"at_s": now - began, "disk_mb": disk, **memory})
        if now - told >= 60:
            told = now
            last = {node: samples[-1] for node, samples in found.items()}
            said = (
                f"{node} {s['python_mb'] + s['jvm_mb']:,.0f} MB, {s['disk_mb']:,.1f} MB on disk"
                for node, s in last.items()
            )
            say(f"{(now - began) / 60:.0f} min: {'; '.join(said)}")
        testbed.wait(EVERY_S)
    passed = testbed.diagram.buckets.size_us / SECOND * (testbed.stable_upto - first)
    if passed < time.monotonic() - began - MAX_DELAY_S:
        raise Stopped(f"results for only {passed:.0f} s came within {seconds:.0f} s")
    return found


def _size(directory: Path) -> int:
    size = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):  # it was removed meanwhile
                size += (Path(place) / name).stat().st_size
    return size


def slope(samples: list[Sample], what: str, since_s: float = 0.0) -> float:
    """The growth per minute, by a straight line through the samples since then.

    >>> round(slope([{"at_s": 30.0 * n, "mb": 100.0 + n} for n in range(20)], "mb"), 6)
    2.0
    """
    later = [sample for sample in samples if sample["at_s"] >= since_s]
    times = np.array([s["at_s"] for s in later]) / 60
    return float(np.polyfit(times, np.array([s[what] for s in later]), 1)[0])


def _result(samples: dict[str, list[Sample]], minutes: float, warm_up_min: float) -> dict[str, Any]:
    warm_s = warm_up_min * 60
    nodes: dict[str, dict[str, float]] = {}
    targets: list[dict[str, Any]] = []
    for node, found in samples.items():
        for one in found:
            one["all_mb"] = one["python_mb"] + one["jvm_mb"]
        last = found[-1]
        nodes[node] = {
            "python_mb": last["python_mb"],
            "jvm_mb": last["jvm_mb"],
            "python_mb_per_min": slope(found, "python_mb", warm_s),
            "jvm_mb_per_min": slope(found, "jvm_mb", warm_s),
            "mb_per_min": slope(found, "all_mb", warm_s),
            "disk_mb": last["disk_mb"],
            "most_disk_mb": max(one["disk_mb"] for one in found),
            "disk_mb_per_min": slope(found, "disk_mb", warm_s),
        }
        for what, name in (("mb_per_min", "memory"), ("disk_mb_per_min", "disk")):
            value = nodes[node][what]
            targets.append(
                {
                    "name": f"{node}: {name}, MB/min",
                    "value": value,
                    "max": SLOPE_MB,
                    "ok": value <= SLOPE_MB,
                }
            )
    return {
        "bench": "steady",
        "minutes": minutes,
        "warm_up_minutes": warm_up_min,
        "rate": RATE,
        "nodes": nodes,
        "samples": samples,
        "targets": targets,
    }


def table(result: dict[str, Any]) -> str:
    """The result as a table."""
    lines = [
        f"{result['minutes']:g} minutes at {result['rate']:,} tuples/s, after"
        f" {result['warm_up_minutes']:g} to warm up: two replicas (a, b) and a source (e);"
        " memory at the end, and how it grew",
        f"  {'':4}{'Python':>20}{'JVM':>20}{'disk at the end':>18}{'at most':>10}",
    ]
    for node, n in result["nodes"].items():
        cells = "".join(
            f"{n[f'{kind}_mb']:>9,.0f} {n[f'{kind}_mb_per_min']:>+6.2f}/min"
            for kind in ("python", "jvm")
        )
        lines.append(f"  {node:4}{cells}{n['disk_mb']:>15.1f} MB{n['most_disk_mb']:>7.1f} MB")
    return "\n".join([*lines, *target_lines(result["targets"])])
