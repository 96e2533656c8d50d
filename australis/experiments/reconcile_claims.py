"""What `dpc-reconcile` claims: table 5.1, figures 5-17 and 5-18."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import correlation, linear_regression, median

from australis.experiments.claims import Claim, Source, at_least
from australis.experiments.reconcile_trials import ALPHA, Measured, Overhead, size_of, with_boxes


def faster_claims(by_state: Sequence[Measured], by_count: Sequence[Measured]) -> list[Claim]:
    limited = median(m.ratio("undo, limited history") for m in by_count)
    return [
        _above_one(
            "Fig. 5-17(a): checkpoint/redo reconciles faster for every state size"
            " (undo / checkpoint, lowest)",
            min(m.ratio("undo") for m in by_state),
        ),
        _above_one(
            "Fig. 5-17(b): and for every number of tuples (undo / checkpoint, lowest)",
            min(m.ratio("undo") for m in by_count),
        ),
        _above_one(
            "Fig. 5-17(b): and against undo with limited history (median of all cases)", limited
        ),
    ]


def faster_join_claim(joins: Sequence[Measured]) -> Claim:
    return _above_one(
        "Fig. 5-17(a), another operator: the same with a join whose index is copied queue by queue"
        " (undo / checkpoint, lowest)",
        min(m.ratio("undo") for m in joins),
    )


def _above_one(text: str, ratio: float) -> Claim:
    return Claim(text, round(ratio, 3), ratio > 1, "faster in all configurations", tolerance="> 1")


def linear_claims(by_state: Sequence[Measured], by_count: Sequence[Measured]) -> list[Claim]:
    claims = []
    for what, found, text in (
        ("state", by_state, "Fig. 5-17(a): both grow linearly with S (lower correlation)"),
        ("tuples", by_count, "Fig. 5-17(b): both grow linearly with F λ (lower correlation)"),
    ):
        cases = with_boxes(found, 1)
        xs = [float(size_of(m.case, what)) for m in cases]
        worst = min(correlation(xs, [m.ms(t) for m in cases]) for t in ("checkpoint", "undo"))
        claims.append(at_least(text, worst, 0.95, paper="increases linearly"))
    return claims


def _slope(found: Sequence[Measured], boxes: int, technique: str) -> float:
    cases = with_boxes(found, boxes)
    times = [m.ms(technique) for m in cases]
    return linear_regression([float(m.case.failed) for m in cases], times).slope


def doubled_claim(by_count: Sequence[Measured]) -> Claim:
    ratios = [_slope(by_count, 2, t) / _slope(by_count, 1, t) for t in ("checkpoint", "undo")]
    return Claim(
        "Fig. 5-17(b): two boxes in series double λ and so the slope (checkpoint, undo)",
        ", ".join(f"{r:.2f}" for r in ratios),
        all(1.5 <= r <= 2.5 for r in ratios),
        "doubles λ",
        tolerance="1.5 to 2.5",
    )


def cpu_claims(running: Mapping[int, Overhead]) -> list[Claim]:
    lowest = min(o.checkpoints / o.markers for o in running.values())
    sizes = [float(s) for s in running]
    grows = correlation(sizes, [o.checkpoints for o in running.values()])
    return [
        Claim(
            "Fig. 5-18: periodic checkpoints cost more CPU than stream markers at every state size"
            " (ratio, lowest)",
            round(lowest, 2),
            lowest > 1,
            "checkpoints are more expensive",
            tolerance="> 1",
        ),
        at_least(
            "Fig. 5-18: the cost of checkpoints grows with the state (correlation)",
            grows,
            0.95,
            paper="S p_copy / l",
            source=Source.TABLE,
        ),
    ]


def predicted(measured: Measured) -> dict[str, float]:
    """Table 5.1 in ms; the checkpoint is of the moment of failure, so its l is 0 (5.5.1)."""
    case, p = measured.case, measured.parts
    again, gap = case.failed, case.gap
    tentative = int((1 - ALPHA) * again)
    checkpoint = case.state * p.copy + again * p.proc
    scanned = case.state + gap + tentative
    undo = scanned * p.comp + (case.state + gap + again) * p.proc
    return {"checkpoint": 1000 * checkpoint, "undo": 1000 * undo}


def formulas_claims(by_state: Sequence[Measured]) -> list[Claim]:
    cases = with_boxes(by_state, 1)
    order = all(m.parts.comp < m.parts.copy < m.parts.proc for m in cases)
    last = cases[-1].parts
    off = [m.ms(t) / predicted(m)[t] for m in cases for t in ("checkpoint", "undo")]
    return [
        Claim(
            "Table 5.1: p_comp is small compared with p_copy, and p_proc > p_copy (ns)",
            f"{last.comp * 1e9:.0f}, {last.copy * 1e9:.0f}, {last.proc * 1e9:.0f}",
            order,
            "p_comp < p_copy < p_proc",
        ),
        Claim(
            "Table 5.1: measured reconciliation / formula with measured p, lowest and highest",
            f"{min(off):.2f}, {max(off):.2f}",
            min(off) >= 0.6 and max(off) <= 1.67,
            1,
            Source.TABLE,
            "0.6 to 1.67",
        ),
    ]


def memory_claims(by_state: Sequence[Measured]) -> list[Claim]:
    wrong = [m.case for m in by_state if m.held["checkpoint"] != m.case.state + m.case.failed]
    more = min(m.held["undo"] / m.held["checkpoint"] for m in with_boxes(by_state, 2))
    return [
        Claim(
            "Table 5.1: checkpoint/redo holds S + F λ_in tuples (l = 0)",
            "all cases" if not wrong else f"not {wrong}",
            not wrong,
            "S + (l + F) λ_in",
            Source.TABLE,
            "exact",
        ),
        Claim(
            "Table 5.1: with two boxes undo/redo holds more, as every box has a buffer (ratio, lowest)",
            round(more, 2),
            more > 1,
            "S + (l + F) λ",
            Source.TABLE,
            "> 1",
        ),
    ]


def equal_claim(found: Sequence[Measured]) -> Claim:
    wrong = [m.case for m in found if not m.correct]
    return Claim(
        "Both put out exactly what a run without failure does",
        f"{len(found) - len(wrong)} of {len(found)} cases",
        not wrong,
        None,
        Source.UNAVAILABLE,
        "exact",
    )
