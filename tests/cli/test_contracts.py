"""`australis contracts`: what it prints and exits with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from australis.cli.main import cli
from australis.kernel.errors import UserError

EXAMPLE = Path(__file__).parents[2] / "examples" / "federation.yaml"


def australis(*arguments: str) -> str:
    ran = CliRunner().invoke(cli, ["contracts", *arguments])
    if isinstance(ran.exception, UserError):
        raise ran.exception
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_a_file_is_checked() -> None:
    assert "ok, 4 participants with 6 contracts and 330 tasks" in australis("check", str(EXAMPLE))


@pytest.mark.parametrize("loss", ["0", "0.2"])
def test_the_example_ends_with_everybody_within_capacity(loss: str) -> None:
    found = json.loads(australis("run", str(EXAMPLE), "--loss", loss, "--json"))
    people = found["participants"]
    assert sum(one["tasks"] for one in people.values()) == 330
    assert max(one["tasks"] for one in people.values()) <= 100  # whatever gets lost
    assert found["cost"] < found["cost_before"]
    assert sum(one["earned_per_s"] for one in people.values()) == pytest.approx(0)


def test_a_person_sees_a_table() -> None:
    shown = australis("run", str(EXAMPLE))
    assert "alpha" in shown
    assert "movements of" in shown


def test_advice(tmp_path: Path) -> None:
    record = tmp_path / "load.txt"
    record.write_text("\n".join(["50"] * 90 + ["150"] * 10) + "\n")
    found = json.loads(australis("advise", str(record), "--capacity", "100", "--json"))
    assert found["contracts"] == 2  # a partner takes it all, nine times in ten; a third is too dear
    assert found["above_capacity"] == 0.1
    assert "Sign 2 contracts" in australis("advise", str(record), "--capacity", "100")
    assert "never overloaded" in australis("advise", str(record), "--capacity", "200")


@pytest.mark.parametrize(
    ("text", "said"),
    [("5\nx\n", r"load.txt:2: 'record' is no load: 'x'"), ("\n", "'record' is empty"), ("-1", "no load")],
)  # fmt: skip
def test_a_record_that_is_none_is_told(tmp_path: Path, text: str, said: str) -> None:
    record = tmp_path / "load.txt"
    record.write_text(text)
    with pytest.raises(UserError, match=said):
        australis("advise", str(record), "--capacity", "100")


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(UserError, match="there is no such file"):
        australis("check", "nowhere.yaml")
