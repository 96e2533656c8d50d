"""`australis sim hotspots`: what it prints and exits with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from australis.cli.main import cli
from australis.kernel.errors import UserError

pytestmark = pytest.mark.sim

EXAMPLE = Path(__file__).parents[2] / "examples" / "peers.yaml"


def hotspots(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["sim", "hotspots", *arguments])


def test_the_example_as_a_table() -> None:
    ran = hotspots(str(EXAMPLE), "--minutes", "10")
    assert ran.exit_code == 0, ran.output
    assert "moves from" in ran.stdout
    assert "a centre that knows everything" in ran.stdout


def test_the_example_as_json() -> None:
    found = json.loads(hotspots(str(EXAMPLE), "--minutes", "10", "--json").stdout)
    ways = found["managed_by"]
    assert set(ways) == {"nobody", "the peers", "a centre that knows everything"}
    assert ways["nobody"]["moved"] == 0
    assert ways["the peers"]["moved"] == len(found["moves"]) > 0


def test_too_much_to_do_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "peers.yaml"
    file.write_text(EXAMPLE.read_text().replace("rate: 0.4", "rate: 40"))
    ran = hotspots(str(file))
    assert isinstance(ran.exception, UserError)
    assert "times what all peers together can do" in str(ran.exception)


def test_a_file_that_is_not_there() -> None:
    ran = hotspots("nowhere.yaml")
    assert isinstance(ran.exception, UserError)
    assert str(ran.exception) == "nowhere.yaml: there is no such file"


@pytest.mark.parametrize("option", ["--minutes=0", "--changes=-1"])
def test_wrong_options_are_exit_code_2(option: str) -> None:
    assert hotspots(str(EXAMPLE), option).exit_code == 2
