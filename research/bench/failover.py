"""`australis bench failover`: how long a client receives nothing when a replica fails.

A windowed count by key, at the same rate on each side. Ours: two replicas on Spark; the one that
the client reads from is killed with kill -9 and started again, then stopped with SIGSTOP for some
seconds, again and again. Once more with a client that follows both replicas at once (`hedge=2`).
Beside it bare Structured Streaming with a checkpoint: its driver is killed and started again at
once. (A driver that is only stopped goes undetected: its silence lasts as long as the stop.) With
`--peers` also Flink, tuned to detect failures early, with a spare TaskManager: the working one is
killed, or stopped.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from operator import sub
from pathlib import Path
from typing import Any

from australis.deployment.cluster import Engine
from australis.kernel.errors import Stopped
from australis.runtime.testbed import Testbed, longest_gap, news
from research.bench import clusters
from research.bench.peers.flink import Flink, home
from research.bench.peers.inputs import Inputs
from research.bench.peers.partition import Results

RATE = 1_000
WINDOW_MS = 500
COUNTS = f"""\
  counts:
    aggregate: s1
    window: {WINDOW_MS} ms
    by: [protocol]
    compute: {{n: count(*)}}
"""
WARM_UP_S: dict[Engine, float] = {"spark": 20.0, "reference": 5.0}
"""The time from the first stable result until measuring begins."""
WATCH_S = 6.0
"""The time after a failure within which the silence may begin."""
REPLICAS = ("a", "b")
LIMIT_S = 240.0

Say = Callable[[str], None]


def measure(
    rounds: int,
    scratch: Path | None = None,
    say: Say = print,
    *,
    engine: Engine = "spark",
    baseline: bool = True,
    peers: bool = False,
) -> dict[str, Any]:
    """Run all sides; return the result as `--json` prints it."""
    if peers:
        home()
    with clusters.scratch_directory(scratch) as root:
        ours = _ours(root / "one", engine, rounds, 1, say)
        hedged = _ours(root / "two", engine, rounds, 2, say)
        bare = _bare(root / "bare", rounds, say) if baseline else []
        flink = _flink(root / "flink", rounds, say) if peers else {}
    return _result(ours, hedged, bare, flink, rounds) | {"engine": engine}


# --- ours --------------------------------------------------------------------------


def _ours(directory: Path, engine: Engine, rounds: int, hedge: int, say: Say) -> dict[str, Any]:
    path = clusters.write(
        directory,
        operators=COUNTS,
        nodes={"a": engine, "b": engine, "e": "reference"},
        replicas={"counts": REPLICAS},
        sources={"s1": "e"},
        stream="counts",
        rate=RATE,
        bucket=f"{WINDOW_MS} ms",
        max_delay="4 s",
        heartbeat="50 ms",
    )
    side = "Australis, following two replicas" if hedge > 1 else "Australis"
    say(f"{side}: two replicas start")
    found: dict[str, list[float]] = {"steady": [], "kill": [], "pause": []}
    with Testbed(path, "counts", hedge=hedge) as testbed:
        testbed.wait_until_stable()
        testbed.wait(WARM_UP_S[engine])
        began = time.monotonic()
        loads = [os.getloadavg()[0]]
        for number in range(1, rounds + 1):
            found["steady"].append(_silence(testbed, lambda: None))
            for what, disturb, mend in (
                ("kill", testbed.kill, testbed.start),
                ("pause", testbed.pause, testbed.resume),
            ):
                node = testbed.followed()
                found[what].append(_silence(testbed, partial(disturb, node)))
                mend(node)
                testbed.until(lambda: _all_stable(testbed), f"{node} did not recover", LIMIT_S)
                testbed.wait(5)
            loads.append(os.getloadavg()[0])
            say(f"{side}, round {number}: {_told(found)}")
        verdict, tentative = testbed.verdict(), len(testbed.tentative(began))
    return found | {
        "load": loads,
        "tentative": tentative,
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "tuples": verdict.got,
        "equal": verdict.equal,
    }


def _all_stable(testbed: Testbed) -> bool:
    return set(testbed.states().values()) == {"STABLE"}


def _silence(testbed: Testbed, disturb: Callable[[], None]) -> float:
    """The longest silence that begins around a disturbance."""
    began = news(testbed.heard)[-1]
    disturb()
    testbed.wait(WATCH_S)
    return testbed.silence(began, time.monotonic() - WINDOW_MS / 1000)


# --- bare Spark -----------------------------------------------------------------------


class BareJob:
    """The bare job, and the times of its lines."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.moments: list[float] = []
        self._command = [
            sys.executable, "-m", "research.bench.bare_job", str(directory), str(RATE),
            f"{WINDOW_MS} milliseconds", str(int(time.time() * 1e6)),
        ]  # fmt: skip
        self._said = directory / "said.txt"
        self.start()

    def start(self) -> None:
        """Start the job, or restart it."""
        with self._said.open("ab") as said:
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=said, start_new_session=True
            )
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for _ in process.stdout:
            self.moments.append(time.monotonic())

    def kill(self) -> None:
        """Kill the driver and all its child processes with kill -9."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait(self, lines: int) -> None:
        """Wait until this number of further lines have been printed."""
        goal, deadline = len(self.moments) + lines, time.monotonic() + LIMIT_S
        while len(self.moments) < goal:
            if time.monotonic() > deadline or self._process.poll() is not None:
                last = self._said.read_text().strip().splitlines()[-1:]
                raise Stopped(f"bare Spark gave no results: {''.join(last)}")
            time.sleep(0.05)


def _bare(directory: Path, rounds: int, say: Say) -> list[float]:
    say("bare Spark: its driver starts")
    silences: list[float] = []
    job = BareJob(directory)
    try:
        for number in range(1, rounds + 1):
            job.wait(30)
            since = job.moments[-1]
            job.kill()
            job.start()
            job.wait(5)
            silences.append(longest_gap(job.moments, since, job.moments[-1]))
            say(f"bare Spark, round {number}: kill -9 {silences[-1]:.1f} s")
    finally:
        with suppress(ProcessLookupError):
            job.kill()
    return silences


# --- Flink ------------------------------------------------------------------------------

_ROWS = """
CREATE TABLE flows (k INT, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'filesystem', 'path' = '{path}', 'format' = 'json',
  'source.monitor-interval' = '50 ms'
)"""
_UTC = {"table.local-time-zone": "UTC"}
_FLINK_FAILURES = (("steady", None), ("kill", signal.SIGKILL), ("pause", signal.SIGSTOP))
_RESULTS = "CREATE TABLE results (ends TIMESTAMP(3), k INT, n BIGINT) WITH ('connector' = 'print')"
_COUNT = f"""
INSERT INTO results
SELECT window_end, k, COUNT(*)
FROM TABLE(TUMBLE(TABLE flows, DESCRIPTOR(ts), INTERVAL '{WINDOW_MS / 1000:g}' SECOND))
GROUP BY window_start, window_end, k"""


def _flink(directory: Path, rounds: int, say: Say) -> dict[str, list[float]]:
    """The same count on Flink, over files written ten times a second."""
    say("Flink: it starts")
    directory.mkdir(parents=True)
    rows, results = directory / "rows", Results()
    found: dict[str, list[float]] = {"steady": [], "kill": [], "pause": []}
    inputs = Inputs(rows, rate=RATE, window_ms=WINDOW_MS, step_s=0.1)
    try:
        with closing(Flink(directory / "flink", results.take_flink, _UTC)) as cluster:
            cluster.submit(_ROWS.format(path=rows.as_uri()), _RESULTS, _COUNT)
            for number in range(1, rounds + 1):
                for what, how in _FLINK_FAILURES:
                    _wait_for(results, 30)
                    working, since = cluster.working, results.news()[-1]
                    assert working is not None
                    if how is not None:
                        cluster.signal(working, how)
                    _wait_for(results, 12)
                    found[what].append(longest_gap(results.news(), since, results.news()[-1]))
                    if how is not None:
                        cluster.signal(working, signal.SIGKILL)
                        cluster.start_task_manager()
                say(f"Flink, round {number}: " + _told(found))
    finally:
        inputs.close()
    return found


def _wait_for(results: Results, windows: int) -> None:
    """Wait until this number of further windows have been received."""
    goal, deadline = len(results.news()) + windows, time.monotonic() + LIMIT_S
    while len(results.news()) < goal:
        if time.monotonic() > deadline:
            raise Stopped(f"Flink gave no results for {LIMIT_S:g} s")
        time.sleep(0.05)


def _told(found: dict[str, list[float]]) -> str:
    return (
        f"steady {found['steady'][-1]:.2f} s, kill -9 {found['kill'][-1]:.2f} s,"
        f" SIGSTOP {found['pause'][-1]:.2f} s"
    )


# --- the result ------------------------------------------------------------------------


def _result(
    ours: dict[str, Any],
    hedged: dict[str, Any],
    bare: list[float],
    flink: dict[str, list[float]],
    rounds: int,
) -> dict[str, Any]:
    middle = {what: statistics.median(ours[what]) for what in ("steady", "kill", "pause")}
    twice = {what: statistics.median(hedged[what]) for what in ("steady", "kill", "pause")}
    targets: list[dict[str, Any]] = [
        {"name": "silence after kill -9, s", "value": middle["kill"], "max": 1.0},
        {
            "name": "silence after kill -9 beyond the steady one, s",
            "value": statistics.median(map(sub, ours["kill"], ours["steady"])),
            "max": 0.2,
        },
        {"name": "silence after SIGSTOP, s", "value": middle["pause"], "max": 1.0},
        {
            "name": "following two: longest silence over steady state",
            "value": max(twice["kill"], twice["pause"]) / twice["steady"],
            "max": 1.1,
        },
        {
            "name": "following two: worst silence over the worst in steady state",
            "value": max(hedged["kill"] + hedged["pause"]) / max(hedged["steady"]),
            "max": 1.1,
        },
        {"name": "tentative", "value": ours["tentative"] + hedged["tentative"], "max": 0},
        {"name": "lost or duplicated", "value": _wrong(ours) + _wrong(hedged), "max": 0},
    ]
    if bare:
        ratio = statistics.median(bare) / middle["kill"]
        targets.append({"name": "times shorter than bare Spark", "value": ratio, "min": 20})
    for what in ("kill", "pause") if flink else ():
        ratio = statistics.median(flink[what]) / middle[what]
        targets.append({"name": f"times shorter than Flink ({what})", "value": ratio, "min": 1})
    for target in targets:
        low, high = target.get("min", float("-inf")), target.get("max", float("inf"))
        target["ok"] = bool(low <= target["value"] <= high)
    return {
        "bench": "failover",
        "rounds": rounds,
        "rate": RATE,
        "window_ms": WINDOW_MS,
        "ours": ours,
        "hedged": hedged,
        "baseline": {"kill": bare},
        "flink": flink,
        "targets": targets,
    }


def _wrong(side: dict[str, Any]) -> int:
    return int(side["lost"] + side["duplicated"] + (not side["equal"]))


def table(result: dict[str, Any]) -> str:
    """The result as a table."""
    lines = [
        f"windowed count ({result['window_ms']} ms) by key at {result['rate']:,} tuples/s:"
        f" longest silence at the client in seconds, median of {result['rounds']} (worst)",
        f"  {'':34}{'steady':>22}{'kill -9':>22}{'SIGSTOP':>22}",
    ]
    sides = (("Australis", result["ours"]), ("Australis, following two", result["hedged"]))
    for name, side in sides:
        cells = "".join(f"{_cell(side[what]):>22}" for what in ("steady", "kill", "pause"))
        lines.append(f"  {name:34}{cells}")
    if result["baseline"]["kill"]:
        cell = _cell(result["baseline"]["kill"])
        lines.append(f"  {'bare Spark, restarted at once':34}{'':>22}{cell:>22}{'as long':>22}")
    if result["flink"]:
        cells = "".join(f"{_cell(result['flink'][w]):>22}" for w in ("steady", "kill", "pause"))
        lines.append(f"  {'Flink, tuned, one to spare':34}{cells}")
    lines.append(load_line([load for _, side in sides for load in side["load"]]))
    lines += target_lines(result["targets"])
    return "\n".join(lines)


def load_line(loads: Sequence[float]) -> str:
    """How busy the machine was."""
    least, most = min(loads), max(loads)
    return f"  load of the machine meanwhile: {least:.1f} to {most:.1f} on {os.cpu_count()} cores"


def _cell(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({max(values):.2f})"


def target_lines(targets: list[dict[str, Any]]) -> list[str]:
    """The targets, and whether each was reached."""
    lines = []
    for t in targets:
        bound = f"at least {t['min']:g}" if "min" in t else f"at most {t['max']:g}"
        said = "reached" if t["ok"] else "MISSED"
        lines.append(f"  {t['name']}: {t['value']:.2f} ({bound}): {said}")
    return lines
