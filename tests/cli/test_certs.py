"""`australis certs` as a person and as a program use it."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from australis.cli.main import cli, main
from australis.runtime.certs import load


def certs(*arguments: str | Path) -> Result:
    command = ["certs", *map(str, arguments)]
    return CliRunner().invoke(cli, command, prog_name="australis")


class Said:
    """The one line on standard error of a command that fails for the user's fault."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments: str | Path) -> str:
        self._monkeypatch.setattr(sys, "argv", ["australis", "certs", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        assert (ended.value.code, out, err.count("\n")) == (2, "", 1), (out, err)
        return err


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    return Said(monkeypatch, capsys)


def day(days: int) -> str:
    return f"{datetime.now(UTC) + timedelta(days=days):%Y-%m-%d}"


def test_made_then_kept_then_renewed(tmp_path: Path) -> None:
    home = tmp_path / "certs"
    result = certs(home, "--node", "n1", "--node", "n22", "--host", "n22=10.0.0.5", "--days", "30")
    assert result.exit_code == 0, result.output
    assert result.output == (
        f"made     {home}/ca.pem        until {day(3650)}\n"
        f"made     {home}/n1.pem        for 127.0.0.1, localhost, until {day(30)}\n"
        f"made     {home}/n22.pem       for 10.0.0.5, until {day(30)}\n"
        f"made     {home}/operator.pem  for 127.0.0.1, localhost, until {day(30)}\n"
    )
    assert load(home, home / "ca.pem", "n22").name == "n22"
    result = certs(home, "--node", "n1")
    assert result.output == (
        f"kept     {home}/ca.pem  until {day(3650)}\n"
        f"kept     {home}/n1.pem  for 127.0.0.1, localhost, until {day(30)}\n"
    )
    result = certs(home, "--node", "n22", "--renew")
    assert result.output == (
        f"kept     {home}/ca.pem   until {day(3650)}\n"
        f"renewed  {home}/n22.pem  for 10.0.0.5, until {day(365)}\n"
    )


def test_as_json(tmp_path: Path) -> None:
    certs(tmp_path, "--node", "n1")
    result = certs(tmp_path, "--node", "n1", "--node", "n2", "--node", "n2", "--json")
    assert result.exit_code == 0, result.output
    assert result.output.count("\n") == 1
    found = json.loads(result.output)
    assert list(found) == ["directory", "authority", "nodes"]
    assert found["authority"]["did"] == "kept"
    assert found["authority"]["until"].startswith(day(3650))
    assert {name: one["did"] for name, one in found["nodes"].items()} == {
        "n1": "kept",
        "n2": "made",
    }
    assert found["nodes"]["n2"] == {
        "did": "made",
        "certificate": f"{tmp_path}/n2.pem",
        "key": f"{tmp_path}/n2.key",
        "hosts": ["127.0.0.1", "localhost"],
        "until": found["nodes"]["n2"]["until"],
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--node", "a/b"], "'a/b' is not a node's name: up to 63 letters, digits, - and _"),
        (["--node", "ca"], "'ca' is not free as a node's name"),
        (["--node", "n1", "--days", "0"], "Invalid value for '--days': 0 is not in the range"),
        (["--node", "n1", "--days", "soon"], "Invalid value for '--days': 'soon' is not"),
        (["--node", "n1", "--host", "10.0.0.5"], "'--host' is not of the form NAME=ADDRESS: '10"),
        (["--node", "n1", "--host", "n2=::1"], "'--host n2=::1' is for 'n2', which no --node"),
        (["--node", "n1", "--host", "n1="], "'' is neither an IP address nor the name of a host"),
        ([], "Missing option '--node'"),
    ],
)
def test_mistakes(said: Said, tmp_path: Path, arguments: list[str], sentence: str) -> None:
    assert said(tmp_path / "certs", *arguments).startswith(f"australis: {sentence}")
    assert not list(tmp_path.iterdir())


def test_a_directory_that_is_none(said: Said, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert said(file, "--node", "n1") == f"australis: '{file}' cannot be written: Not a directory\n"


def test_help_teaches_with_examples() -> None:
    result = certs("--help")
    assert result.exit_code == 0
    assert "australis certs certs --node n3 --host n3=10.0.0.5" in result.output
