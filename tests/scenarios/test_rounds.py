"""Rounds of drawn scenarios and `australis chaos`, with a live run in their place."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from australis.cli.main import cli
from australis.kernel.errors import UserError
from australis.scenarios import rounds
from australis.scenarios.model import Scenario
from australis.scenarios.rounds import RESULTS, SETTINGS, Rounds
from australis.scenarios.verdict import Facts, Judged, Verdict

FACTS = Facts(10, 10, 0, 0, 3, 0.5, 0.25, Judged(40, 12, 2.5, 7, 3, ()), 1.5)
NOTHING = Judged(0, 0, 2.5, 0, 0, ("a",))


@dataclass
class Live:
    """Stands for `real.run`: remembers the seeds, and lets some fail."""

    fails: set[int] = field(default_factory=set)
    interrupted: set[int] = field(default_factory=set)
    unjudged: set[int] = field(default_factory=set)
    ran: list[int] = field(default_factory=list)

    def __call__(self, scenario: Scenario, engine: str, say: Any, directory: Path) -> Verdict:
        seed = int(scenario.name.rpartition("_")[2])
        say("starting")
        (directory / "cluster.yaml").write_text("")
        if seed in self.interrupted:
            raise KeyboardInterrupt
        self.ran.append(seed)
        if seed in self.unjudged:
            return Verdict(scenario.name, "live", {}, (), replace(FACTS, judged=NOTHING))
        if seed not in self.fails:
            return Verdict(scenario.name, "live", {}, (), FACTS)
        story = ("    1.00  fault            kill a for 1 s",)
        misses = ("a promise was broken: stable",)
        return Verdict(scenario.name, "live", {}, misses, FACTS, str(directory), story)


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Live:
    stand_in = Live()
    monkeypatch.setattr(rounds.real, "run", stand_in)
    return stand_in


def chaos(*arguments: str | Path) -> Result:
    command = ["chaos", "--jobs", "1", *map(str, arguments)]
    return CliRunner().invoke(cli, command, prog_name="australis")


def test_each_round_has_its_seed(live: Live, tmp_path: Path) -> None:
    result = chaos("--rounds", "3", "--seed", "5", "--resume", tmp_path)
    assert result.exit_code == 0, result.output
    assert live.ran == [5, 6, 7]
    lines = result.stdout.splitlines()
    assert lines[0].split()[:4] == ["round", "0", "seed", "5"]
    assert lines[-1] == "all promises kept"
    assert "3 rounds" in lines[-2]
    assert "0 lost" in lines[-2]
    assert (
        "judged are 120 delays (36 during faults), masking for 8 s, 21 tentative buckets by content"
        in lines[-2]
    )
    assert "round 1 of 3, 0 s: starting" in result.stderr


def test_a_round_in_which_nothing_was_judged_is_named(live: Live, tmp_path: Path) -> None:
    live.unjudged = {1}
    result = chaos("--rounds", "3", "--resume", tmp_path)
    assert result.exit_code == 0
    what = "no delay, no lane, since the trace of a was too large"
    assert result.stdout.count(f"  judged {what}") == 1
    assert f"round 1 judged {what}" in result.stdout.splitlines()
    told = json.loads(chaos("--rounds", "3", "--resume", tmp_path, "--json").stdout)
    assert [*told["unjudged"]] == ["1"]
    assert told["judged"]["delays"] == 80


def test_finished_rounds_are_not_repeated(live: Live, tmp_path: Path) -> None:
    live.interrupted = {2}
    result = chaos("--rounds", "4", "--resume", tmp_path)
    assert result.exit_code == 130
    assert f"2 of 4 rounds are finished; go on with `australis chaos --rounds 4 --resume {tmp_path}`" in result.stderr  # fmt: skip
    assert not (tmp_path / "round-0002").exists()
    live.interrupted = set()
    with (tmp_path / RESULTS).open("ab") as file:
        file.write(b'{"round": 2, "se')  # killed while it wrote
    assert chaos("--rounds", "4", "--resume", tmp_path).exit_code == 0
    assert live.ran == [0, 1, 2, 3]
    assert sorted(Rounds.open(tmp_path, None, None).finished()) == [0, 1, 2, 3]


def test_the_story_of_the_first_failure(live: Live, tmp_path: Path) -> None:
    live.fails = {1, 2}
    result = chaos("--rounds", "4", "--resume", tmp_path)
    assert result.exit_code == 1
    assert live.ran == [0, 1]
    assert "the story of round 1 (seed 1)" in result.stdout
    assert "kill a for 1 s" in result.stdout
    assert f"australis scenario run {tmp_path / 'scenarios' / '0001.yaml'}" in result.stdout
    assert "1 of 2 rounds broke a promise" in result.stdout
    assert "a promise was broken: stable" in (tmp_path / "round-0001" / "story.txt").read_text()
    assert not (tmp_path / "round-0000").exists()
    result = chaos("--rounds", "4", "--resume", tmp_path, "--keep-going", "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert (told["ok"], told["rounds"], told["broken"]) == (False, 4, [1, 2])
    assert told["all"][1]["story"]
    assert told["all"][3]["facts"]["settled_s"] == 0.25


def test_a_directory_keeps_its_settings(live: Live, tmp_path: Path) -> None:
    Rounds.open(tmp_path, "spark", 7)
    assert Rounds.open(tmp_path, None, None).settings.engine == "spark"
    with pytest.raises(
        UserError, match="'--engine' is reference, but these rounds were begun with"
    ):
        Rounds.open(tmp_path, "reference", 7)
    with pytest.raises(UserError, match="'--seed' is 8, but these rounds were begun with 7"):
        Rounds.open(tmp_path, None, 8)
    (tmp_path / SETTINGS).write_text("no")
    with pytest.raises(UserError, match="is not of 'australis chaos'"):
        Rounds.open(tmp_path, None, None)
