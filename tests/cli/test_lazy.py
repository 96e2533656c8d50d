"""What is imported when: help and `import australis` load neither arrays nor the simulator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from australis.cli.lazy import LazyCommand, LazyGroup
from australis.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[2]
HEAVY = ("numpy", "pandas", "pyarrow", "pyspark", "rich", "australis.sim", "australis.runtime")


HEAVY_FOR_HELP = (
    *("numpy", "pandas", "pyarrow", "pyspark", "msgspec"),
    *("australis.protocols", "australis.scenarios", "australis.sim", "australis.runtime.node"),
)
"""What no command needs to describe itself."""


def loaded(code: str, heavy: tuple[str, ...] = HEAVY) -> list[str]:
    """The heavy modules that a new process has loaded after this code."""
    report = f"import sys; print('loaded', *[m for m in {heavy!r} if m in sys.modules])"
    command = [sys.executable, "-c", f"{code}\n{report}"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    return ran.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]], ids=" ".join)
def test_help_loads_no_command(arguments: list[str]) -> None:
    code = f"from australis.cli.main import cli; cli.main({arguments}, standalone_mode=False)"
    assert loaded(code) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_loads_neither_arrays_nor_nodes(name: str) -> None:
    code = (
        "from australis.cli.main import cli\n"
        f"try: cli.main([{name!r}, '--help'], standalone_mode=False)\n"
        "except SystemExit: pass"
    )
    assert loaded(code, HEAVY_FOR_HELP) == []


def test_the_help_of_run_loads_no_terminal_library() -> None:
    code = "from australis.cli.main import cli; cli.main(['run', '--help'], standalone_mode=False)"
    assert loaded(code, ("rich",)) == []


def test_a_mistyped_command_loads_no_command() -> None:
    code = (
        "import sys; from australis.cli.main import main; sys.argv[1:] = ['statsu']\n"
        "try: main()\nexcept SystemExit: pass"
    )
    assert loaded(code) == []


def test_a_command_that_is_called_is_loaded() -> None:
    assert "rich" in loaded("from australis.cli.main import cli; cli.commands['sim']")


def test_the_package_loads_its_names_when_they_are_used() -> None:
    assert loaded("import australis") == []
    assert "pyarrow" in loaded("import australis; australis.diagram")
    assert loaded("import australis; australis.load") == []


def test_the_builder_keeps_its_name_when_the_subpackage_of_that_name_is_imported() -> None:
    code = (
        "import australis as au, australis.diagram.model; d = au.diagram('d');"
        " from australis import diagram; assert diagram is au.diagram is au.DiagramBuilder"
    )
    assert "pyarrow" in loaded(code)


def test_all_public_names_are_there() -> None:
    code = "from australis import *; import australis; assert {*australis.__all__} <= {*globals()}"
    assert "pyarrow" in loaded(code)
    listed = "import australis; assert {*australis.__all__} <= {*dir(australis)}"
    assert loaded(listed) == []


def test_a_name_the_package_does_not_have() -> None:
    import australis

    with pytest.raises(AttributeError, match="module 'australis' has no attribute 'diagramm'"):
        _ = australis.diagramm


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_the_command_says(name: str) -> None:
    command = cli.commands[name]
    assert command.name == name
    assert command.get_short_help_str(limit=1000) == COMMANDS[name].short_help
    assert not command.hidden


def test_the_list_looks_as_if_all_commands_were_loaded() -> None:
    eager = click.Group("australis", commands={name: cli.commands[name] for name in cli.commands})
    lazy = LazyGroup("australis", table=COMMANDS)
    shown = [CliRunner().invoke(group, ["--help"]).output for group in (eager, lazy)]
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["statsu"], "No such command 'statsu'. Did you mean 'status'?"),
        (["sim", "hotspot"], "No such command 'hotspot'. Did you mean 'hotspots'?"),
        (["sim", "dpc", "--sed", "1"], "No such option '--sed'. "),
        (["draw", "--widht", "80"], "No such option '--widht'. Did you mean '--width'?"),
    ],
)
def test_what_was_mistyped(typed: list[str], meant: str) -> None:
    assert f"Error: {meant}" in CliRunner().invoke(cli, typed).output


def test_a_command_may_be_added_and_taken_away() -> None:
    group = LazyGroup("g", table={"up": LazyCommand("australis.cli.cluster:up", "")})
    group.add_command(click.Command("extra"))
    assert list(group.commands) == ["up", "extra"]
    assert len(group.commands) == 2
    del group.commands["extra"]
    assert "extra" not in group.commands
    assert "up" in group.commands
