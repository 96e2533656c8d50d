"""The documents are true to the tree: links lead somewhere, code is code, commands exist."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import click
import pytest

from australis.cli.main import cli
from australis.node.admission import RANK_BUDGETS, SENDER_BUDGETS, Budget, Rank

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
FOLDERS = ("australis", "docs", "examples", "research", "scripts", "tests")
EXISTING = {str(p.relative_to(ROOT)) for folder in FOLDERS for p in (ROOT / folder).rglob("*")}
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(?:`|\.venv/bin/)australis +([a-z]+(?: +[a-z]+)?)")
PATH = re.compile(r"`((?:\w+/)+[\w-]+\.(?:py|md|yaml|toml|sh|txt))`")
FILES = pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
EXAMPLE_NAMES = ("KIND", "NAME", "PAPER")
"""What stands for a name in a path that is to be written."""


@FILES
def test_links_lead_to_files(file: Path) -> None:
    for target in LINK.findall(file.read_text()):
        assert (file.parent / target).exists(), target


@FILES
def test_paths_exist(file: Path) -> None:
    for path in PATH.findall(file.read_text()):
        if not any(name in path for name in EXAMPLE_NAMES):
            found = path in EXISTING or any(one.endswith(f"/{path}") for one in EXISTING)
            assert found, path


@FILES
def test_python_is_python(file: Path) -> None:
    for language, text in BLOCK.findall(file.read_text()):
        if language == "python":
            ast.parse(text)


@FILES
def test_commands_exist(file: Path) -> None:
    for said in COMMAND.findall(file.read_text()):
        context = click.Context(cli)
        first, *rest = said.split()
        command = cli.get_command(context, first)
        assert command is not None, said
        if rest and isinstance(command, click.Group):
            assert command.get_command(context, rest[0]) is not None, said


LIMIT = re.compile(r"^\|.*\| ([\d,]+)( \w+)? \| `([\w.]+)\.(\w+)` \|$", re.MULTILINE)
UNITS = {"": 1, "s": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def test_the_limits_are_those_of_the_code() -> None:
    found = LIMIT.findall((ROOT / "docs/reference/security.md").read_text())
    assert len(found) > 20
    for number, unit, module, constant in found:
        value = getattr(importlib.import_module(f"australis.{module}"), constant)
        assert value == int(number.replace(",", "")) * UNITS[unit.strip()], constant


def test_the_budgets_are_those_of_the_code() -> None:
    text = (ROOT / "docs/reference/security.md").read_text()
    row = r"messages of {}s \| ([\d,]+) and (\d+) (\w+) \| ([\d,]+) and (\d+) (\w+) \|"
    for rank in Rank:
        said = re.search(row.format(rank.name.lower()), text)
        assert said is not None
        numbers = [said.group(n).replace(",", "") for n in range(1, 7)]
        for (count, size, unit), budgets in (
            (numbers[:3], SENDER_BUDGETS),
            (numbers[3:], RANK_BUDGETS),
        ):
            assert budgets[rank] == Budget(int(count), int(size) * UNITS[unit])


def test_the_modules_of_the_glossary_exist() -> None:
    for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)+)/?`", (ROOT / "GLOSSARY.md").read_text()):
        places = (ROOT / "australis" / name, ROOT / name)
        assert any(p.exists() or p.with_suffix(".py").exists() for p in places), name
