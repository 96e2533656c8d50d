"""Which tests may run side by side: those that need Spark keep to two workers."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

# A busy machine is no mistake of ours: no test fails because an example took long.
hypothesis.settings.register_profile("australis", deadline=None)
hypothesis.settings.load_profile("australis")

WITH_SPARK = ("tests/spark/", "tests/end_to_end/")
"""They wait much: two of them and one without Spark make good use of two cores."""


class SparkApart(LoadScopeScheduling):
    """All tests of a directory that needs Spark go to one worker, any others to any."""

    def _split_scope(self, nodeid: str) -> str:
        return next((d for d in WITH_SPARK if nodeid.startswith(d)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return SparkApart(config, log)
