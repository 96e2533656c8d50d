"""Makes `research` importable: experiments and benches lie in a checkout, beside the package."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import australis
from australis.kernel.errors import UserError

CHECKOUT = Path(australis.__file__).parent.parent
LIBRARIES = ("matplotlib", "numba", "simpy", "topohub")
"""The libraries that only `research` needs: the extra of that name in pyproject.toml."""


def use_research(command: str) -> None:
    """Make `research` importable, here and in processes that this one starts."""
    if (CHECKOUT / "research" / "__init__.py").is_file():
        if str(CHECKOUT) not in sys.path:
            sys.path.append(str(CHECKOUT))
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if str(CHECKOUT) not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join([*filter(None, paths), str(CHECKOUT)])
    if importlib.util.find_spec("research") is None:
        raise UserError(
            "needs a checkout of Australis: its experiments and benches are not installed with the"
            " package. In a checkout run `make setup`, then `.venv/bin/australis` there",
            name=f"australis {command}",
        )


@contextmanager
def missing_library_told(command: str) -> Iterator[None]:
    """The error message for a missing library of the extra `research`, and how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in LIBRARIES:
            raise
        raise UserError(
            f"needs {library}, which is not installed: run pip install 'australis[research]'",
            name=f"australis {command}",
        ) from None
