"""`dpc-single`, reduced: figures 5-7 and 5-8 of the thesis."""

from __future__ import annotations

import pytest

from research.claims import Result
from research.thesis_dpc.single.experiment import EXPERIMENT


@pytest.fixture(scope="module")
def result() -> Result:
    return EXPERIMENT.run(True, lambda line: None)


def test_every_claim_ends_as_expected(result: Result) -> None:
    assert result.ok, result.surprises


def test_the_claims_of_the_thesis_hold(result: Result) -> None:
    assert all(c.known_miss is None for c in result.claims if c.text.startswith("Fig."))


def test_on_our_node_one_claim_does_not(result: Result) -> None:
    """Two lanes share a CPU: see the deviations."""
    (missed,) = [c for c in result.claims if not c.ok]
    assert missed.text == "Our node: Delay & Delay gives the fewest tentative tuples of the four"
    assert any("Process & Delay" in d for d in result.deviations)


def test_tables_and_plots_are_there(result: Result) -> None:
    assert len(result.tables) == 6
    assert [p.name for p in result.pictures] == [
        "5-7-tentative", "5-7-latency", "5-8-tentative", "5-8-latency",
    ]  # fmt: skip
