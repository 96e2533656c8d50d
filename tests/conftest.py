"""Every test has one kind, and those that need Spark keep to two workers.

`pytest -m KIND` runs one kind; pyproject.toml says what each is, `kinds.py` which folder is what.
A file that is of another kind than its folder says so: `pytestmark = pytest.mark.live`. Tests
that take long for what they find are marked `long` besides, and `make long` runs them.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from kinds import KINDS, NotOneKind, is_long, kind_of, unknown_long_tests
from xdist.scheduler import LoadScopeScheduling

# A busy machine is no mistake of ours: no test fails because an example took long. What passed
# once passes again, since examples follow from a test's code; `make explore` draws new ones.
hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1_000)
hypothesis.settings.load_profile(os.environ.get("AUSTRALIS_HYPOTHESIS", "repeatable"))

TESTS = Path(__file__).parent
WITH_SPARK = ("tests/spark/", "tests/end_to_end/")
"""They wait much: two of them and one without Spark make good use of two cores."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its kind, before `-m` selects by it."""
    wrong = []
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        marks = {mark.name for mark in item.iter_markers()}
        try:
            kind = kind_of(folder, marks, getattr(item, "fixturenames", ()))
        except NotOneKind as error:
            wrong.append(f"{item.nodeid} is {error}")
            continue
        if kind not in marks:
            item.add_marker(kind)
        if is_long(folder, item.nodeid):
            item.add_marker("long")
        item.user_properties.append(("kind", kind))
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:  # that is all tests
        ends = unknown_long_tests([item.nodeid for item in items])
        wrong += [f"no test is called ...{end}, which kinds.py says takes long" for end in ends]
    if wrong:
        raise pytest.UsageError(*wrong)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests of each kind ran and how many seconds they took together."""
    seconds: defaultdict[str, float] = defaultdict(float)
    number: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                kind = str(dict(report.user_properties)["kind"])
                seconds[kind] += report.duration
                number[kind] += report.when == "call"
    if len(number) > 1:
        told = (f"{kind} {number[kind]} in {seconds[kind]:.0f} s" for kind in KINDS if number[kind])
        terminalreporter.write_sep("=", "kinds")
        terminalreporter.write_line(", ".join(told))


class SparkApart(LoadScopeScheduling):
    """All tests of a directory that needs Spark go to one worker, any others to any.

    With `--dist loadgroup` the tests of an `xdist_group` go to one worker too.
    """

    def _split_scope(self, nodeid: str) -> str:
        test, _, group = nodeid.rpartition("@")
        if test and "]" not in group:
            return group
        return next((d for d in WITH_SPARK if nodeid.startswith(d)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return SparkApart(config, log)
