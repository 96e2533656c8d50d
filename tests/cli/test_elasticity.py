"""`australis elasticity`: what it answers, prints and exits with."""

from __future__ import annotations

import json
import sys
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from australis.cli.main import cli, main
from australis.elasticity.equilibrium import best_equilibrium, integer_optimum, social_optimum
from australis.elasticity.generate import object_recognition
from australis.elasticity.incentives import cooperate
from australis.elasticity.rounding import Rounding, whole_cores

EXAMPLE = Path(__file__).parents[2] / "examples" / "elasticity.yaml"
NAMES = ["dispatcher", "denoiser-1", "denoiser-2", "edge-detector", "recognizer"]
TAKES_S = [0.1, 2.48, 3.66, 7.8, 14.44]
PARTS = [1.0, 0.5, 0.5, 1.0, 1.0]
PRICES = [0.00483, 0.00483, 0.00483, 0.0177, 0.0177]
NODES = "nodes:\n"
TIED = """\
arrivals:
  in: {every: 100 ms}
modules:
  in: {takes: 10 ms, delay_price: 1, core_price: 0.001, most: 1}
  a: {takes: 1 s, delay_price: 1, core_price: 0.001, most: 99}
  b: {takes: 1 s, delay_price: 1, core_price: 0.001, most: 99}
arcs:
  in: {a: 1}
  a: {b: 1}
nodes:
  rack: {cores: 5, modules: [a, b]}
"""
TWO_SOURCES = """\
arrivals:
  north: {rate: 3}
  south: {rate: 1}
modules:
  north: {takes: 100 ms, delay_price: 1, core_price: 0.01, most: 4}
  south: {takes: 200 ms, delay_price: 1, core_price: 0.01, most: 4}
  both: {takes: 1 s, delay_price: 1, core_price: 0.01, most: 3}
arcs:
  north: {both: 1}
  south: {both: 1}
"""


def shown(*arguments: str | Path) -> str:
    ran = CliRunner().invoke(cli, ["elasticity", *map(str, arguments)])
    assert ran.exit_code == 0, ran.exception or ran.output
    return ran.stdout


def answers(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shown(*arguments, "--json"))
    return found


def column(found: dict[str, Any], key: str) -> list[Any]:
    assert list(found["modules"]) == NAMES
    return [one[key] for one in found["modules"].values()]


def changed(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    """The example with something else in it."""
    text = EXAMPLE.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / "graph.yaml"
    file.write_text(text)
    return file


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "graph.yaml"
    file.write_text(text)
    return file


# --- the paper's application ----------------------------------------------------------------------


def test_cores_that_modules_would_choose_alone() -> None:
    """Table III and expression 10, for a task every half second."""
    found = answers(EXAMPLE)
    assert [round(n, 1) for n in column(found, "alone")] == [1.0, 8.0, 8.0, 14.8, 20.2]
    assert column(found, "alone")[4] == pytest.approx(sqrt(14.44 * 0.5 / 0.0177))
    assert column(found, "part") == PARTS
    assert column(found, "most") == [1, 8, 8, 32, 32]


def test_everybody_for_itself_as_by_hand_and_by_the_model() -> None:
    """The recognizer has its ideal number of cores, the others what they need beside it."""
    found = answers(EXAMPLE)
    pace_s = 14.44 / sqrt(14.44 * 0.5 / 0.0177)
    needed = [v * t / pace_s for v, t in zip(PARTS, TAKES_S, strict=True)]
    assert column(found, "selfish") == pytest.approx(needed)
    cost = 3.5 * pace_s + sum(n * price for n, price in zip(needed, PRICES, strict=True))
    selfish = found["choices"]["selfish"]["parts"]
    assert selfish == pytest.approx(
        {"cores": sum(needed), "completed_per_s": 1 / pace_s, "cost": cost}
    )
    assert selfish["cost"] == pytest.approx(
        best_equilibrium(object_recognition().arriving(0.5)).cost
    )


def test_with_incentives_all_tasks_are_completed() -> None:
    found = answers(EXAMPLE)
    needed = [v * t / 0.5 for v, t in zip(PARTS, TAKES_S, strict=True)]
    assert column(found, "with_incentives") == pytest.approx(needed)
    assert column(found, "cores") == [1, 3, 4, 16, 29]
    assert column(found, "busy") == pytest.approx([0.2, 2.48 / 3, 3.66 / 4, 15.6 / 16, 28.88 / 29])
    assert column(found, "pays")[1] == pytest.approx(0.5 * 1.0 + 3 * 0.00483)
    assert column(found, "pays")[4] == pytest.approx(0.5 * 0.5 + 29 * 0.0177)
    assert column(found, "incentive") == pytest.approx([0, 0, 0, 0.1 * 0.0177, 0.6 * 0.0177])
    assert found["rounds"] == 9
    assert found["arrivals_per_s"] == found["completed_per_s"] == 2.0
    assert found["bottlenecks"] == [{"module": None, "why": "arrivals"}]
    assert found["busiest"] == "recognizer"
    assert found["nodes"] == {"rack": {"cores": 48, "free": 3}}


def test_costs_and_the_price_of_stability() -> None:
    found = answers(EXAMPLE)
    game = object_recognition().arriving(0.5)
    selfish, optimum = best_equilibrium(game), social_optimum(game)
    whole = 3.5 * 0.5 + 45 * 0.0177 + 8 * 0.00483
    choices = found["choices"]
    assert choices["incentives"]["parts"]["cost"] == pytest.approx(cooperate(game).profile.cost)
    assert choices["optimum"]["parts"]["cost"] == pytest.approx(optimum.cost)
    assert choices["optimum"]["whole"]["cost"] == pytest.approx(integer_optimum(game).cost)
    assert choices["incentives"]["whole"]["cost"] == pytest.approx(whole)
    assert found["cost"] == pytest.approx(whole)
    assert choices["optimum"]["whole"]["cores"] == 53
    assert found["price_of_stability"] == pytest.approx(selfish.cost / optimum.cost)
    assert found["price_of_stability"] > 1.19
    assert found["price_of_stability_reported"] == pytest.approx(optimum.cost / selfish.cost)
    assert found["price_of_stability_with_incentives"] == pytest.approx(1.0)


def test_one_more_core_is_not_worth_it_where_all_are_completed() -> None:
    found = answers(EXAMPLE)
    dispatcher, *others = column(found, "one_more")
    assert dispatcher is None
    assert [one["changes_cost"] for one in others] == pytest.approx(PRICES[1:])
    assert not any(one["is_worth_it"] for one in others)


def test_the_object_has_these_keys_and_no_others() -> None:
    found = answers(EXAMPLE, "--cores", "recognizer=20")
    assert set(found) == {
        *("arrivals_per_s", "completed_per_s", "cost", "bottlenecks", "busiest", "modules"),
        *("nodes", "choices", "rounds", "rounding", "price_of_stability"),
        *("price_of_stability_reported", "price_of_stability_with_incentives"),
    }
    assert set(found["modules"]["recognizer"]) == {
        *("part", "alone", "selfish", "with_incentives", "incentive", "most", "node", "asked"),
        *("cores", "busy", "pays", "one_more"),
    }
    assert list(found["choices"]) == ["selfish", "incentives", "optimum", "asked"]
    figures = {"cores", "completed_per_s", "cost"}
    assert all(set(one["whole"]) == figures for one in found["choices"].values())
    assert found["choices"]["asked"]["parts"] is None


# --- what is asked ----------------------------------------------------------------------------------


def test_given_cores_are_answered_for() -> None:
    found = answers(EXAMPLE, "--cores", "recognizer=20", "--cores", "edge-detector=12")
    assert column(found, "cores") == [1, 3, 4, 12, 20]
    assert column(found, "asked") == [False, False, False, True, True]
    assert found["completed_per_s"] == pytest.approx(20 / 14.44)
    assert found["bottlenecks"] == [{"module": "recognizer", "why": "asked"}]
    more = found["modules"]["recognizer"]["one_more"]
    assert more["changes_cost"] == pytest.approx(3.5 * (14.44 / 21 - 14.44 / 20) + 0.0177)
    assert more["is_worth_it"]
    assert found["modules"]["edge-detector"]["one_more"]["changes_cost"] == pytest.approx(0.0177)
    game = object_recognition().arriving(0.5)
    cores = dict(zip(NAMES, [1, 3, 4, 12, 20], strict=True))
    assert found["choices"]["asked"]["whole"]["cost"] == pytest.approx(game.total(cores))
    assert found["cost"] == found["choices"]["asked"]["whole"]["cost"]


def test_a_module_may_be_as_slow_as_its_limit_allows(tmp_path: Path) -> None:
    text = EXAMPLE.read_text().replace("500 ms", "400 ms")
    file = written(tmp_path, text[: text.index(NODES)])
    found = answers(file)
    assert found["modules"]["recognizer"]["cores"] == 32
    assert found["modules"]["recognizer"]["one_more"] is None
    assert found["bottlenecks"] == [{"module": "recognizer", "why": "limit"}]
    assert found["completed_per_s"] == pytest.approx(32 / 14.44)
    assert found["nodes"] == {}
    assert "The bottleneck is recognizer with 32 cores: it may have no more." in shown(file)


def test_a_node_may_be_the_reason(tmp_path: Path) -> None:
    """31 cores of 48 for the recognizer leave 17, and at that pace the edge detector needs 16.7."""
    file = changed(tmp_path, ("500 ms", "400 ms"))
    found = answers(file)
    assert column(found, "cores")[3:] == [17, 31]
    assert column(found, "node") == [None, None, None, "rack", "rack"]
    assert column(found, "one_more")[3:] == [None, None]
    assert found["nodes"]["rack"]["free"] == 0
    assert found["bottlenecks"] == [{"module": "recognizer", "why": "node"}]
    assert found["choices"]["optimum"]["whole"]["completed_per_s"] == pytest.approx(31 / 14.44)
    assert "recognizer with 31 cores: its node has too few (rack)." in shown(file)


def test_a_core_that_is_left_is_not_enough_for_two(tmp_path: Path) -> None:
    found = answers(written(tmp_path, TIED))
    assert [found["modules"][name]["cores"] for name in "ab"] == [2, 2]
    assert found["nodes"]["rack"]["free"] == 1
    assert found["bottlenecks"] == [{"module": name, "why": "node"} for name in "ab"]
    assert not found["modules"]["a"]["one_more"]["is_worth_it"]


def test_who_is_as_slow_as_one_that_cannot_be_faster_is_no_bottleneck(tmp_path: Path) -> None:
    text = TIED[: TIED.index("nodes:")].replace("0.001, most: 99", "0.001, most: 2", 1)
    found = answers(written(tmp_path, text))
    assert [found["modules"][name]["cores"] for name in "ab"] == [2, 2]
    assert found["bottlenecks"] == [{"module": "a", "why": "limit"}]


def test_the_price_may_be_the_reason() -> None:
    """Without incentives nobody takes more; one more for all together would be worth it."""
    found = answers(EXAMPLE, "--rounds", "1")
    assert column(found, "cores") == [1, 2, 3, 11, 21]
    assert column(found, "incentive") == [0.0] * 5
    assert found["rounds"] == 1
    assert found["bottlenecks"] == [{"module": "edge-detector", "why": "price"}]
    more = found["modules"]["edge-detector"]["one_more"]["changes_cost"]
    assert more == pytest.approx(3.5 * (14.44 / 21 - 7.8 / 11) + 0.0177)
    said = (
        "edge-detector with 11 cores: it takes no more at their price; one more would be worth it."
    )
    assert said in shown(EXAMPLE, "--rounds", "1")


def test_rounding_may_be_the_reason() -> None:
    found = answers(EXAMPLE, "--rounds", "1", "--rounding", "nearest")
    game = object_recognition().arriving(0.5)
    nearest = whole_cores(game, best_equilibrium(game).degrees, Rounding.NEAREST)
    assert column(found, "cores") == list(nearest.values()) == [1, 2, 3, 11, 20]
    assert found["rounding"] == "nearest"
    assert found["bottlenecks"] == [{"module": "recognizer", "why": "rounding"}]


def test_cores_that_do_not_help_may_be_the_reason(tmp_path: Path) -> None:
    found = answers(changed(tmp_path, ("takes: 14.44 s", "takes: 14.44 s, fastest: 10")))
    assert found["modules"]["recognizer"]["cores"] == 10
    assert found["bottlenecks"] == [{"module": "recognizer", "why": "fastest"}]
    assert found["modules"]["recognizer"]["one_more"]["changes_cost"] == pytest.approx(0.0177)


def test_increments_of_the_file_and_of_the_command(tmp_path: Path) -> None:
    game = object_recognition().arriving(0.5)
    file = changed(tmp_path, ("increment: 0.1, rounds: 50", "increment: 0.3, rounds: 2"))
    for arguments, expected in (
        ((file,), cooperate(game, 0.3, 2)),
        ((file, "--rounds", "3"), cooperate(game, 0.3, 3)),
        ((file, "--increment", "0.05"), cooperate(game, 0.05, 2)),
    ):
        found = answers(*arguments)
        assert column(found, "incentive") == pytest.approx(list(expected.incentives.values()))
        assert column(found, "with_incentives") == pytest.approx(
            list(expected.profile.degrees.values())
        )


def test_several_sources(tmp_path: Path) -> None:
    """Of 4 tasks a second, 3 are completed: the module behind both has no more cores."""
    file = written(tmp_path, TWO_SOURCES)
    found = answers(file)
    assert list(found["modules"]) == ["north", "south", "both"]
    assert [one["part"] for one in found["modules"].values()] == [0.75, 0.25, 1.0]
    assert found["arrivals_per_s"] == pytest.approx(4.0)
    assert found["completed_per_s"] == pytest.approx(3.0)
    assert found["bottlenecks"] == [{"module": "both", "why": "limit"}]
    assert found["choices"]["incentives"]["whole"]["cores"] == 5
    assert "(sources)" not in shown(file)


# --- for people ---------------------------------------------------------------------------------------


def test_a_person_sees_tables_and_sentences() -> None:
    said = shown(EXAMPLE)
    assert max(map(len, said.splitlines())) <= 120
    lines = [line.strip() for line in said.splitlines()]
    row = next(line for line in lines if line.startswith("recognizer"))
    assert row.split()[1:8] == ["100%", "20.20", "20.20", "28.88", "29", "99.6%", "0.7633"]
    assert row.endswith("+0.0177, is not worth it")
    assert next(line for line in lines if line.startswith("dispatcher")).endswith("0.2548")
    assert "2 tasks a second come, 2 are completed." in lines
    assert "Nothing holds them up; recognizer has the least time to spare (99.6% busy)." in lines
    assert "Price of stability: 1.197, upside down as the paper reports it 0.835;" in said
    assert "with incentives 1.000, after 9 rounds." in said
    optimum = next(line for line in lines if line.startswith("social optimum"))
    assert optimum.split()[2:] == ["50.82", "2", "2.5679", "53", "2", "2.5851"]


def test_a_person_sees_what_was_asked() -> None:
    said = shown(EXAMPLE, "--cores", "recognizer=20")
    assert "asked" in said.splitlines()[1]
    assert "with 20 cores: these were asked about; one more would be worth it." in said
    assert "-0.1026, is worth it" in said
    assert "as asked" in said


# --- mistakes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--cores", "recognizer"], "'--cores' should be MODULE=N, not 'recognizer'"),
        (["--cores", "recognizer=-1"], "'--cores' should be MODULE=N, not 'recognizer=-1'"),
        (["--cores", "=3"], "'--cores' should be MODULE=N, not '=3'"),
        (["--cores", "recognizer=2.5"], "'--cores' should be MODULE=N, not 'recognizer=2.5'"),
        (["--cores", "nobody=3"], "'nobody' is asked about but is no module"),
        (["--cores", "recognizer=0"], "'recognizer' may have 1 to 32 cores, not 0"),
        (["--cores", "recognizer=33"], "'recognizer' may have 1 to 32 cores, not 33"),
        (
            ["--cores", "recognizer=9", "--cores", "recognizer=8"],
            "'recognizer' is asked about twice",
        ),
        (
            ["--cores", "edge-detector=20"],
            "'rack' has only 48 cores (edge-detector: 20, recognizer: 29)",
        ),
        (["--increment", "2"], "'increment' is 2: it should be a part of a core's price"),
        (["--increment", "nan"], "'increment' is nan: it should be a part of a core's price"),
        (["--rounds", "0"], "Invalid value for '--rounds': 0 is not in the range x>=1."),
        (["--rounding", "down"], "Invalid value for '--rounding': 'down' is not one of"),
    ],
)
def test_what_cannot_be_asked(
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert told(monkeypatch, capsys, EXAMPLE, *arguments).startswith(f"australis: {said}")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("most: 1}", "most: 0}", "10: 'dispatcher' has a setting 'most' that should be a whole number"),
        ("takes: 7.8 s, ", "", "15: 'edge-detector' needs 'takes' or 'samples'"),
        ("cores: 48", "cores: 1", "25: 'rack' has 1 cores for 2 modules, which need one each"),
        ("denoiser-2: 0.5", "denoiser-2: 0.4", "19: 'dispatcher' sends on with probabilities that"),
        ("{recognizer: 1}", "{denoiser-1: 1}", "20: 'denoiser-1' is on a cycle: denoiser-1 -> "),
        ("arrivals:", "departures:", "3: 'departures' is not a section of an elasticity file"),
    ],
)  # fmt: skip
def test_mistakes_in_a_file_are_told_with_their_place(
    tmp_path: Path,
    old: str,
    new: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = changed(tmp_path, (old, new))
    assert told(monkeypatch, capsys, file).startswith(f"australis: {file}:{said}")


def test_a_file_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(monkeypatch, capsys, "nowhere.yaml")
    assert said == "australis: nowhere.yaml: there is no such file\n"


def told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str | Path
) -> str:
    """The one line of a command that ends with code 2."""
    monkeypatch.setattr(sys, "argv", ["australis", "elasticity", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err
