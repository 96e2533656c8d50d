"""Seeds of ants, one by one."""

from __future__ import annotations

from collections import Counter

from australis.kernel.trace import Trace
from australis.protocols.ants.cell import CellMachine
from australis.sim.ants.broken import BROKEN
from australis.sim.ants.trial import Trial
from australis.sim.seeds import Verdict

VARIANTS = {cell.__name__: cell for cell in BROKEN}
TELLING = ("Submitted(", "Withdrawn(", "TellPlaced(", "TellUnplaced(", "Enforce", "Release(")
"""Entries of a trace that are worth telling: hundreds of ants are under way at any time."""


def _cell_of(variant: str | None) -> type[CellMachine]:
    return CellMachine if variant is None else VARIANTS[variant]


def judge(variant: str | None, seed: int) -> Verdict:
    """Run one seed."""
    trial = Trial(seed, _cell_of(variant))
    return Verdict(seed, tuple(trial.run()), Counter(trial.counts))


def story(variant: str | None, seed: int) -> tuple[Verdict, list[str]]:
    """Run one seed, and tell what became of the queries."""
    trace = Trace(keep=None)
    trial = Trial(seed, _cell_of(variant), trace)
    violations = tuple(trial.run())
    lines = [str(entry)[:200] for entry in trace if entry.text.startswith(TELLING)]
    return Verdict(seed, violations, Counter(trial.counts)), lines
