"""`australis bench partition`: one of two inputs is disconnected for a while.

A chain of two nodes on Spark: the first merges two sources, the second counts by key in windows.
The network between the first node and one source is cut for some seconds, then it heals. The
client's deliveries are compared with the accepted delay X, and in the end with a computation over
all rows at once. Other engines are measured with a second input that is held back as long
(`research.bench.peers.partition`).
"""

from __future__ import annotations

import os
import statistics
import time
from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from australis.deployment.cluster import Engine
from australis.runtime.client import ChangeKind
from australis.runtime.testbed import Testbed, lateness
from research.bench import clusters
from research.bench.failover import WARM_UP_S, load_line, target_lines
from research.bench.peers.flink import home
from research.bench.peers.partition import PEERS, told
from research.bench.peers.partition import measure as others_measure

RATE = 500
BUCKET_S = 0.5
ACCEPTED_S = 3.0
CHAIN = """\
  merged: {union: [s1, s2]}
  counts:
    aggregate: merged
    window: 500 ms
    by: [protocol]
    compute: {n: count(*)}
"""
SETTLED_S = 8.0
LIMIT_S = 240.0
NEVER_S = 9999.0
THESIS = (
    "  thesis, figure 5-4 (one node, X = 3 s, one of three inputs cut for 20 s): latency rises to"
    " almost 3 s,\n  then tentative tuples come; a second peak of latency while it reconciles"
)

Say = Callable[[str], None]


def measure(
    failures: tuple[float, ...],
    scratch: Path | None = None,
    say: Say = print,
    *,
    engine: Engine = "spark",
    baseline: bool = True,
    peers: bool = False,
) -> dict[str, Any]:
    """Run all failures in one run, one after the other."""
    if peers:
        home()
    with clusters.scratch_directory(scratch) as root:
        path = clusters.write(
            root,
            operators=CHAIN,
            nodes={"first": engine, "second": engine, "e1": "reference", "e2": "reference"},
            replicas={"merging": ["first"], "counting": ["second"]},
            sources={"s1": "e1", "s2": "e2"},
            stream="counts",
            rate=RATE,
            bucket=f"{BUCKET_S * 1000:.0f} ms",
            max_delay=f"{ACCEPTED_S:.0f} s",
            fragments="{merging: [merged], counting: [counts]}",
        )
        say("two nodes start")
        with Testbed(path, "counts") as testbed:
            testbed.wait_until_stable()
            testbed.wait(WARM_UP_S[engine])
            began = time.monotonic()
            rows = [_one(testbed, seconds, say) for seconds in failures]
            undisturbed = _between(testbed, began, rows)
            verdict = testbed.verdict()
        names = [n for n in PEERS if peers or (baseline and n.startswith("Spark"))]
        others = others_measure(root, names, failures, RATE, say)
    wrong = verdict.lost + verdict.duplicated + (not verdict.equal)
    result = _result(rows, undisturbed, wrong, verdict.got)
    return result | {"engine": engine, "peers": others}


def _one(testbed: Testbed, seconds: float, say: Say) -> dict[str, Any]:
    """Inflict one failure of this number of seconds."""
    usual = _usual_delay(testbed)
    cut_at = time.monotonic()
    testbed.cut(["first"], "e2")
    testbed.wait(seconds)
    testbed.heal(["first"], "e2")
    healed_at = time.monotonic()
    current = partial(_current_again, testbed, healed_at, usual)
    testbed.until(lambda: current() is not None, "it did not catch up", LIMIT_S)
    testbed.until(lambda: not testbed.uncorrected, "not everything was corrected", LIMIT_S)
    caught_up = current()
    assert caught_up is not None
    done = (
        h.at
        for h in reversed(testbed.heard)
        if h.change.kind is ChangeKind.REC_DONE and h.at > cut_at
    )
    caught_up = max(caught_up, next(done, caught_up))
    told = testbed.tentative(cut_at)
    first = min((h.at for h in told), default=None)
    row = {
        "failure_s": seconds,
        "cut_at": cut_at,
        "first_tentative_s": None if first is None else first - cut_at,
        "tentative": sum(h.change.rows for h in told),
        "worst_delay_s": _worst_delay(testbed, cut_at) - usual,
        "catch_up_s": caught_up - healed_at,
        "load": os.getloadavg()[0],
        "ended": time.monotonic(),
    }
    say(
        f"cut for {seconds:g} s: {row['tentative']} tentative tuples,"
        f" caught up after {row['catch_up_s']:.1f} s"
    )
    testbed.wait(SETTLED_S)
    return row


def _current_again(testbed: Testbed, since: float, usual: float) -> float | None:
    """The moment at which stable buckets have nearly their usual latency again."""
    for h in testbed.heard[bisect_left(testbed.heard, since, key=lambda one: one.at) :]:
        late = h.at - testbed.diagram.buckets.end(h.change.bucket) / 1e6 - usual
        if h.change.kind is ChangeKind.INSERTION and late <= BUCKET_S:
            return h.at
    return None


def _usual_delay(testbed: Testbed) -> float:
    return statistics.median(lateness(testbed.heard[-20:], testbed.diagram))


def _worst_delay(testbed: Testbed, since: float) -> float:
    return max(lateness([h for h in testbed.heard if h.at >= since], testbed.diagram))


def _between(testbed: Testbed, began: float, rows: list[dict[str, Any]]) -> int:
    """The tentative buckets outside of failures."""
    told = testbed.tentative(began)
    return sum(1 for h in told if not any(r["cut_at"] <= h.at <= r["ended"] for r in rows))


def _result(
    rows: list[dict[str, Any]], undisturbed: int, wrong: int, tuples: int
) -> dict[str, Any]:
    bound = ACCEPTED_S + BUCKET_S
    targets: list[dict[str, Any]] = []
    for row in rows:
        name, first = f"{row['failure_s']:g} s", row["first_tentative_s"]
        if row["failure_s"] < ACCEPTED_S:
            targets.append({"name": f"{name}: tentative", "value": row["tentative"], "max": 0})
            continue
        targets += [
            {
                "name": f"{name}: first tentative tuple, s",
                "value": NEVER_S if first is None else first,
                "max": bound,
            },
            {
                "name": f"{name}: new results late by, s",
                "value": row["worst_delay_s"],
                "max": bound,
            },
            {
                "name": f"{name}: time to catch up, s",
                "value": row["catch_up_s"],
                "max": _most_to_catch_up_s(row["failure_s"]),
            },
        ]
    targets += [
        {"name": "tentative without a failure", "value": undisturbed, "max": 0},
        {"name": "lost, duplicated or different", "value": wrong, "max": 0},
    ]
    for target in targets:
        target["ok"] = bool(target["value"] <= target["max"])
    return {
        "bench": "partition",
        "accepted_s": ACCEPTED_S,
        "bucket_s": BUCKET_S,
        "rate": RATE,
        "tuples": tuples,
        "failures": rows,
        "targets": targets,
    }


def _most_to_catch_up_s(failure_s: float) -> float:
    """1 s after 5 s, 3 s after 60 s."""
    return 1.0 + (failure_s - 5) * 2 / 55


def table(result: dict[str, Any]) -> str:
    """The result as a table."""
    lines = [
        f"one of two inputs cut off, chain of two nodes, X = {result['accepted_s']:g} s,"
        f" buckets of {result['bucket_s']:g} s, {result['rate']:,} tuples/s each",
        f"  {'failure':>8}{'first tentative':>17}{'tentative':>11}{'worst delay':>13}"
        f"{'to catch up':>13}",
    ]
    for row in result["failures"]:
        first = row["first_tentative_s"]
        when = "none" if first is None else f"{first:.1f} s"
        lines.append(
            f"  {row['failure_s']:>6g} s{when:>17}{row['tentative']:>11}"
            f"{row['worst_delay_s']:>11.1f} s{row['catch_up_s']:>11.1f} s"
        )
    lines.append(load_line([row["load"] for row in result["failures"]]))
    lines += [THESIS, *target_lines(result["targets"])]
    if result["peers"]:
        lines.append("others, whose second input is held back as long:")
    for name, rows in result["peers"].items():
        lines += [f"  {name}", *(f"    {told(row)}" for row in rows)]
    return "\n".join(lines)
