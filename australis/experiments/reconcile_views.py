"""The tables and plots of `dpc-reconcile`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from australis.experiments.claims import Picture, Table
from australis.experiments.reconcile_claims import predicted
from australis.experiments.reconcile_trials import (
    ALPHA,
    INTERVAL_S,
    TECHNIQUES,
    Measured,
    Overhead,
    size_of,
    with_boxes,
)
from australis.experiments.svg import Series, plot


def time_table(title: str, what: str, found: Sequence[Measured]) -> Table:
    columns = (what, *(f"{t}, {b} box{'es' * (b > 1)}" for b in (1, 2) for t in TECHNIQUES))
    rows = []
    for one, two in zip(with_boxes(found, 1), with_boxes(found, 2), strict=True):
        times = [round(m.ms(t), 2) for m in (one, two) for t in TECHNIQUES]
        rows.append((size_of(one.case, what), *times))
    return Table(title, columns, tuple(rows))


def join_table(joins: Sequence[Measured]) -> Table:
    rows = [
        (m.case.state, *(round(m.ms(t), 2) for t in TECHNIQUES), round(m.ratio("undo"), 3))
        for m in joins
    ]
    columns = ("state", *TECHNIQUES, "undo / checkpoint")
    return Table("A join with an index: reconciliation (ms), growing state", columns, tuple(rows))


def running_table(running: Mapping[int, Overhead], rate: int) -> Table:
    rows = [
        (s, *(round(1000 * v, 3) for v in (o.checkpoints, o.markers, o.processing)))
        for s, o in running.items()
    ]
    columns = ("state", "checkpoints", "stream markers", "processing itself")
    return Table(
        f"Figure 5-18: CPU (ms) a second of stream at {rate} tuples/s, every {INTERVAL_S:g} s",
        columns,
        tuple(rows),
    )


def formula_table(by_state: Sequence[Measured]) -> Table:
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


def memory_table(by_state: Sequence[Measured]) -> Table:
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


def pictures(
    by_state: Sequence[Measured], by_count: Sequence[Measured], running: Mapping[int, Overhead]
) -> tuple[Picture, ...]:
    def curves(found: Sequence[Measured], what: str) -> list[Series]:
        return [
            Series(
                f"{t}, {b} box{'es' * (b > 1)}",
                tuple((size_of(m.case, what), m.ms(t)) for m in with_boxes(found, b)),
            )
            for b in (1, 2)
            for t in TECHNIQUES
        ]

    cpu = [
        Series(name, tuple((s, 1000 * getattr(o, of)) for s, o in running.items()))
        for name, of in (("checkpoints", "checkpoints"), ("stream markers", "markers"))
    ]
    time, state = "reconciliation (ms CPU)", "state (tuples)"
    return (
        Picture(
            "5-17a", plot("Figure 5-17(a): growing state", state, time, curves(by_state, "state"))
        ),
        Picture(
            "5-17b",
            plot(
                "Figure 5-17(b): growing failure",
                "tuples to process again",
                time,
                curves(by_count, "tuples"),
            ),
        ),
        Picture(
            "5-18", plot("Figure 5-18: CPU overhead", state, "CPU (ms) a second of stream", cpu)
        ),
    )
