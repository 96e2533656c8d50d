"""`australis sim`: the same options for every protocol."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from australis.cli.main import cli
from australis.kernel.errors import UserError
from australis.sim.models import NAMES, load

CHEAP = ("contracts", "ring", "movement")


def sim(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["sim", *arguments], prog_name="australis")


def test_every_model_has_a_command() -> None:
    listed = sim("--help").output
    assert all(f"  {name} " in listed for name in (*NAMES, "hotspots"))


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_the_same_options(name: str) -> None:
    output = sim(name, "--help").output
    for option in (
        *("--seed ", "--seeds A:B", "--preset NAME", "--variant NAME", "--keep-going", "--tries "),
        *("--explain TEXT", "--jobs ", "--time-limit DURATION", "--seed-limit DURATION", "--json"),
    ):
        assert option in output
    model = load(name)
    found = json.loads(sim(name, "--variant", "list", "--json").stdout)
    assert set(found["variants"]) == set(model.variants)
    assert set(json.loads(sim(name, "--preset", "list", "--json").stdout)["presets"]) == set(
        model.presets
    )


@pytest.mark.parametrize("name", CHEAP)
def test_one_seed_tells_its_story(name: str) -> None:
    ran = sim(name, "--seed", "1")
    assert ran.exit_code == 0, ran.output
    for part in (f"seed 1 of {load(name).default}", "\nfaults\n", "\nstory\n", "all promises kept"):
        assert part in ran.stdout
    assert sim(name, "--seed", "1").stdout == ran.stdout


@pytest.mark.parametrize("name", CHEAP)
def test_many_seeds_as_json(name: str) -> None:
    found = json.loads(sim(name, "--seeds", "0:3", "--json", "--jobs", "1").stdout)
    assert (found["seeds"], found["violations"]) == (4, [])
    assert found["seconds"] > 0
    assert set(found["coverage"]) == set(load(name).coverage)


def test_a_violation_is_shrunk_and_told() -> None:
    arguments = ("--seeds", "0:9", "--variant", "KeepsItsFingers", "--jobs", "1", "--tries", "15")
    ran = sim("ring", *arguments, "--json")
    assert ran.exit_code == 1
    violation = json.loads(ran.stdout)["violations"][0]
    assert (violation["seed"], violation["checker"]) == (0, "fingers")
    assert len(violation["faults"]) < violation["drawn_faults"]
    assert "promise 'fingers' broken" in violation["story"]


def test_how_something_came_about() -> None:
    ran = sim("contracts", "--seed", "1", "--explain", "Confirmed(")
    assert "how the last 'Confirmed(' came about" in ran.stdout
    assert "-> " in ran.stdout


def test_a_search_ends_when_its_time_is_over() -> None:
    arguments = ("--seeds", "0:100000", "--time-limit", "100 ms", "--jobs", "1", "--json")
    ran = sim("contracts", *arguments)
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["seeds"] < 100_000
    assert "the time was over after" in ran.stderr


def test_a_seed_that_takes_too_long_is_a_violation() -> None:
    ran = sim("ants", "--seeds", "1:1", "--seed-limit", "10 ms", "--json", "--jobs", "1")
    assert ran.exit_code == 1
    assert json.loads(ran.stdout)["violations"][0]["checker"] == "timeout"


def test_all_variants_are_shown_to_be_caught() -> None:
    ran = sim("contracts", "--variant", "all", "--json")
    assert ran.exit_code == 0
    found = json.loads(ran.stdout)["variants"]
    assert set(found) == set(load("contracts").variants)
    assert not any(one["missed"] for one in found.values())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "either --seed N or --seeds"),
        (("--seeds", "9:0"), "not a range"),
        (("--seeds", "0:1", "--time-limit", "soon"), "'--time-limit' is not a duration"),
        (("--seeds", "0:1", "--preset", "none"), "not a preset"),
    ],
)
def test_mistakes_are_told(arguments: tuple[str, ...], said: str) -> None:
    ran = sim("ring", *arguments)
    assert isinstance(ran.exception, UserError)
    assert said in str(ran.exception)
