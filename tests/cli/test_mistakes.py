"""What a new user does wrong is told in one sentence; every command's help shows how it goes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from australis.cli.main import cli
from australis.cli.options import Duration, former
from australis.kernel.errors import UserError

EXAMPLES = Path(__file__).parents[2] / "examples"


def said(*arguments: str | Path) -> str:
    """The one sentence of a command that fails for the user's fault."""
    error = CliRunner().invoke(cli, [str(a) for a in arguments]).exception
    assert isinstance(error, UserError), error
    return str(error)


@pytest.mark.parametrize(
    ("command", "file", "words"),
    [
        ("up", "network_monitoring.yaml", "is a diagram, not a cluster: try `australis run "),
        ("status", "federation.yaml", "is a federation, not a cluster: try `australis contracts"),
        ("down", "placement.yaml", "is a placement file, not a cluster: try `australis place "),
        ("run", "cluster.yaml", "is a cluster, not a diagram: try `australis up "),
        ("draw", "elasticity.yaml", "is an elasticity file, not a diagram: try `australis elast"),
        ("convert", "peers.yaml", "is a peers file, not a diagram: try `australis sim hotspots "),
        ("place", "cluster.yaml", "is a cluster, not a placement file: try `australis up "),
        ("elasticity", "peers.yaml", "is a peers file, not an elasticity file: try "),
        ("contracts check", "cluster.yaml", "is a cluster, not a federation: try "),
        ("sim hotspots", "federation.yaml", "is a federation, not a peers file: try "),
        ("scenario run", "cluster.yaml", "is a cluster, not a scenario: try `australis up "),
    ],
)
def test_a_file_of_another_kind(command: str, file: str, words: str) -> None:
    path = EXAMPLES / file
    assert said(*command.split(), path).startswith(f"{path}: {words}")


@pytest.mark.parametrize(
    "command",
    [
        "check", "draw", "run", "up", "status", "down", "tail", "place", "elasticity",
        "contracts check", "sim hotspots", "scenario run",
    ],
)  # fmt: skip
def test_a_file_that_is_not_there(command: str) -> None:
    more = ["s"] if command == "tail" else []
    assert said(*command.split(), "none.yaml", *more) == "none.yaml: there is no such file"


def test_broken_yaml_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("a: [b\n")
    assert said("check", path).startswith(f"{path}:2: ")


def commands(group: click.Group, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, with its name."""
    for key in group.list_commands(click.Context(group)):
        one = group.get_command(click.Context(group), key)
        assert one is not None
        if isinstance(one, click.Group):
            yield from commands(one, f"{name}{key} ")
        else:
            yield f"{name}{key}", one


def test_commands_take_a_length_of_time_under_one_name() -> None:
    for name, one in commands(cli):
        shown = {opt for p in one.params if not getattr(p, "hidden", False) for opt in p.opts}
        assert not shown & {"--seconds", "--minutes", "--duration"}, name


def test_every_help_shows_an_example() -> None:
    told = {name: one.help or "" for name, one in commands(cli)}
    lacking = [name for name, text in told.items() if f"australis {name}" not in text]
    assert [name for name in lacking if not name.startswith("bench ")] == []


@click.command()
@click.option("--for", "seconds", type=Duration(longest_s=3600, least_s=1), default="60 s")
@former("--seconds", into="seconds", kind=click.FloatRange(min=0))
def takes(seconds: float) -> None:
    """Print how long."""
    click.echo(f"{seconds:g}")


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [([], "60"), (["--for", "2 min"], "120"), (["--seconds", "5"], "5")],
)
def test_a_former_option_means_the_same(arguments: list[str], seconds: str) -> None:
    assert CliRunner().invoke(takes, arguments).output == f"{seconds}\n"
    assert "--seconds" not in CliRunner().invoke(takes, ["--help"]).output


@pytest.mark.parametrize("wrong", ["5", "soon", "2 h", "1 ms"])
def test_a_duration_that_is_none(wrong: str) -> None:
    error = CliRunner().invoke(takes, ["--for", wrong]).exception
    assert isinstance(error, UserError)
    assert str(error).startswith("'--for' is ")


def test_ctrl_c_ends_many_seeds_and_their_workers() -> None:
    command = [sys.executable, "-m", "australis.cli.main", "sim", "ants", "--seeds", "1:100000"]
    with subprocess.Popen(
        [*command, "--jobs", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        deadline = time.monotonic() + 30
        while len(children.read_text().split()) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1)
        running.send_signal(signal.SIGINT)
        _, error = running.communicate(timeout=60)  # workers that live on would hold the pipe
    assert running.returncode == 130
    assert error.startswith("australis: interrupted after ")
    assert error.count("\n") == 1
