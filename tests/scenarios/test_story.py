"""The story of a live run, from what its nodes and its client have recorded."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from australis.runtime.client import Change, ChangeKind
from australis.runtime.testbed import Heard
from australis.scenarios.story import Starts, starts, story
from australis.sim.harness.story import Line


def run_of(directory: Path, began_s: float, heard: list[Heard], *told: tuple[float, Any]) -> Any:
    """A finished run whose node `a` has recorded events at these seconds."""
    began = began_s + time.time() - time.monotonic()
    (directory / "state" / "a").mkdir(parents=True)
    lines = [
        json.dumps(
            {"time": datetime.fromtimestamp(began + at_s, UTC).isoformat(), "node": "a"}
            | {"level": "info"}
            | event
        )
        for at_s, event in told
    ]
    (directory / "state" / "a" / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    cluster = SimpleNamespace(nodes={"a": None}, state="state")
    return SimpleNamespace(cluster=cluster, base=directory, base_bucket=100, heard=heard)


def phase(was: str, now: str) -> dict[str, str]:
    return {
        "event": "phase",
        "replica": "near@a",
        "output": "counts",
        "was": was,
        "now": now,
        "why": "so",
    }


def test_all_that_happened_in_its_order(tmp_path: Path) -> None:
    began_s = time.monotonic()
    heard = [
        Heard(began_s + at_s, Change(kind, bucket))
        for at_s, kind, bucket in (
            (0.5, ChangeKind.INSERTION, 101),
            (0.7, ChangeKind.INSERTION, 102),
            (4.0, ChangeKind.TENTATIVE, 103),
            (5.0, ChangeKind.UNDO, 102),
            (5.1, ChangeKind.INSERTION, 103),
            (5.2, ChangeKind.REC_DONE, -1),
        )
    ]
    events = [(1.5, phase("stable", "up-failure")), (1.2, {"event": "link_down", "peer": "e"})]
    run = run_of(tmp_path, began_s, heard, *events)
    told = story(run, began_s, [Line(1_000_000, "fault", "kill e for 4 s")])
    assert [(line.who, line.text) for line in told] == [
        ("client", "INSERTION buckets 1..2 (0 tuples), until 0.70 s"),
        ("fault", "kill e for 4 s"),
        ("a", "link_down peer e"),
        ("a", "near, counts: stable -> up-failure (so)"),
        ("client", "TENTATIVE buckets 3..3 (0 tuples), until 4.00 s"),
        ("client", "UNDO bucket 2"),
        ("client", "INSERTION buckets 3..3 (0 tuples), until 5.10 s"),
        ("client", "REC_DONE"),
    ]


def test_how_long_a_restarted_node_took(tmp_path: Path) -> None:
    began_s = time.monotonic()
    calm = [(-2.0, {"event": "started"}), (-1.0, phase("recovering", "stable"))]
    found = starts(run_of(tmp_path / "calm", began_s, [], *calm), began_s)
    assert (round(found.first_s, 2), found.again_s) == (1.0, None)
    again = [
        *calm,
        (3.0, {"event": "started"}),
        (4.25, phase("recovering", "stable")),
        (9.0, phase("up-failure", "stable")),
    ]
    found = starts(run_of(tmp_path / "again", began_s, [], *again), began_s)
    assert Starts(round(found.first_s, 2), round(found.again_s or 0, 2)) == Starts(1.0, 1.25)
    lost_its_disk = again[2:]
    found = starts(run_of(tmp_path / "lost", began_s, [], *lost_its_disk), began_s)
    assert Starts(found.first_s, round(found.again_s or 0, 2)) == Starts(0.0, 1.25)
