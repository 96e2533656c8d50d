"""`australis experiment`: what it prints, writes and exits with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from australis.cli.main import cli
from australis.kernel.errors import UserError
from research.claims import Result, own_claim
from research.predicates import at_least
from research.registry import MODULES, experiments, find

ROOT = Path(__file__).parents[2]


def australis(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "australis.cli.main", "experiment", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    close = australis("run", "dpc-singel")
    assert "'dpc-singel' is not an experiment (did you mean 'dpc-single'?)" in close.stderr
    ran = australis("run", "zzz")
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.count("\n") == 1
    assert all(name in ran.stderr for name in MODULES)


def test_json_is_one_object_and_nothing_else(tmp_path: Path) -> None:
    ran = australis("run", "dpc-failures", "--quick", "--json", "--out", str(tmp_path / "out"))
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert list(found) == ["experiment", "claims", "deviations", "tables"]
    fields = {"claim", "paper", "source", "ours", "tolerance", "ok", "known_miss"}
    assert fields == set(found["claims"][0])
    written = {p.name for p in (tmp_path / "out").iterdir()}
    assert {"dpc-failures.json", "dpc-failures.md", "dpc-failures-5-6b.svg"} <= written


def test_a_person_sees_verdicts_and_deviations() -> None:
    ran = CliRunner().invoke(cli, ["experiment", "run", "dpc-failures", "--quick"])
    assert ran.exit_code == 0
    assert "5 of 5 claims hold." in ran.stdout
    assert "Deviation:" in ran.stdout


def test_a_known_miss_is_told_with_its_reason_and_is_no_failure() -> None:
    ran = CliRunner().invoke(cli, ["experiment", "run", "contracts-speed", "--quick"])
    assert ran.exit_code == 0
    assert "4 of 5 claims hold. 1 is a known miss." in ran.stdout
    assert "Known miss: Ranges: 95% of the excess load" in ran.stdout


def test_a_claim_that_ends_unexpectedly_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = own_claim("pigs fly", 0, at_least(1))
    holding = own_claim("pigs walk", 1, at_least(1), known_miss="they are lazy")
    result = Result((failing, holding))
    monkeypatch.setattr(find("dpc-failures").__class__, "run", lambda *_: result)
    ran = CliRunner().invoke(cli, ["experiment", "run", "dpc-failures"])
    assert ran.exit_code == 1
    assert "1 of 2 claims hold. Unexpected: pigs fly; pigs walk." in ran.stdout


def test_a_missing_library_is_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    command = ["experiment", "run", "dpc-failures", "--quick", "--out", "out"]
    ran = CliRunner().invoke(cli, command)
    assert isinstance(ran.exception, UserError)
    assert "needs matplotlib" in str(ran.exception)
    assert "pip install 'australis[research]'" in str(ran.exception)


def test_the_list_names_all_with_what_they_reproduce() -> None:
    ran = CliRunner().invoke(cli, ["experiment", "list"])
    assert ran.exit_code == 0
    assert all(name in ran.stdout for name in MODULES)


def test_a_directory_that_cannot_be_written_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    ran = australis("run", "dpc-failures", "--quick", "--out", str(tmp_path / "file"))
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr


def test_experiments_are_found_by_their_names() -> None:
    assert [e.name for e in experiments()] == list(MODULES)
    with pytest.raises(UserError):
        find("nothing")
