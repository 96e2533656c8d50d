"""`dpc-overhead`, reduced: table 5.2 of the thesis."""

from __future__ import annotations

from australis.experiments.dpc_overhead import EXPERIMENT, PAPER


def test_every_claim_holds_and_the_paper_stands_beside_ours() -> None:
    result = EXPERIMENT.run(True, lambda line: None)
    assert [c.text for c in result.claims if not c.ok] == []
    (table,) = result.tables
    assert [row[:3] for row in table.rows] == [(i, m, s) for i, (m, s) in PAPER.items()]
