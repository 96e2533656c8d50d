"""`australis sim movement`: what it prints and exits with."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from australis.cli.main import cli
from australis.kernel.errors import UserError

pytestmark = pytest.mark.sim


def movement(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["sim", "movement", *arguments])


def test_one_seed_tells_its_story() -> None:
    ran = movement("--seed", "7")
    assert ran.exit_code == 0, ran.output
    assert "Handover" in ran.stdout
    assert "all promises kept" in ran.stdout


def test_many_seeds_as_json() -> None:
    found = json.loads(movement("--seeds", "0:9", "--json", "--jobs", "1").stdout)
    assert found["seeds"] == 10
    assert found["violations"] == []
    assert found["counts"]["moved"] > 10


def test_a_broken_promise_is_exit_code_1() -> None:
    ran = movement("--seeds", "0:99", "--variant", "SkipsOne", "--jobs", "1", "--tries", "20")
    assert ran.exit_code == 1
    assert "seed 0: wrong: tuple " in ran.stdout
    assert "the shortest schedule found: " in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "either --seed N or --seeds"),
        (("--seeds", "9:0"), "not a range"),
        (("--seeds", "0:1", "--variant", "Nothing"), "not a variant"),
    ],
)
def test_mistakes_are_told(arguments: tuple[str, ...], said: str) -> None:
    ran = movement(*arguments)
    assert isinstance(ran.exception, UserError)
    assert said in str(ran.exception)
