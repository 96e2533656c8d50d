"""Which tests may run side by side: those that need Spark go one after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

WITH_SPARK = ("spark", "end_to_end", "examples", "live")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With two workers one has the tests that start a JVM, the other one all the others."""
    tests = Path(__file__).parent
    for item in items:
        top = item.path.relative_to(tests).parts[0]
        item.add_marker(pytest.mark.xdist_group("spark" if top in WITH_SPARK else "pure"))
