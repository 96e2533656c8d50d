"""`dpc-failures`: figure 5-6 of the thesis."""

from __future__ import annotations

from australis.experiments.dpc_failures import EXPERIMENT


def test_every_claim_holds_and_the_gain_is_measured() -> None:
    result = EXPERIMENT.run(True, lambda line: None)
    assert [c.text for c in result.claims if not c.ok] == []
    assert any(d.startswith("Measured") for d in result.deviations)
