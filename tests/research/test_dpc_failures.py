"""`dpc-failures`: figure 5-6 of the thesis."""

from __future__ import annotations

from research.thesis_dpc.failures import EXPERIMENT


def test_every_claim_holds_and_the_gain_is_measured() -> None:
    result = EXPERIMENT.run(True, lambda line: None)
    assert result.ok, result.surprises
    assert any(d.startswith("Measured") for d in result.deviations)
