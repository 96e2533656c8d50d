"""The documents are true to the tree: links lead somewhere, code is code, commands exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import click
import pytest

from australis.cli.main import cli

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


def test_the_modules_of_the_glossary_exist() -> None:
    for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)+)/?`", (ROOT / "GLOSSARY.md").read_text()):
        places = (ROOT / "australis" / name, ROOT / name)
        assert any(p.exists() or p.with_suffix(".py").exists() for p in places), name
