"""Checkpoint/redo against undo/redo (table 5.1, figures 5-17 and 5-18, section 5.5).

The only place where undo/redo exists (see `undo_redo`); everything here is real CPU time.
"""

from __future__ import annotations

from australis.experiments.claims import Progress, Result
from australis.experiments.reconcile_claims import (
    cpu_claims,
    doubled_claim,
    equal_claim,
    faster_claims,
    faster_join_claim,
    formulas_claims,
    linear_claims,
    memory_claims,
)
from australis.experiments.reconcile_trials import FAILURE_S, Case, measure_cases, overheads
from australis.experiments.reconcile_views import (
    formula_table,
    join_table,
    memory_table,
    pictures,
    running_table,
    time_table,
)
from australis.experiments.undo_redo import JoinBox

RATE = 1000
"""The tuple rate while the state grows (5.5.1)."""
STATE = 20
"""The state while the number of tuples grows (5.5.1)."""


class DpcReconcile:
    """Reconciliation time, CPU overhead and memory of both techniques."""

    name = "dpc-reconcile"
    description = "State reconciliation by checkpoint/redo and by undo/redo, in real CPU time."
    reproduces = "thesis table 5.1, figures 5-17 and 5-18, expression 5.1"
    duration = "1 to 2 min, quick 15 s"

    def run(self, quick: bool, progress: Progress) -> Result:
        """Measure everything several times, in turns."""
        rounds = 12 if quick else 40
        states = (1000, 5000, 10_000) if quick else (1000, 2500, 5000, 7500, 10_000)
        counts = (5000, 10_000, 15_000) if quick else (5000, 10_000, 15_000, 20_000, 25_000)
        by_state = measure_cases(
            [Case(s, RATE, b) for s in states for b in (1, 2)], rounds, progress
        )
        rates = [int(n / FAILURE_S) for n in counts]
        by_count = measure_cases(
            [Case(STATE, r, b) for r in rates for b in (1, 2)], rounds, progress
        )
        joins = measure_cases([Case(s, RATE, operator=JoinBox) for s in states], rounds, progress)
        progress("CPU overhead without failures")
        running = overheads(states, RATE, rounds)
        return Result(
            (
                *faster_claims(by_state, by_count),
                faster_join_claim(joins),
                *linear_claims(by_state, by_count),
                doubled_claim(by_count),
                *cpu_claims(running),
                *formulas_claims(by_state),
                *memory_claims(by_state),
                equal_claim([*by_state, *by_count, *joins]),
            ),
            (
                time_table("Figure 5-17(a): reconciliation (ms), growing state", "state", by_state),
                time_table(
                    "Figure 5-17(b): reconciliation (ms), growing failure", "tuples", by_count
                ),
                join_table(joins),
                running_table(running, RATE),
                formula_table(by_state),
                memory_table(by_state),
            ),
            _DEVIATIONS,
            pictures(by_state, by_count, running),
        )


_DEVIATIONS = (
    "Undo/redo is implemented for this experiment alone (experiments/undo_redo.py), on a small"
    " windowed aggregate in plain Python; Australis reconciles by a stable lane and has no use for it. Absolute times"
    " are this machine's; the thesis' plots are not in the stored text.",
    "The thesis plots Proc_new, which contains D = 1 s of suspension and queues; here the CPU time of"
    " reconciliation itself is measured, which is what differs between the techniques.",
    "How much checkpoint/redo gains depends on p_copy against p_proc. The aggregate's state is flat"
    " and quickly copied; the join's index is made of many small queues that must be made anew, so"
    " it gains less.",
    "A time is the lower quartile of all rounds: whatever else the machine does can only add to it.",
    "Stream markers are found by looking at the whole state, the worst case of appendix B.1; a"
    " window that keeps its order would know its oldest tuple at once.",
    "In the formula for undo/redo the tuples scanned backward are those in the undo buffer: the"
    " tentative ones of the failure are two thirds of the stable ones, since one input of three is"
    " missing. The formula of table 5.1 counts (F + 0.5 l) λ of them.",
    "Memory counts tuples at the moment of healing: the undo buffer then holds tentative tuples,"
    " the checkpoint's input buffer the stable ones. Expression 5.1, buffers of only the stable"
    " inputs, is computed.",
)
EXPERIMENT = DpcReconcile()
