"""`australis scenario run` as a person and as a program use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from australis.cli.main import cli

pytestmark = pytest.mark.sim

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"
SHORT = EXAMPLES / "source_cut_short.yaml"


def invoke(*arguments: str | Path) -> Result:
    command = ["scenario", "run", "--world", "sim", *map(str, arguments)]
    return CliRunner().invoke(cli, command, prog_name="australis")


def wrong(directory: Path) -> Path:
    """A scenario that expects what does not happen."""
    diagram = EXAMPLES / "diagrams" / "two_sites.yaml"
    text = SHORT.read_text().replace("diagrams/two_sites.yaml", str(diagram))
    path = directory / "wrong.yaml"
    path.write_text(text.replace("tentative: none", "tentative: some"))
    return path


def test_as_expected() -> None:
    result = invoke(SHORT)
    assert result.exit_code == 0, result.output
    line, summary = result.stdout.splitlines()
    assert line.split()[:4] == ["source_cut_short", "sim", "ok", "stable"]
    assert "tentative none" in line
    assert summary == "1 of 1 scenarios as expected in sim"
    assert result.stderr == "source_cut_short, sim\n"


def test_not_as_expected(tmp_path: Path) -> None:
    result = invoke(SHORT, wrong(tmp_path))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[1].split()[1:3] == ["sim", "FAILS"]
    assert lines[2:] == [
        "  tentative is 'none', expected was 'some'",
        "1 of 2 scenarios as expected in sim",
    ]


def test_as_json(tmp_path: Path) -> None:
    result = invoke("--json", SHORT, wrong(tmp_path))
    assert (result.exit_code, result.stderr) == (1, "")
    told = json.loads(result.stdout)
    assert [one["ok"] for one in told["scenarios"]] == [True, False]
    verdict = told["scenarios"][0]["verdicts"]["sim"]
    assert verdict["words"]["stable"] == "equal"
    assert verdict["facts"]["got"] == verdict["facts"]["expected"]
    assert told["scenarios"][1]["verdicts"]["sim"]["misses"]
    assert told["ok"] is False


def test_a_wrong_file_is_one_sentence(tmp_path: Path) -> None:
    path = wrong(tmp_path)
    path.write_text(path.read_text().replace("from: e1", "from: e9"))
    command = [sys.executable, "-m", "australis.cli.main", "scenario", "run", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    line = 1 + path.read_text().splitlines().index(
        "  - {cut: [a, b], from: e9, at: 1 s, for: 2500 ms}"
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    known = "(known: a, b, e0, e1, client)"
    assert ran.stderr == f"australis: {path}:{line}: 'cut' names an unknown node 'e9' {known}\n"
