"""Reading a diagram from a file: YAML, or Python that defines `diagram`."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from australis.diagram import diagram_file
from australis.diagram.build import DiagramBuilder
from australis.diagram.model import Diagram, Operator, Spark
from australis.kernel.errors import Place, UserError
from australis.runtime.files import read_text

_RUN_NAME = "__australis__"
"""The `__name__` of a Python file while its diagram is read."""


def load(path: Path | str) -> Diagram:
    """The diagram in this file; a `UserError` gives the file and line of a mistake."""
    path = Path(path)
    if path.is_dir():
        raise UserError("is a directory, not a diagram", place=Place(str(path)))
    if not path.is_file():
        raise UserError("there is no such file", place=Place(str(path)))
    if path.suffix == ".py":
        return _load_python(path)
    if path.suffix not in (".yaml", ".yml"):
        raise UserError(
            "a diagram is a .yaml file or a .py file that defines 'diagram'", place=Place(str(path))
        )
    return diagram_file.load(read_text(path), str(path))


def seen_from_above(diagram: Diagram, folder: Path) -> Diagram:
    """The diagram of a file in this folder, with its relative paths beginning above the folder."""

    def rebased(path: str) -> str:
        return path if path.startswith("~") else str(folder / path)

    def part(one: Any) -> Any:
        options = {**one.options}
        paths = options.get("path")
        if paths is not None:
            several = [rebased(str(p)) for p in paths] if isinstance(paths, list) else None
            options["path"] = several or rebased(str(paths))
        if isinstance(options.get("token"), str):
            options["token"] = rebased(options["token"])
        if isinstance(options.get("tls"), Mapping):
            options["tls"] = {k: rebased(str(v)) for k, v in options["tls"].items()}
        return replace(one, options=options)

    def function(one: Operator) -> Operator:
        if not isinstance(one, Spark) or ".py:" not in one.function:
            return one
        return replace(one, function=rebased(one.function))

    return replace(
        diagram,
        sources=tuple(map(part, diagram.sources)),
        operators=tuple(map(function, diagram.operators)),
        sinks=tuple(map(part, diagram.sinks)),
    )


def _load_python(path: Path) -> Diagram:
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)
    try:
        names = runpy.run_path(str(path), run_name=_RUN_NAME)
    except UserError as error:
        raise error.at(Place(str(path), _line(error, path))) from None
    except (Exception, SystemExit) as error:
        line = error.lineno if isinstance(error, SyntaxError) else _line(error, path)
        said = error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())
        raise UserError(f"{type(error).__name__}: {said}", place=Place(str(path), line)) from None
    finally:
        sys.path.remove(folder)
    found = _find(names, path)
    operators = tuple(_found_again(operator, path) for operator in found.operators)
    return replace(found, operators=operators, place=Place(str(path)))


def _found_again(operator: Operator, path: Path) -> Operator:
    """Refer to a function of the diagram's own file by the name of that file."""
    if isinstance(operator, Spark) and operator.function.startswith(f"{_RUN_NAME}:"):
        name = operator.function.removeprefix(f"{_RUN_NAME}:")
        return replace(operator, function=f"{path.name}:{name}")
    return operator


def _line(error: BaseException, path: Path) -> int | None:
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    return lines[-1] if lines else None


def _find(names: dict[str, Any], path: Path) -> Diagram:
    found = names.get("diagram")
    if isinstance(found, DiagramBuilder):
        found = found.done()
    if isinstance(found, Diagram):
        return found
    builders = [value for value in names.values() if isinstance(value, DiagramBuilder)]
    if len(builders) == 1:
        return builders[0].done()
    raise UserError("defines no 'diagram'", place=Place(str(path)))
