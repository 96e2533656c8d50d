"""`australis bench replicated`: what replicas and DPC cost.

The same windowed count over the same generated connections, alternately: on one unreplicated
engine that has one core, and on a cluster of two replicas, each with a core of its own (the
node of the source and the client share both). All rows are there from the beginning; how fast
the logs grow is measured between a quarter of the way and the end, when everything is warm.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from australis.bench import clusters
from australis.bench.failover import target_lines
from australis.kernel.errors import Stopped
from australis.live.load import load
from australis.live.run import Running
from australis.live.trial import Trial

RATE = 5_000
BUCKET_MS = 500
COUNTS = """\
  counts:
    aggregate: s1
    window: 5 s
    by: [src]
    compute: {n: count(*), ports: approx_count_distinct(port)}
"""
FROM = 0.25
"""What comes before this part of the way is warming up."""
LIMIT_S = 600.0
POLL_S = 0.1

Say = Callable[[str], None]
Samples = list[tuple[float, int]]
"""When a log had reached which bucket."""


def measure(
    rows: int, rounds: int, scratch: Path | None = None, say: Say = print
) -> dict[str, Any]:
    """Both sides, alternately."""
    root = Path(tempfile.mkdtemp(prefix="australis-bench-", dir=scratch))
    alone: list[float] = []
    replicated: list[float] = []
    try:
        for number in range(1, rounds + 1):
            alone.append(_alone(root / f"alone-{number}", rows))
            say(f"round {number}: unreplicated {alone[-1]:,.0f} rows/s")
            replicated.append(_replicated(root / f"cluster-{number}", rows))
            say(f"round {number}: each of two replicas {replicated[-1]:,.0f} rows/s")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    ratio = statistics.median(b / a for a, b in zip(alone, replicated, strict=True))
    target = {"name": "throughput per replica", "value": ratio, "min": 0.8, "ok": ratio >= 0.8}
    return {
        "bench": "replicated",
        "rows": rows,
        "rounds": rounds,
        "ours": {"rows_per_s": statistics.median(replicated), "all": replicated},
        "baseline": {"rows_per_s": statistics.median(alone), "all": alone},
        "targets": [target],
    }


def _write(directory: Path, rows: int) -> Path:
    return clusters.write(
        directory,
        operators=COUNTS,
        nodes={"a": "spark", "b": "spark", "e": "reference"},
        replicas={"counts": ["a", "b"]},
        sources={"s1": "e"},
        stream="counts",
        rate=RATE,
        bucket=f"{BUCKET_MS} ms",
        max_delay="10 s",
        speed="max",
        duration=f"{rows // RATE} s",
    )


def _replicated(directory: Path, rows: int) -> float:
    """Rows per second of the slower replica."""
    path = _write(directory, rows)
    buckets = rows * 1000 // RATE // BUCKET_MS
    samples: dict[str, Samples] = {"a": [], "b": []}
    with Trial(path, "counts", cores={"a": {0}, "b": {1}}) as trial:
        first = trial.base_bucket
        deadline = time.monotonic() + LIMIT_S
        ends: dict[str, int] = {}
        while not ends or min(ends.values()) < first + buckets:
            ends = trial.ends()
            for node, end in ends.items():
                samples[node].append((time.monotonic(), end - first))
            if time.monotonic() > deadline:
                raise Stopped(f"the replicas did not finish: {ends}, not {first + buckets}")
            time.sleep(POLL_S)
    return min(_rate(one, buckets) for one in samples.values())


def _alone(directory: Path, rows: int) -> float:
    """Rows per second of one engine with one core, in a process of its own."""
    _write(directory, rows)
    buckets = rows * 1000 // RATE // BUCKET_MS
    command = [sys.executable, "-m", "australis.bench.replicated", str(directory), str(buckets)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode:
        raise Stopped(f"the unreplicated run failed: {done.stderr.strip().splitlines()[-1]}")
    samples = [tuple(sample) for sample in json.loads(done.stdout.splitlines()[-1])]
    return _rate(samples, buckets)


def _rate(samples: Samples, buckets: int) -> float:
    """Rows per second between a quarter of the way and the end.

    >>> _rate([(0.0, 0), (1.0, 25), (2.0, 60), (3.0, 100), (9.0, 100)], 100)
    93750.0
    """
    begin = next(s for s in samples if s[1] >= FROM * buckets)
    end = next(s for s in samples if s[1] >= buckets)
    return (end[1] - begin[1]) * BUCKET_MS / 1000 * RATE / (end[0] - begin[0])


def _run_alone(directory: Path, buckets: int) -> None:
    os.sched_setaffinity(0, {0})
    diagram = load(directory / "diagram.yaml")
    samples: Samples = []
    with Running(diagram, directory / "state", master="local[1]", base=directory) as running:
        running.start()
        log = running.datapath.logs["counts"]
        first = log.buckets.closed_by(_start_us(running))
        while not samples or samples[-1][1] < buckets:
            running.check()
            samples.append((time.monotonic(), log.buckets.closed_by(log.boundary_us) - first))
            time.sleep(POLL_S)
    sys.stdout.write(json.dumps(samples) + "\n")


def _start_us(running: Running) -> int:
    """Where the source begins."""
    log = running.datapath.logs["s1"]
    while log.first_bucket is None:
        running.check()
        time.sleep(POLL_S)
    return log.buckets.end(log.first_bucket - 1)


def table(result: dict[str, Any]) -> str:
    """The result for people."""
    ours, theirs = result["ours"]["rows_per_s"], result["baseline"]["rows_per_s"]
    return "\n".join(
        [
            f"windowed count and approximate distinct, {result['rows']:,} rows, one core each,"
            f" median of {result['rounds']}",
            f"  two replicas, each: {ours:,.0f} rows/s; unreplicated: {theirs:,.0f} rows/s",
            *target_lines(result["targets"]),
        ]
    )


if __name__ == "__main__":
    _run_alone(Path(sys.argv[1]), int(sys.argv[2]))
