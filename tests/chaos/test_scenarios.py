"""Every scenario of the examples, unchanged, in both worlds, with the same verdict."""

from __future__ import annotations

from pathlib import Path

import pytest

from australis.scenarios import real, simulated
from australis.scenarios.scenario_file import load
from australis.scenarios.verdict import differences

pytestmark = pytest.mark.timeout(600)

FILES = sorted((Path(__file__).parents[2] / "examples" / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_same_in_both_worlds(file: Path, tmp_path: Path) -> None:
    scenario = load(file)
    verdicts = [simulated.run(scenario), real.run(scenario, directory=tmp_path)]
    assert all(verdict.ok for verdict in verdicts), verdicts
    assert differences(scenario, verdicts) == []
