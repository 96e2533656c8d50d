"""`dpc-reconcile`: both techniques are right; the claims that do not hang on a quiet machine."""

from __future__ import annotations

import pytest

from research.claims import Claim
from research.thesis_dpc.reconcile import table_5_1, trials
from research.thesis_dpc.reconcile.experiment import EXPERIMENT
from research.thesis_dpc.reconcile.trials import Case, Failed, Measured
from research.thesis_dpc.reconcile.undo_redo import (
    AggregateBox,
    Box,
    CheckpointRedo,
    JoinBox,
    UndoRedo,
)

WIDE_MARGIN = (
    "Fig. 5-17(a): checkpoint/redo reconciles faster",
    "Fig. 5-18: periodic checkpoints cost more",
    "Table 5.1: p_comp is small",
    "Table 5.1: checkpoint/redo holds",
    "Table 5.1: with two boxes",
    "Both put out exactly",
)
"""The others are a few percent, or correlations of times: a busy machine may hide them."""


@pytest.mark.parametrize("operator", [AggregateBox, JoinBox])
@pytest.mark.parametrize("boxes", [1, 2])
def test_both_techniques_put_out_what_a_run_without_failure_does(
    operator: type[Box], boxes: int
) -> None:
    assert Failed(Case(40, 100, boxes, operator)).correct()


def test_a_marker_names_the_oldest_tuple_of_the_state() -> None:
    line = UndoRedo([AggregateBox(3)])
    line.process([[i, 0, 1] for i in range(10)])
    line.mark(10)
    assert line.markers == [(7, 10)]
    line.truncate()
    assert [row[0] for row in line.buffers[0]] == [7, 8, 9]


def test_what_is_held_follows_table_5_1() -> None:
    case = Case(40, 300)
    held = Failed(case).held()
    assert held["checkpoint"] == 40 + case.failed
    assert held["undo, limited history"] == 40 + case.gap


class KeepsAll(CheckpointRedo):
    """It does not drop from its buffers what a checkpoint covers."""

    def checkpoint(self) -> None:
        arrived = list(self.arrived)
        super().checkpoint()
        self.arrived = arrived


class OldCheckpoint(CheckpointRedo):
    """It takes one checkpoint only, at the very beginning."""

    def checkpoint(self) -> None:
        self.saved = [type(box)(box.size) for box in self.boxes]


@pytest.mark.parametrize("kind", [KeepsAll, OldCheckpoint])
def test_the_claim_of_what_is_held_can_fail(
    monkeypatch: pytest.MonkeyPatch, kind: type[CheckpointRedo]
) -> None:
    def claim() -> Claim:
        case = Case(40, 300)
        failed = Failed(case)
        return table_5_1.holds_claim([Measured(case, failed.held(), failed.correct())])

    assert claim().ok
    monkeypatch.setattr(trials, "CheckpointRedo", kind)
    assert not claim().ok


def test_the_claims_with_a_wide_margin_hold() -> None:
    result = EXPERIMENT.run(True, lambda line: None)
    wide = [c for c in result.claims if c.text.startswith(WIDE_MARGIN)]
    assert len(wide) == len(WIDE_MARGIN)
    assert [c.text for c in wide if not c.ok] == []
