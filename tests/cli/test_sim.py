"""`australis sim dpc` as a person and as a program use it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from australis.cli.main import cli
from australis.protocols.dpc.states import TRANSITIONS
from australis.sim.dpc.broken import VARIANTS
from research.bench import kernel

pytestmark = pytest.mark.sim

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "australis.cli.main", "sim", "dpc"]


def sim(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["sim", "dpc", *arguments], prog_name="australis")


def australis(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )


def only_object(text: str) -> dict[str, Any]:
    assert text.count("\n") == 1
    found: dict[str, Any] = json.loads(text)
    return found


# --- one seed ------------------------------------------------------------------------


def test_the_story_of_a_seed() -> None:
    result = sim("--preset", "lite", "--seed", "1")
    assert result.exit_code == 0, result.output
    for part in (
        "seed 1 of lite: diagram chain",
        "merge            2 replicas, merged from s1, s2, s3",
        "heartbeat 250 ms",
        "FAULT ",
        "MENDED ",
        "stable up to bucket ",
        "promises\n  stable       kept",
        "messages",
        "rows       ",
        "\ntrace ",
    ):
        assert part in result.output, part
    assert max(map(len, result.output.splitlines())) <= 100
    assert sim("--preset", "lite", "--seed", "1").output == result.output


def test_how_something_came_about() -> None:
    result = sim("--preset", "lite", "--seed", "1", "--explain", "Insertions(")
    assert "how the last 'Insertions(' came about" in result.output
    assert "BucketClosed(stream=" in result.output
    nothing = sim("--preset", "lite", "--seed", "1", "--explain", "never said")
    assert "is in no entry" in str(nothing.exception)


def test_a_broken_seed_as_json() -> None:
    result = sim("--preset", "lite", "--seed", "1", "--variant", "one boundary", "--json")
    assert result.exit_code == 1
    found = only_object(result.output)
    assert found["promises"]["logs"] == "BROKEN"
    (violation,) = found["violations"]
    assert (violation["seed"], violation["checker"]) == (1, "logs")
    assert "RunStable" in "\n".join(found["explained"])
    assert len(found["trace"]) == 32


# --- many seeds ----------------------------------------------------------------------


def test_many_seeds_and_what_they_covered() -> None:
    result = sim("--preset", "lite", "--seeds", "1:4", "--jobs", "2")
    assert result.exit_code == 0, result.output
    assert "4 seeds of lite in " in result.output
    assert "all promises kept" in result.output
    for phase, turn in TRANSITIONS:
        assert f"{phase.name} {turn.name} " in result.output
    assert "row 11 " in result.output
    assert "fewer than 100 times: " in result.output


def test_a_violation_is_shrunk_and_told_in_json() -> None:
    ran = australis("--seeds", "1:9", "--variant", "never releases", "--tries", "30", "--json")
    assert ran.returncode == 1, ran.stderr
    found = only_object(ran.stdout)
    (violation,) = found["violations"]
    assert violation["checker"] == "delay"
    assert 0 < len(violation["faults"]) < violation["drawn_faults"]
    assert "FAULT" in violation["story"]
    assert "promise 'delay' broken" in violation["story"]
    assert found["seeds"] == violation["seed"]
    assert set(found["coverage"]["rows"]) == {str(row) for row in range(1, 12)}
    assert set(found["coverage"]["turns"]) == {f"{p.name} {t.name}" for p, t in TRANSITIONS}
    assert found["seconds"] > 0
    assert ran.stderr == ""


def test_keep_going_collects_all_violations() -> None:
    arguments = ["--preset", "lite", "--seeds", "1:3", "--variant", "one boundary"]
    result = sim(*arguments, "--keep-going", "--json", "--jobs", "1")
    assert result.exit_code == 1
    found = only_object(result.output)
    assert [v["seed"] for v in found["violations"]] == [1, 2, 3]
    assert found["violations"][0]["story"]
    assert "RunStable" in found["violations"][0]["story"]
    again = found["violations"][1]
    assert again["story"] == again["said"]  # the same promise again
    told = sim(*arguments, "--jobs", "1")
    assert told.exit_code == 1
    assert "the shortest schedule found: 0 of 3 faults" in told.output
    assert "australis sim dpc --preset lite --variant 'one boundary' --seed 1" in told.output
    assert "1 broke a promise" in told.output


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_search_says_how_far_it_got(how: signal.Signals) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--preset", "lite", "--seeds", "1:100000", "--json", "--jobs", "2"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        start_new_session=True,
    )  # fmt: skip
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while len(children.read_text().split()) < 3:  # workers, and Python's resource tracker
        time.sleep(0.05)
    try:
        if how is signal.SIGINT:
            os.killpg(process.pid, how)  # as a terminal does it
        else:
            process.send_signal(how)
        out, err = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    found = only_object(out)
    assert found["interrupted"] is True
    assert err == f"australis: interrupted after {found['seeds']:,} of 100,000 seeds\n"


# --- what is asked for --------------------------------------------------------------


def test_the_list_of_variants() -> None:
    output = sim("--variant", "list").output
    for one in VARIANTS.values():
        assert f"  {one.name} " in output
        assert one.says in output
    assert set(only_object(sim("--variant", "list", "--json").output)["variants"]) == set(VARIANTS)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "say either --seed N or --seeds A:B"),
        (["--seed", "1", "--seeds", "1:2"], "say either --seed N or --seeds A:B"),
        (["--seeds", "9:1"], "'--seeds' is not a range A:B of seeds: '9:1'"),
        (["--seeds", "1-9"], "'--seeds' is not a range A:B of seeds: '1-9'"),
        (["--seed", "1", "--preset", "big"], "'big' is not a preset (known: swarm, lite, "),
        (["--seed", "1", "--preset", "swrm"], "did you mean 'swarm'?)"),
        (
            ["--seeds", "1:2", "--variant", "gasp"],
            "'gasp' is not a variant (did you mean 'gaps'?); 'l",
        ),
        (
            ["--seeds", "1:2", "--variant", "x"],
            f"'x' is not a variant; 'list' shows all {len(VARIANTS)}",
        ),
        (["--seeds", "1:2", "--explain", "x"], "'--explain' goes with --seed only"),
    ],
)
def test_wrong_input_is_told_in_one_sentence(arguments: list[str], sentence: str) -> None:
    assert sentence in str(sim(*arguments).exception)


def test_wrong_input_ends_with_code_2() -> None:
    ran = australis("--seeds", "9:1")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == "australis: '--seeds' is not a range A:B of seeds: '9:1'\n"


def test_help_shows_examples() -> None:
    output = sim("--help").output
    assert "australis sim dpc --seed 7" in output
    assert "Exit codes: 0 all promises kept, 1 a promise was broken, 2 wrong input." in output


# --- how fast ------------------------------------------------------------------------


def test_both_sides_of_the_bench_play_the_same_game() -> None:
    ours, theirs = kernel.australis_side(20, 100_000), kernel.simpy_side(20, 100_000)
    assert 1_500 < ours < 1_700
    assert abs(ours - theirs) <= 20


def test_bench_kernel() -> None:
    arguments = ["bench", "kernel", "--nodes", "10", "--messages", "2000", "--rounds", "1"]
    result = CliRunner().invoke(cli, [*arguments, "--json"])
    assert result.exit_code in (0, 1), result.output
    found = only_object(result.stdout)
    assert found["bench"] == "kernel"
    assert found["ours"]["messages_per_s"] > 0
    assert found["baseline"]["messages_per_s"] > 0
    (target,) = found["targets"]
    assert target["value"] == found["ratios"]["messages"]
    assert "Australis" in CliRunner().invoke(cli, arguments).stdout


def test_bench_kernel_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simpy", None)
    result = CliRunner().invoke(cli, ["bench", "kernel"])
    assert str(result.exception) == (
        "'australis bench' needs simpy, which is not installed:"
        " run pip install 'australis[research]'"
    )
