"""Table 5.1: the formulas for time and memory, with the parts measured here."""

from __future__ import annotations

from collections.abc import Sequence

from research.claims import Claim, Source, Table
from research.predicates import above, below, between, each, exactly, fields
from research.thesis_dpc.reconcile.trials import ALPHA, TECHNIQUES, Measured, with_boxes


def predicted(measured: Measured) -> dict[str, float]:
    """Table 5.1 in ms; the checkpoint is of the moment of failure, so its l is 0 (5.5.1)."""
    case, p = measured.case, measured.parts
    again, gap = case.failed, case.gap
    tentative = int((1 - ALPHA) * again)
    checkpoint = case.state * p.copy + again * p.proc
    scanned = case.state + gap + tentative
    undo = scanned * p.comp + (case.state + gap + again) * p.proc
    return {"checkpoint": 1000 * checkpoint, "undo": 1000 * undo}


def claims(by_state: Sequence[Measured]) -> list[Claim]:
    """Times and memory against the formulas."""
    return [*_time_claims(by_state), *_memory_claims(by_state)]


def _time_claims(by_state: Sequence[Measured]) -> list[Claim]:
    cases = with_boxes(by_state, 1)
    parts = [m.parts for m in cases]
    last = parts[-1]
    off = [m.ms(t) / predicted(m)[t] for m in cases for t in ("checkpoint", "undo")]
    return [
        Claim(
            "Table 5.1: p_comp is small compared with p_copy, and p_proc > p_copy (ns; tolerated:"
            " the highest ratios)",
            {
                "p_comp / p_copy": max(p.comp / p.copy for p in parts),
                "p_copy / p_proc": max(p.copy / p.proc for p in parts),
            },
            fields(**{"p_comp / p_copy": below(1), "p_copy / p_proc": below(1)}),
            "p_comp < p_copy < p_proc",
            shown=", ".join(f"{p * 1e9:.0f}" for p in (last.comp, last.copy, last.proc)),
        ),
        Claim(
            "Table 5.1: measured reconciliation / formula with measured p, lowest and highest",
            [min(off), max(off)],
            each(between(0.6, 1.67)),
            1,
            Source.TABLE,
        ),
    ]


def holds_claim(by_state: Sequence[Measured]) -> Claim:
    """The tuples counted in checkpoints and input buffers, against the formula."""
    off = [m.held["checkpoint"] - (m.case.state + m.case.failed) for m in by_state]
    return Claim(
        "Table 5.1: checkpoint/redo holds S + F λ_in tuples (l = 0; counted, less the formula)",
        off,
        each(exactly(0)),
        "S + (l + F) λ_in",
        Source.TABLE,
    )


def _memory_claims(by_state: Sequence[Measured]) -> list[Claim]:
    return [
        holds_claim(by_state),
        Claim(
            "Table 5.1: with two boxes undo/redo holds more, as every box has a buffer (ratio, lowest)",
            min(m.held["undo"] / m.held["checkpoint"] for m in with_boxes(by_state, 2)),
            above(1),
            "S + (l + F) λ",
            Source.TABLE,
        ),
    ]


def tables(by_state: Sequence[Measured]) -> list[Table]:
    """Times and memory."""
    return [_formulas(by_state), _memory(by_state)]


def _formulas(by_state: Sequence[Measured]) -> Table:
    rows = []
    for m in with_boxes(by_state, 1):
        formula, p = predicted(m), m.parts
        times = [round(v, 2) for t in ("checkpoint", "undo") for v in (formula[t], m.ms(t))]
        rows.append((m.case.state, *(round(v * 1e9, 1) for v in (p.comp, p.copy, p.proc)), *times))
    columns = (
        "state",
        "p_comp (ns)",
        "p_copy (ns)",
        "p_proc (ns)",
        "checkpoint: formula (ms)",
        "measured",
        "undo: formula (ms)",
        "measured",
    )
    return Table("Table 5.1: reconciliation time", columns, tuple(rows))


def _memory(by_state: Sequence[Measured]) -> Table:
    rows = [
        (
            m.case.state,
            m.case.boxes,
            *(m.held[t] for t in TECHNIQUES),
            m.case.state + round((1 - ALPHA) * m.case.failed),
        )
        for m in by_state
    ]
    columns = ("state", "boxes", *TECHNIQUES, "only stable tuples (expression 5.1)")
    return Table("Memory: tuples held at the end of the failure", columns, tuple(rows))
