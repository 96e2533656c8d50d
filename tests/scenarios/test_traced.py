"""The checkers that look into machines, over what nodes have written down."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from australis.protocols.dpc.topology import dpc_options
from australis.runtime.node.trace import FILE
from australis.scenarios import scenario_file, traced
from australis.scenarios.real import Stage, write

SCENARIOS = Path(__file__).parents[2] / "examples" / "scenarios"
IDLE: dict[str, Any] = {
    "inputs": [{"stream": "s", "stable": 3, "overlay": 0}],
    "outputs": [
        {
            "stream": "counts", "phase": "STABLE", "available": True, "overlay": 0, "kept": 5,
            "left_behind": False,
        }
    ],
    "has_turn": False,
    "by_itself": False,
    "reads_from": [],
}  # fmt: skip
ASKS = {"wants": ["counts"], "sender": "reports"}
SENDS = {"to": "reports", "stream": "counts"}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A cluster that never runs."""
    scenario = scenario_file.load(SCENARIOS / "replica_killed.yaml")
    return Stage(write(scenario, tmp_path, "reference"), scenario.streams)


def judged(stage: Stage, *lines: tuple[int, dict[str, Any]]) -> list[str]:
    """What is said of lines that each of the two replicas has written."""
    (replicas,) = stage.cluster.replicas.values()
    (fragment,) = stage.cluster.replicas
    for number, line in lines:
        node = replicas[number]
        directory = stage.base / stage.cluster.state / node
        directory.mkdir(parents=True, exist_ok=True)
        begin = {"time": datetime.now(UTC).isoformat(timespec="microseconds"), "node": node}
        with (directory / FILE).open("a") as file:
            file.write(json.dumps(begin | {"machine": f"{fragment}@{node}"} | line) + "\n")
    return traced.broken_promises(stage, ())


def test_without_traces_there_is_nothing_to_say(stage: Stage) -> None:
    assert judged(stage) == []


def test_all_is_well(stage: Stage) -> None:
    assert judged(stage, (0, ASKS), (0, SENDS), (0, {"state": IDLE}), (1, {"state": IDLE})) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (SENDS, "sends counts to reports, which never subscribed"),
        ({"state": IDLE | {"inputs": [{"stream": "s", "stable": 10**6, "overlay": 0}]}},
         "holds 1000000 stable and 0 tentative buckets of s"),
        ({"state": IDLE | {"outputs": [IDLE["outputs"][0] | {"left_behind": True}]}},
         "upstream logs have forgotten"),
    ],
)  # fmt: skip
def test_a_broken_promise_is_told(stage: Stage, line: dict[str, Any], said: str) -> None:
    (found,) = judged(stage, (0, {"state": IDLE}), (0, line))
    assert said in found


@pytest.fixture
def in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas stabilise one at a time, which they do not by default."""
    monkeypatch.setattr(
        traced, "dpc_options", lambda *args: replace(dpc_options(*args), staggered=True)
    )


@pytest.mark.usefixtures("in_turn")
def test_two_that_have_their_turn_at_once(stage: Stage) -> None:
    turn = {"state": IDLE | {"has_turn": True}}
    (found,) = judged(stage, (0, turn), (1, turn))
    assert "stabilises while" in found


@pytest.mark.usefixtures("in_turn")
def test_one_that_was_killed_has_no_turn(stage: Stage) -> None:
    turn = {"state": IDLE | {"has_turn": True}}
    (replicas,) = stage.cluster.replicas.values()
    assert judged(stage, (0, turn)) == []
    stage.kills.append((time.time(), replicas[0]))
    assert judged(stage, (1, turn)) == []
