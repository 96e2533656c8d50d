"""Which tests may run side by side: those that need Spark go one after the other."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

WITH_SPARK = ("tests/spark/", "tests/end_to_end/")


class SparkApart(LoadScopeScheduling):
    """One worker has all tests that start a JVM, the others share all the rest."""

    def _split_scope(self, nodeid: str) -> str:
        return "spark" if nodeid.startswith(WITH_SPARK) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return SparkApart(config, log)
