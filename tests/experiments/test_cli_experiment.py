"""`australis experiment`: what it prints, writes and exits with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from australis.cli.main import cli
from australis.experiments.registry import EXPERIMENTS, find
from australis.kernel.errors import UserError

ROOT = Path(__file__).parents[2]


def australis(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "australis.cli.main", "experiment", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    ran = australis("run", "dpc-singel")
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.count("\n") == 1
    assert all(e.name in ran.stderr for e in EXPERIMENTS)


def test_json_is_one_object_and_nothing_else(tmp_path: Path) -> None:
    ran = australis("run", "dpc-failures", "--quick", "--json", "--out", str(tmp_path / "out"))
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert list(found) == ["experiment", "claims", "deviations", "tables"]
    assert {"claim", "paper", "source", "ours", "tolerance", "ok"} == set(found["claims"][0])
    written = {p.name for p in (tmp_path / "out").iterdir()}
    assert {"dpc-failures.json", "dpc-failures.md", "dpc-failures-5-6b.svg"} <= written


def test_a_person_sees_verdicts_and_deviations() -> None:
    ran = CliRunner().invoke(cli, ["experiment", "run", "dpc-failures", "--quick"])
    assert ran.exit_code == 0
    assert "8 of 8 claims hold." in ran.stdout
    assert "Deviation:" in ran.stdout


def test_the_list_names_all_with_what_they_reproduce() -> None:
    ran = CliRunner().invoke(cli, ["experiment", "list"])
    assert ran.exit_code == 0
    assert all(e.name in ran.stdout for e in EXPERIMENTS)


def test_a_directory_that_cannot_be_written_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    ran = australis("run", "dpc-failures", "--quick", "--out", str(tmp_path / "file"))
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr


def test_names_are_unique_and_found() -> None:
    assert [find(e.name) for e in EXPERIMENTS] == list(EXPERIMENTS)
    with pytest.raises(UserError):
        find("nothing")
