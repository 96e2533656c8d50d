"""Other engines, with one of two inputs unavailable for a while.

The same windowed count by key over the union of two inputs: Structured Streaming, which waits for
the slower input or does not (`multipleWatermarkPolicy`), and Flink, which waits, continues without
an idle input, or does so and corrects late rows within an allowed time.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from australis.kernel.errors import Stopped
from research.bench.peers import WINDOW_MS
from research.bench.peers.flink import Flink
from research.bench.peers.inputs import Cell, Inputs

START_S = 180.0
SETTLED_S = 15.0
"""The time after a failure by which all results that will become correct are expected."""

Say = Callable[[str], None]


@dataclass
class Results:
    """The results of a job, and their times."""

    counts: dict[Cell, int] = field(default_factory=dict)
    said: list[tuple[float, Cell]] = field(default_factory=list)
    ended: str = ""
    """The last output of a job that has ended by itself."""

    def take(self, cell: Cell, count: int) -> None:
        """Record a new count of a window and key."""
        self.counts[cell] = count
        self.said.append((time.monotonic(), cell))

    def news(self) -> list[float]:
        """The moments at which a later window than any before was received."""
        newest, moments = 0, []
        for at, (end, _) in list(self.said):
            if end > newest:
                newest = end
                moments.append(at)
        return moments

    def take_json(self, line: str) -> None:
        """Parse a line of the job on Spark."""
        row = json.loads(line)
        self.take((row["end"], row["k"]), row["n"])

    def take_flink(self, line: str) -> None:
        """Parse a line that Flink prints; a retraction is followed by the new value."""
        found = re.match(r"\+[IU]\[([^,]+), (\d+), (\d+)\]", line)
        if found:
            end = datetime.fromisoformat(found[1].rstrip("Z")).replace(tzinfo=UTC)
            self.take((int(end.timestamp() * 1000), int(found[2])), int(found[3]))


@contextmanager
def spark(directory: Path, results: Results, policy: str) -> Iterator[None]:
    """Run the job on Structured Streaming with one of its two policies."""
    with (directory / "said.txt").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "research.bench.peers.spark_union", str(directory), policy],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,
        )

    def listen() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            results.take_json(line)
        last = (directory / "said.txt").read_text().strip().splitlines()[-1:]
        results.ended = "".join(last) or "it has ended"

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


_TABLES = """
CREATE TABLE {name} (
  k INT, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3),
  WATERMARK FOR ts AS ts - INTERVAL '0.5' SECOND
) WITH (
  'connector' = 'filesystem', 'path' = '{path}', 'format' = 'json',
  'source.monitor-interval' = '100 ms'
)"""
_RESULTS = "CREATE TABLE results (ends TIMESTAMP(3), k INT, n BIGINT) WITH ('connector' = 'print')"
_PLAIN = """
INSERT INTO results
SELECT window_end, k, COUNT(*)
FROM TABLE(TUMBLE(TABLE inputs, DESCRIPTOR(ts), INTERVAL '1' SECOND))
GROUP BY window_start, window_end, k"""
_CORRECTING = """
INSERT INTO results
SELECT TUMBLE_END(ts, INTERVAL '1' SECOND), k, COUNT(*)
FROM inputs GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k"""
_IDLE = {"table.exec.source.idle-timeout": "1 s"}
_LATE = {
    "table.exec.emit.late-fire.enabled": "true",
    "table.exec.emit.late-fire.delay": "0 s",
    "table.exec.emit.allow-lateness": "10 min",
}


@contextmanager
def flink(directory: Path, results: Results, job: str, settings: dict[str, str]) -> Iterator[None]:
    """Run the job on Flink."""
    tables = [
        _TABLES.format(name=name, path=(directory / name).as_uri()) for name in ("in1", "in2")
    ]
    told = {"table.local-time-zone": "UTC", **settings}
    started = Flink(directory / "flink", results.take_flink, told, task_managers=1)
    with closing(started) as cluster:
        cluster.submit(
            *tables, _RESULTS,
            "CREATE VIEW inputs AS SELECT * FROM in1 UNION ALL SELECT * FROM in2", job,
        )  # fmt: skip
        yield


PEERS: dict[str, Callable[[Path, Results], Any]] = {
    "Spark, waits for the slowest (min)": lambda d, r: spark(d, r, "min"),
    "Spark, follows the fastest (max)": lambda d, r: spark(d, r, "max"),
    "Flink": lambda d, r: flink(d, r, _PLAIN, {}),
    "Flink, idle after 1 s": lambda d, r: flink(d, r, _PLAIN, _IDLE),
    "Flink, idle, late ones allowed": lambda d, r: flink(d, r, _CORRECTING, _IDLE | _LATE),
}


def measure(
    root: Path, names: Iterable[str], failures: tuple[float, ...], rate: int, say: Say
) -> dict[str, list[dict[str, Any]]]:
    """Run all failures in one run for each of the engines."""
    found: dict[str, list[dict[str, Any]]] = {}
    for number, name in enumerate(names):
        say(f"{name}: it starts")
        directory = root / f"peer-{number}"
        places = (directory / "in1", directory / "in2")
        inputs, results = Inputs(*places, rate=rate, window_ms=WINDOW_MS), Results()
        try:
            with PEERS[name](directory, results):
                _wait_for_results(results, name)
                found[name] = [_one(inputs, results, seconds) for seconds in failures]
        finally:
            inputs.close()
        for row in found[name]:
            say(f"{name}: {told(row)}")
    return found


def _wait_for_results(results: Results, name: str) -> None:
    deadline = time.monotonic() + START_S
    while len(results.news()) <= 20:
        if results.ended or time.monotonic() > deadline:
            why = results.ended or f"not within {START_S:g} s"
            raise Stopped(f"{name} gave no results: {why}")
        time.sleep(0.1)


def _one(inputs: Inputs, results: Results, seconds: float) -> dict[str, Any]:
    """Inflict one failure of this number of seconds."""
    cut_at, cut_ms = time.monotonic(), time.time() * 1000
    inputs.cut()
    time.sleep(seconds)
    inputs.heal()
    healed_at, healed_ms = time.monotonic(), time.time() * 1000
    time.sleep(SETTLED_S + seconds / 5)
    touched = {
        cell: n
        for cell, n in inputs.expected_now().items()
        if cut_ms - WINDOW_MS < cell[0] <= healed_ms + WINDOW_MS
    }
    lost = {cell: n - results.counts.get(cell, 0) for cell, n in touched.items()}
    moments = [m for m in results.news() if m >= cut_at - 1]
    last = max((at for at, cell in results.said if cell in touched), default=None)
    right = not any(lost.values())
    return {
        "failure_s": seconds,
        "stall_s": max((b - a for a, b in pairwise(moments)), default=None),
        "lost": sum(n for n in lost.values() if n > 0),
        "rows": sum(touched.values()),
        "right_s": max(0.0, last - healed_at) if right and last is not None else None,
    }


def told(row: dict[str, Any]) -> str:
    """One failure as a line of text."""
    stall = "nothing came" if row["stall_s"] is None else f"silent for {row['stall_s']:.1f} s"
    right = (
        f"{row['lost']:,} of {row['rows']:,} tuples lost for good"
        if row["right_s"] is None
        else f"right {row['right_s']:.1f} s after the end"
    )
    return f"{row['failure_s']:g} s: {stall}, {right}"
