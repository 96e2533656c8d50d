"""The model of hot spots as the experiments use it."""

from __future__ import annotations

from research.synergy.runs import outcome


def test_a_component_moves_for_all_its_applications_at_once() -> None:
    assert any(outcome(seed).shared_moves for seed in range(2))
