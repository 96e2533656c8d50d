"""`australis bench replicated`: the overhead of replicas and DPC.

The same windowed count over the same generated connections, alternately: on one unreplicated engine
that has one core and the machine for itself, and on a cluster of two replicas that have a core
each, of which the slower one is measured (the source's node and the client run on either core).
Spark has the same memory on both sides. All rows are there from the beginning; the growth of the
logs is measured from a quarter of the way, when everything is warm, to the last batch but one: the
very last one is much quicker than the others, on one side more than on the other. Then both run at
a rate well below their capacity: the delay is measured from the closing of a bucket at the source
to its results, in the log of the engine or at the client of the cluster.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from australis.kernel.durations import SECOND
from australis.kernel.errors import Stopped, UserError
from australis.runtime.client import ChangeKind
from australis.runtime.load import load
from australis.runtime.run import Running
from australis.runtime.testbed import Testbed, lateness
from research.bench import clusters
from research.bench.failover import target_lines

RATE = 20_000
BUCKET_MS = 500
COUNTS = """\
  counts:
    aggregate: s1
    window: 5 s
    by: [src]
    compute: {n: count(*), ports: approx_count_distinct(port)}
"""
FROM = 0.25
"""The part of the way that counts as warm-up."""
LIMIT_S = 600.0
POLL_S = 0.1
ASK_S = 1.0
"""The interval between queries for positions: an answer takes some of the measured time."""
DELAY_RATE = 500
DELAY_S = 40.0
WARM_S = 20.0

Say = Callable[[str], None]
Samples = list[tuple[float, int]]
"""The times at which a log had reached each bucket."""


def measure(
    rows: int, rounds: int, scratch: Path | None = None, say: Say = print
) -> dict[str, Any]:
    """Run both sides, alternately."""
    alone: list[float] = []
    replicated: list[float] = []
    with clusters.scratch_directory(scratch) as root:
        for number in range(1, rounds + 1):
            alone.append(_alone(root / f"alone-{number}", rows))
            say(f"round {number}: unreplicated {alone[-1]:,.0f} rows/s")
            replicated.append(_replicated(root / f"cluster-{number}", rows))
            say(f"round {number}: each of two replicas {replicated[-1]:,.0f} rows/s")
        delays = {"baseline": _delay_alone(root / "delay-alone")}
        say(f"delay of the unreplicated engine: {_delay_told(delays['baseline'])}")
        delays["ours"] = _delay_replicated(root / "delay-cluster")
        say(f"delay of the cluster: {_delay_told(delays['ours'])}")
    ratio = statistics.median(b / a for a, b in zip(alone, replicated, strict=True))
    target = {"name": "throughput per replica", "value": ratio, "min": 0.8, "ok": ratio >= 0.8}
    return {
        "bench": "replicated",
        "rows": rows,
        "rounds": rounds,
        "ours": {
            "rows_per_s": statistics.median(replicated),
            "all": replicated,
            "delay_s": delays["ours"],
        },
        "baseline": {
            "rows_per_s": statistics.median(alone),
            "all": alone,
            "delay_s": delays["baseline"],
        },
        "targets": [target],
    }


def _delay_told(delays: list[float]) -> str:
    late = statistics.quantiles(delays, n=20)[-1]
    return f"{statistics.median(delays):.2f} s, 95 of 100 within {late:.2f} s"


def _write(directory: Path, rate: int, duration: str, speed: str) -> Path:
    return clusters.write(
        directory,
        operators=COUNTS,
        nodes={"a": "spark", "b": "spark", "e": "reference"},
        replicas={"counts": ["a", "b"]},
        sources={"s1": "e"},
        stream="counts",
        rate=rate,
        bucket=f"{BUCKET_MS} ms",
        max_delay="10 s",
        speed=speed,
        duration=duration,
        memory="2g",  # as the engine has alone
    )


def _replicated(directory: Path, rows: int) -> float:
    """Rows per second of the slower replica."""
    path = _write(directory, RATE, f"{rows // RATE} s", "max")
    buckets = rows * 1000 // RATE // BUCKET_MS
    samples: dict[str, Samples] = {"a": [], "b": []}
    with Testbed(path, "counts", cores={"a": {0}, "b": {1}}) as testbed:
        first = testbed.base_bucket
        deadline = time.monotonic() + LIMIT_S
        ends: dict[str, int] = {}
        while not ends or min(ends.values()) < first + buckets:
            ends = testbed.ends()
            for node, end in ends.items():
                samples[node].append((time.monotonic(), end - first))
            if time.monotonic() > deadline:
                raise Stopped(f"the replicas did not finish: {ends}, not {first + buckets}")
            time.sleep(ASK_S)
    return min(_rate(one, buckets) for one in samples.values())


def _alone(directory: Path, rows: int) -> float:
    """Rows per second of one engine with one core, in a process of its own."""
    _write(directory, RATE, f"{rows // RATE} s", "max")
    buckets = rows * 1000 // RATE // BUCKET_MS
    samples = [tuple(sample) for sample in _apart(directory, str(buckets))]
    return _rate(samples, buckets)


def _apart(directory: Path, *words: str) -> Any:
    """Run the unreplicated engine in its own process, and return the output."""
    command = [sys.executable, "-m", "research.bench.replicated", str(directory), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode:
        raise Stopped(
            f"the unreplicated run failed: {''.join(done.stderr.strip().splitlines()[-1:])}"
        )
    return json.loads(done.stdout.splitlines()[-1])


def _delay_alone(directory: Path) -> list[float]:
    _write(directory, DELAY_RATE, "1 h", "1")
    return list(map(float, _apart(directory)))


def _delay_replicated(directory: Path) -> list[float]:
    """The delay of each bucket from its closing at the source to its stable results at the
    client.
    """
    path = _write(directory, DELAY_RATE, "1 h", "1")
    with Testbed(path, "counts", cores={"a": {0}, "b": {1}}) as testbed:
        testbed.wait_until_stable()
        testbed.wait(WARM_S)
        began = time.monotonic()
        testbed.wait(DELAY_S)
        heard = [
            h for h in testbed.heard if h.at >= began and h.change.kind is ChangeKind.INSERTION
        ]
        closed_s = time.monotonic() - (time.time() - testbed.began_us / SECOND)
    assert testbed.cluster.epoch_us is not None
    at_epoch_s = closed_s - testbed.cluster.epoch_us / SECOND
    return [late - at_epoch_s for late in lateness(heard, testbed.diagram)]


def _rate(samples: Samples, buckets: int) -> float:
    """Rows per second between a quarter of the way and the last batch but one.

    >>> _rate([(0.0, 0), (1.0, 25), (2.0, 60), (3.0, 100), (9.0, 100)], 100)
    350000.0
    """
    begin = next(s for s in samples if s[1] >= FROM * buckets)
    last = max((n for _, n in samples if n < buckets), default=0)
    if last <= begin[1]:
        raise UserError("is too few: two micro-batches took most of them", name="--rows")
    end = next(s for s in samples if s[1] == last)
    return (end[1] - begin[1]) * BUCKET_MS / 1000 * RATE / (end[0] - begin[0])


def _run_alone(directory: Path, buckets: int) -> None:
    os.sched_setaffinity(0, {0})
    diagram = load(directory / "diagram.yaml")
    samples: Samples = []
    with Running(diagram, directory / "state", master="local[1]", base=directory) as running:
        running.start()
        log = running.logs["counts"]
        first = log.buckets.closed_by(_start_us(running))
        while not samples or samples[-1][1] < buckets:
            running.check()
            done = log.buckets.closed_by(log.boundary_us) - first  # far beyond, once it has ended
            samples.append((time.monotonic(), min(done, buckets)))
            time.sleep(POLL_S)
    sys.stdout.write(json.dumps(samples) + "\n")


def _delays_alone(directory: Path) -> None:
    os.sched_setaffinity(0, {0})
    diagram = load(directory / "diagram.yaml")
    seen: dict[str, dict[int, float]] = {"s1": {}, "counts": {}}
    with Running(diagram, directory / "state", master="local[1]", base=directory) as running:
        running.start()
        _start_us(running)
        until = time.monotonic() + WARM_S + DELAY_S
        while (now := time.monotonic()) < until:
            running.check()
            for stream, moments in seen.items():
                log = running.logs[stream]
                moments.setdefault(log.buckets.closed_by(log.boundary_us), now)
            time.sleep(0.01)
    begin = until - DELAY_S
    counted = sorted((n, at) for n, at in seen["counts"].items() if at >= begin)
    sys.stdout.write(
        json.dumps([at - seen["s1"][n] for n, at in counted if n in seen["s1"]]) + "\n"
    )


def _start_us(running: Running) -> int:
    """Where the source begins."""
    log = running.logs["s1"]
    while log.first_bucket is None:
        running.check()
        time.sleep(POLL_S)
    return log.buckets.end(log.first_bucket - 1)


def table(result: dict[str, Any]) -> str:
    """The result as a table."""
    ours, theirs = result["ours"]["rows_per_s"], result["baseline"]["rows_per_s"]
    return "\n".join(
        [
            f"windowed count and approximate distinct, {result['rows']:,} rows, one core each,"
            f" median of {result['rounds']}",
            f"  two replicas, each: {ours:,.0f} rows/s; unreplicated: {theirs:,.0f} rows/s",
            f"  delay at {DELAY_RATE} tuples/s: {_delay_told(result['ours']['delay_s'])};"
            f" unreplicated: {_delay_told(result['baseline']['delay_s'])}",
            *target_lines(result["targets"]),
        ]
    )


if __name__ == "__main__":
    if len(sys.argv) > 2:
        _run_alone(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        _delays_alone(Path(sys.argv[1]))
