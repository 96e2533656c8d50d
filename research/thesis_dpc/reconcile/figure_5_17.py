"""Figure 5-17: how long each technique takes to reconcile."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import correlation, linear_regression, median

from research.claims import Claim, Picture, Table, own_claim
from research.plots import Plot, Series
from research.predicates import above, at_least, between, each, none
from research.thesis_dpc.reconcile.trials import TECHNIQUES, Measured, size_of, with_boxes

BOTH = ("checkpoint", "undo")
FASTER = "faster in all configurations"


def claims(
    by_state: Sequence[Measured], by_count: Sequence[Measured], joins: Sequence[Measured]
) -> list[Claim]:
    """The claims of section 5.5.1, and the same claims for a join."""
    return [
        _faster(
            "Fig. 5-17(a): checkpoint/redo reconciles faster for every state size"
            " (undo / checkpoint, lowest)",
            min(m.ratio("undo") for m in by_state),
        ),
        _faster(
            "Fig. 5-17(b): and for every number of tuples (undo / checkpoint, lowest)",
            min(m.ratio("undo") for m in by_count),
        ),
        _faster(
            "Fig. 5-17(b): and against undo with limited history (median of all cases)",
            median(m.ratio("undo, limited history") for m in by_count),
        ),
        _faster(
            "Fig. 5-17(a), another operator: the same with a join whose index is copied queue by"
            " queue (undo / checkpoint, lowest)",
            min(m.ratio("undo") for m in joins),
        ),
        _linear("Fig. 5-17(a): both grow linearly with S (lower correlation)", by_state, "state"),
        _linear(
            "Fig. 5-17(b): both grow linearly with F λ (lower correlation)", by_count, "tuples"
        ),
        Claim(
            "Fig. 5-17(b): two boxes in series double λ and so the slope (checkpoint, undo)",
            [_slope(by_count, 2, t) / _slope(by_count, 1, t) for t in BOTH],
            each(between(1.5, 2.5)),
            "doubles λ",
        ),
    ]


def equal_claim(found: Sequence[Measured]) -> Claim:
    """The claim that both techniques give equal, correct results."""
    wrong = [m.case for m in found if not m.correct]
    return own_claim(
        "Both put out exactly what a run without failure does",
        wrong,
        none(),
        shown=f"{len(found) - len(wrong)} of {len(found)} cases",
    )


def _faster(text: str, ratio: float) -> Claim:
    return Claim(text, ratio, above(1), FASTER)


def _linear(text: str, found: Sequence[Measured], what: str) -> Claim:
    cases = with_boxes(found, 1)
    xs = [float(size_of(m.case, what)) for m in cases]
    worst = min(correlation(xs, [m.ms(t) for m in cases]) for t in BOTH)
    return Claim(text, worst, at_least(0.95), "increases linearly")


def _slope(found: Sequence[Measured], boxes: int, technique: str) -> float:
    cases = with_boxes(found, boxes)
    times = [m.ms(technique) for m in cases]
    return linear_regression([float(m.case.failed) for m in cases], times).slope


def tables(
    by_state: Sequence[Measured], by_count: Sequence[Measured], joins: Sequence[Measured]
) -> list[Table]:
    """Times of all cases."""
    return [
        _times("Figure 5-17(a): reconciliation (ms), growing state", "state", by_state),
        _times("Figure 5-17(b): reconciliation (ms), growing failure", "tuples", by_count),
        _joins(joins),
    ]


def _times(title: str, what: str, found: Sequence[Measured]) -> Table:
    rows = []
    for one, two in zip(with_boxes(found, 1), with_boxes(found, 2), strict=True):
        times = [round(m.ms(t), 2) for m in (one, two) for t in TECHNIQUES]
        rows.append((size_of(one.case, what), *times))
    return Table(title, (what, *(_name(t, b) for b in (1, 2) for t in TECHNIQUES)), tuple(rows))


def _joins(joins: Sequence[Measured]) -> Table:
    rows = [
        (m.case.state, *(round(m.ms(t), 2) for t in TECHNIQUES), round(m.ratio("undo"), 3))
        for m in joins
    ]
    columns = ("state", *TECHNIQUES, "undo / checkpoint")
    return Table("A join with an index: reconciliation (ms), growing state", columns, tuple(rows))


def _name(technique: str, boxes: int) -> str:
    return f"{technique}, {boxes} box{'es' * (boxes > 1)}"


def pictures(by_state: Sequence[Measured], by_count: Sequence[Measured]) -> list[Picture]:
    """Both parts as curves."""

    def curves(found: Sequence[Measured], what: str) -> list[Series]:
        return [
            Series(
                _name(t, b),
                tuple((size_of(m.case, what), m.ms(t)) for m in with_boxes(found, b)),
            )
            for b in (1, 2)
            for t in TECHNIQUES
        ]

    time = "reconciliation (ms CPU)"
    state, tuples = curves(by_state, "state"), curves(by_count, "tuples")
    b = Plot("Figure 5-17(b): growing failure", "tuples to process again", time, tuples)
    return [
        Picture("5-17a", Plot("Figure 5-17(a): growing state", "state (tuples)", time, state)),
        Picture("5-17b", b),
    ]
