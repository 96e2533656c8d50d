"""`dpc-overhead`, reduced: table 5.2 of the thesis."""

from __future__ import annotations

from research.thesis_dpc.overhead import EXPERIMENT, PAPER


def test_every_claim_holds_and_the_paper_stands_beside_ours() -> None:
    result = EXPERIMENT.run(True, lambda line: None)
    assert result.ok, result.surprises
    (table,) = result.tables
    assert [row[:3] for row in table.rows] == [(i, m, s) for i, (m, s) in PAPER.items()]
