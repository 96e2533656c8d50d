"""The instances of the contract experiments."""

from __future__ import annotations

from research.thesis_contracts.arrays.variants import figure_7_1


def test_figure_7_1_has_sixteen_hundred_runs() -> None:
    assert len(list(figure_7_1())) == 1_600
