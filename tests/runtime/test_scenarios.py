"""Scenarios with real processes: the same files, the same verdicts as in the simulated world."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from australis.runtime import testbed
from australis.scenarios import real, simulated
from australis.scenarios.model import Expected
from australis.scenarios.scenario_file import load
from australis.scenarios.verdict import differences

pytestmark = pytest.mark.timeout(600)

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"


CHOICES = sorted(file.stem for file in EXAMPLES.glob("choice_*.yaml"))
"""What each choice of a deployment changes; four of them show that live in every test run."""
QUICK = ("choice_delay", "choice_hedged_client", "choice_never", "choice_own_delay")


@pytest.mark.parametrize(
    "name",
    [
        "source_cut_long",
        "disk_lost",
        *QUICK,
        *(pytest.param(name, marks=pytest.mark.long) for name in CHOICES if name not in QUICK),
    ],
)
def test_the_same_in_both_worlds(name: str, tmp_path: Path) -> None:
    scenario = load(EXAMPLES / f"{name}.yaml")
    verdicts = [simulated.run(scenario), real.run(scenario, directory=tmp_path)]
    assert all(verdict.ok for verdict in verdicts), verdicts
    assert differences(scenario, verdicts) == []


def test_a_wrong_expectation_is_told(tmp_path: Path) -> None:
    quiet = load(EXAMPLES / "source_cut_short.yaml")
    scenario = replace(
        quiet, faults=(), lasts_us=1_000_000, expected=Expected({"tentative": "some"})
    )
    verdict = real.run(scenario, directory=tmp_path)
    assert verdict.misses == ("tentative is 'none', expected was 'some'",)
    assert (verdict.words["stable"], verdict.logs) == ("equal", str(tmp_path))
    assert (tmp_path / "state" / "a.txt").exists()


def test_a_node_that_ends_by_itself_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = (sys.executable, "-c", "raise SystemExit('no such luck')")
    monkeypatch.setattr(testbed, "NODE", command)
    verdict = real.run(load(EXAMPLES / "source_cut_short.yaml"), directory=tmp_path)
    assert "has ended by itself: no such luck" in verdict.misses[0]


def test_only_replicas_need_spark(tmp_path: Path) -> None:
    path = real.write(load(EXAMPLES / "disk_lost.yaml"), tmp_path, "spark")
    nodes = yaml.safe_load(path.read_text())["nodes"]
    engines = {name: node["engine"] for name, node in nodes.items()}
    assert engines == {"a": "spark", "b": "spark", "e0": "reference", "e1": "reference"}
