"""The commands that need no Spark, and what every command says to a person."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from australis.cli.bench import engine
from australis.cli.main import cli
from australis.cli.run import run
from australis.runtime.load import load

ROOT = Path(__file__).parents[2]
NETWORK = ROOT / "examples" / "network_monitoring.yaml"
GOOD = """\
diagram: hello
sources:
  readings: {push: true, schema: "room string, celsius double"}
operators:
  hot: {filter: readings, where: celsius > 30}
  per_room: {aggregate: hot, window: 1 min, by: [room], compute: {n: count(*)}}
outputs: [hot, per_room]
"""


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments], prog_name="australis")


def australis(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The command as a person runs it."""
    command = [sys.executable, "-m", "australis.cli.main", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )


def said(*arguments: str | Path) -> str:
    """The one line on standard error of a command that fails for the user's fault."""
    ran = australis(*arguments)
    assert ran.returncode == 2, ran
    assert ran.stdout == ""
    assert ran.stderr.count("\n") == 1, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stderr


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return path


def commands(group: click.Group, *path: str) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, command in group.commands.items():
        found.append((*path, name))
        if isinstance(command, click.Group):
            found += commands(command, *path, name)
    return found


# --- help --------------------------------------------------------------------


@pytest.mark.parametrize("path", commands(cli), ids=" ".join)
def test_help_teaches_every_option(path: tuple[str, ...]) -> None:
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    result = invoke(*path, "--help")
    assert result.exit_code == 0
    assert command.help
    assert command.help.split("\n")[0] in result.output
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, f"{path} {parameter.opts} says nothing"
            assert parameter.opts[0] in result.output
    assert invoke(*path, "-h").output == result.output


def test_help_names_every_command() -> None:
    output = invoke("--help").output
    for name in ("check", "draw", "convert", "run", "bench"):
        assert f"\n  {name} " in output
    assert "network_monitoring.yaml" in output


def test_version() -> None:
    assert invoke("--version").output.startswith("australis, version ")


# --- check -------------------------------------------------------------------


def test_check(good: Path) -> None:
    result = invoke("check", "--no-types", good)
    assert result.exit_code == 0
    assert result.output == (
        f"{good}: ok (1 source, 2 operators, 2 fragments, results: hot, per_room)\n"
    )


def test_check_as_json(good: Path) -> None:
    result = invoke("check", "--no-types", "--json", good)
    assert result.exit_code == 0
    assert json.loads(result.output) == {
        "kind": "diagram",
        "diagram": "hello",
        "ok": True,
        "streams": {},
        "results": ["hot", "per_room"],
        "fragments": {"hot": ["hot"], "per_room": ["per_room"]},
    }


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("push: true", "push: true, speed: 5", "'readings' has an unknown option 'speed'"),
        ("push: true", "csv: none.csv, time: celsius", "'readings' names a file that does not"),
        ("push: true", "tcp: nowhere", "'readings' "),
    ],
)
def test_check_looks_at_options(good: Path, old: str, new: str, sentence: str) -> None:
    good.write_text(GOOD.replace(old, new))
    result = invoke("check", "--no-types", good)
    assert str(result.exception).startswith(f"{good}:3: {sentence}")


def test_the_examples_are_right() -> None:
    assert invoke("check", "--no-types", NETWORK).exit_code == 0


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (
            "cluster.yaml",
            "ok, the cluster monitoring (3 nodes; suspects on a and b) with the diagram",
        ),
        ("federation.yaml", "ok, a federation file (4 participants, 6 contracts, 330 tasks)"),
        ("placement.yaml", "ok, a placement file (7 servers, "),
        ("elasticity.yaml", "ok, an elasticity file (5 modules, 1 nodes)"),
        ("peers.yaml", "ok, a peers file (6 peers, 4 operators, 4 applications)"),
        ("scenarios/replica_killed.yaml", "ok, a scenario file (4 nodes, 2 faults)"),
    ],
)
def test_check_tells_what_a_file_is(file: str, words: str) -> None:
    path = ROOT / "examples" / file
    result = invoke("check", "--no-types", path)
    assert result.output.startswith(f"{path}: {words}"), result.output
    found = json.loads(invoke("check", "--no-types", "--json", path).output)
    assert found["ok"] is True
    assert f" {found['kind']}" in result.output


def test_check_of_a_cluster_looks_at_its_diagram(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(
        "cluster: c\ndiagram: good.yaml\n"
        'nodes: {a: {address: "127.0.0.1:7101", engine: reference}}\n'
        "replicas: {hot: [a], per_room: [a]}\nsources: {readings: a}\n"
    )
    result = invoke("check", cluster)
    assert result.exit_code == 0, result.exception
    assert "  hot " in result.output
    (tmp_path / "good.yaml").write_text(GOOD.replace("filter: readings", "filter: reading"))
    assert "good.yaml:5: 'hot' reads the unknown stream" in str(invoke("check", cluster).exception)


def test_check_of_a_file_of_no_known_kind(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("services: {web: 1}\nvolumes: {}\n")
    said = str(invoke("check", path).exception)
    assert said.startswith(f"{path}: is of no known kind (its sections are services, volumes): a")
    path.write_text("")
    assert "it has no sections" in str(invoke("check", path).exception)


# --- draw --------------------------------------------------------------------


def test_draw_as_text(good: Path) -> None:
    result = invoke("draw", good)
    assert result.exit_code == 0
    for name in ("readings", "hot", "per_room", "celsius > 30"):
        assert name in result.output
    narrow = invoke("draw", good, "--width", "60")
    assert max(map(len, narrow.output.splitlines())) <= 60


def test_draw_as_svg(good: Path, tmp_path: Path) -> None:
    result = invoke("draw", good, "--svg", "--fragments")
    assert ET.fromstring(result.output).tag.endswith("svg")
    out = tmp_path / "drawing.svg"
    quiet = invoke("draw", good, "--fragments", "--out", out)
    assert (quiet.exit_code, quiet.output) == (0, "")
    assert out.read_text(encoding="utf-8").strip() == result.output.strip()
    again = tmp_path / "again.svg"
    assert invoke("draw", good, "--svg", again, "--fragments").output == ""
    assert again.read_text(encoding="utf-8") == out.read_text(encoding="utf-8")
    for former in (["--svg", good, "--fragments"], [good, "--svg", "-", "--fragments"]):
        assert invoke("draw", *former).output == result.output
    assert invoke("draw").exit_code == 2


def test_convert_to_a_file(good: Path, tmp_path: Path) -> None:
    assert invoke("convert", good, "--out", tmp_path / "made.py").output == ""
    assert (tmp_path / "made.py").read_text(encoding="utf-8") == invoke("convert", good).output


def test_draw_text_to_a_file(good: Path, tmp_path: Path) -> None:
    out = tmp_path / "drawing.txt"
    assert invoke("draw", good, "--out", out).output == ""
    assert out.read_text(encoding="utf-8").strip() == invoke("draw", good).output.strip()


# --- convert -----------------------------------------------------------------


@pytest.mark.parametrize("path", [None, NETWORK], ids=["small", "network"])
def test_convert_both_ways(good: Path, path: Path | None, tmp_path: Path) -> None:
    path = path or good
    python, yaml = tmp_path / "made.py", tmp_path / "made.yaml"
    python.write_text(invoke("convert", path).output, encoding="utf-8")
    yaml.write_text(invoke("convert", python).output, encoding="utf-8")
    assert load(python) == load(yaml) == load(path)
    assert invoke("convert", path, "--to", "yaml").output == yaml.read_text(encoding="utf-8")
    assert invoke("convert", python, "--to", "python").output == python.read_text(encoding="utf-8")


# --- as a person runs it -----------------------------------------------------


def test_a_broken_diagram_is_told_in_one_line(good: Path) -> None:
    good.write_text(GOOD.replace("filter: readings", "filter: reading"))
    assert said("check", "--no-types", good) == (
        f"australis: {good}:5: 'hot' reads the unknown stream 'reading'"
        " (did you mean 'readings'?)\n"
    )


def test_files_that_are_none(tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    assert said("check", missing) == f"australis: {missing}: there is no such file\n"
    assert said("draw", tmp_path) == f"australis: {tmp_path}: is a directory, not a diagram\n"


def test_what_is_not_known() -> None:
    assert said("chekc", NETWORK).startswith(
        "australis: No such command 'chekc'. Did you mean 'check'?"
    )
    unknown = said("draw", NETWORK, "--colour")
    assert unknown.startswith("australis: No such option")
    assert "draw --help" in unknown


def test_no_command_shows_the_help_and_spark_is_not_imported() -> None:
    ran = australis()
    assert ran.returncode == 2
    assert ran.stderr.startswith("Usage: ")
    code = (
        "import sys; from australis.cli.main import cli; list(cli.commands.values());"
        " print([m for m in sys.modules if 'pyspark' in m])"
    )
    plain = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert plain.stdout == "[]\n"


def test_a_drawing_that_cannot_be_written(tmp_path: Path) -> None:
    out = tmp_path / "no" / "drawing.txt"
    told = said("draw", NETWORK, "--out", out)
    assert told == f"australis: '{out}' cannot be written: No such file or directory\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--for", "soon"], "'--for' is not a duration: 'soon'"),
        (["--conf", "a"], "'--conf' is not KEY=VALUE: 'a'"),
        ([], "none.yaml: there is no such file"),
    ],
)
def test_run_refuses_before_it_begins(arguments: list[str], sentence: str) -> None:
    # The file does not exist, so that nothing can begin here whatever is refused.
    assert str(invoke("run", "none.yaml", *arguments).exception).startswith(sentence)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (run, ["none.yaml", "--rows-per-batch", "0"]),
        (engine, ["--rows", "-1"]),
        (engine, ["--rounds", "0"]),
        (engine, ["--seconds", "0"]),
    ],
)
def test_numbers_out_of_range(command: click.Command, arguments: list[str]) -> None:
    # Only read, never run: a context is made but not invoked.
    with pytest.raises(click.BadParameter, match="is not in the range x>=1"):
        command.make_context("x", arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["draw", NETWORK, "--width", "wide"],
        ["convert", NETWORK, "--to", "xml"],
        ["check"],
        ["draw", NETWORK, NETWORK],
    ],
)
def test_wrong_usage_ends_with_code_2(arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "Usage: australis" in result.output


def test_a_diagram_without_functions_has_nothing_to_run_twice(good: Path) -> None:
    told = said("check", "--twice", good)
    assert "has no operator of the kind 'spark', so there is nothing to run twice" in told
    assert str(good) in told


def test_generated_tuples_are_the_same_each_time_and_fit_their_buckets(good: Path) -> None:
    from australis.runtime.regrouping import _sources

    diagram = load(good)
    (first, generated, before), second = (_sources(diagram, good.parent, 9) for _ in range(2))
    assert generated == ("readings",)
    assert (first, generated, before) == second
    numbers = list(first["readings"])
    assert numbers
    assert before < min(numbers) <= max(numbers) <= before + 9


def test_who_was_started_by_nohup_outlives_its_terminal() -> None:
    code = (
        "import os, signal\n"
        "from australis.cli.interrupts import asked_to_stop\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with asked_to_stop() as request:\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    assert not request.made\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    assert request.made\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_only_the_first_signal_interrupts_a_stop() -> None:
    code = (
        "import os, signal\n"
        "from australis.cli.interrupts import asked_to_stop\n"
        "with asked_to_stop(interrupts=True) as request:\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        raise SystemExit('not interrupted')\n"
        "    except KeyboardInterrupt:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
