"""The experiments, reduced: each ends as expected, with known misses where claims are marked."""

from __future__ import annotations

import pytest

from research.claims import Result
from research.registry import MODULES, find
from research.report import as_markdown

TESTED_APART = {
    "dpc-single",
    "dpc-client",
    "dpc-failures",
    "dpc-chain",
    "dpc-overhead",
    "dpc-reconcile",
}
"""More is asked of these, in files of their own."""


@pytest.mark.parametrize("name", [name for name in MODULES if name not in TESTED_APART])
def test_every_claim_ends_as_expected(name: str) -> None:
    experiment = find(name)
    result: Result = experiment.run(True, lambda line: None)
    surprises = {c.text: (c.verdict.value, c.ours, c.tolerance) for c in result.surprises}
    assert not surprises
    assert result.ok
    assert result.claims
    assert result.tables
    assert name in as_markdown(experiment, result)
