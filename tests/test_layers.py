"""The layers of the architecture, enforced: imports go downward, pure packages stay pure."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from australis.cli.research import LIBRARIES

ROOT = Path(__file__).parent.parent / "australis"
LAYERS = [
    *(
        "kernel",
        "yamlfile",
        "queueing",
        "placement",
        "elasticity",
        "streams",
        "diagram",
        "deployment",
        "reference",
    ),
    "protocols",
    "node",
    *("spark", "runtime", "cli"),
]
"""From the bottom up; `sim` stands beside `runtime` and knows neither Spark nor Flight."""
_BELOW_SIM = {*LAYERS[: LAYERS.index("node") + 1]}
MAY_IMPORT = {name: set(LAYERS[: i + 1]) for i, name in enumerate(LAYERS)} | {
    "reference": {"kernel", "streams", "diagram", "reference"},
    "sim": _BELOW_SIM | {"sim"},
    "scenarios": set(LAYERS[:-1]) | {"sim", "scenarios"},
    "cli": {*LAYERS, "sim", "scenarios"},
}
PURE = tuple(LAYERS[: LAYERS.index("node") + 1])
ALLOWED = {"random.Random"}
"""A generator that is handed over is not the global one."""
IMPURE_MODULES = {
    "asyncio", "fcntl", "glob", "io", "multiprocessing", "os", "pathlib", "queue", "random",
    "secrets", "shutil", "signal", "socket", "subprocess", "tempfile", "threading", "time",
    "urllib", "uuid",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input", "now", "utcnow", "today", "default_rng"}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def package(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[0] if len(parts) > 1 else ""


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def in_package(*packages: str) -> list[Path]:
    return [p for p in modules() if package(p) in packages]


@pytest.mark.parametrize("path", [p for p in modules() if package(p)], ids=str)
def test_imports_go_downward(path: Path) -> None:
    for name in imports(path):
        top, _, rest = name.partition(".")
        if top == "australis" and rest and (ROOT / rest.split(".")[0]).is_dir():
            target = rest.split(".")[0]
            assert target in MAY_IMPORT[package(path)], f"{path} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=str)
def test_only_the_command_line_loads_research(path: Path) -> None:
    """The installed package works without it."""
    named = [name for name in imports(path) if name.partition(".")[0] == "research"]
    assert not named or package(path) == "cli", f"{path} imports {named}"


@pytest.mark.parametrize("path", modules(), ids=str)
def test_libraries_of_the_research_extra_stay_outside(path: Path) -> None:
    """An installation that only runs Australis does not have them."""
    named = {name.partition(".")[0] for name in imports(path)} & {*LIBRARIES, "scipy"}
    assert not named, f"{path} imports {named}"


def test_the_research_extra_is_what_the_command_line_says_is_missing() -> None:
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]
    extra = {re.split(r"\W", one)[0] for one in project["optional-dependencies"]["research"]}
    needed = {re.split(r"\W", one)[0] for one in project["dependencies"]}
    assert extra == set(LIBRARIES)
    assert not extra & needed


@pytest.mark.parametrize("path", modules(), ids=str)
def test_spark_and_flight_stay_in_their_packages(path: Path) -> None:
    for name in imports(path):
        if name.startswith(("pyspark", "py4j")):
            assert package(path) == "spark", f"{path} imports {name}"
        if name.startswith(("asyncio", "pyarrow.flight")):
            assert package(path) == "runtime", f"{path} imports {name}"


@pytest.mark.parametrize("path", in_package(*PURE), ids=str)
def test_pure_packages_touch_nothing(path: Path) -> None:
    named = set(imports(path))
    for name in named:
        module = name.split(".")[0]
        used = {n for n in named if n.startswith(f"{module}.")} or {module}
        assert module not in IMPURE_MODULES or used <= ALLOWED, f"{path} imports {name}"
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = (
                node.func.attr
                if isinstance(node.func, ast.Attribute)
                else getattr(node.func, "id", "")
            )
            assert called not in IMPURE_CALLS, f"{path}:{node.lineno} calls {called}"


def test_every_module_says_what_it_is() -> None:
    missing = [p for p in modules() if not ast.get_docstring(ast.parse(p.read_text()))]
    assert not missing
