"""`dpc-client`: figure 5-4 of the thesis."""

from __future__ import annotations

import pytest

from research.claims import Result
from research.thesis_dpc.client import EXPERIMENT
from research.thesis_dpc.measure import Delivery, What
from research.thesis_dpc.strip import CONTROL, MISSING, chart_text, squares, strip_text


@pytest.fixture(scope="module")
def result() -> Result:
    return EXPERIMENT.run(True, lambda line: None)


def test_every_claim_holds(result: Result) -> None:
    assert result.ok, result.surprises


def test_the_strip_shows_all_four_kinds(result: Result) -> None:
    strip = result.drawings[0]
    assert all(letter in strip for letter in "█▒!·")


def test_a_square_stands_for_some_tuples_and_what_lacks_is_missing() -> None:
    told = [
        Delivery(What.STABLE, 0, 0, 6, True),
        Delivery(What.TENTATIVE, 1, 1, 4, True),
        Delivery(What.UNDO, 2, 0, 0, False),
    ]
    kinds = list(squares(told, per_square=2, full=3))
    assert kinds == ["stable"] * 3 + ["tentative"] * 2 + [MISSING, CONTROL]
    assert strip_text(kinds, width=4).splitlines()[:2] == ["███▒", "▒·!"]


def test_a_chart_has_its_peak_on_top() -> None:
    lines = chart_text([(0, 0), (1, 5)], "x", "y", width=20, height=3).splitlines()
    assert lines[1] == "  5.0 |" + " " * 19 + "*"
