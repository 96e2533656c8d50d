"""Seeds of moves, one by one."""

from __future__ import annotations

from collections import Counter

from australis.kernel.trace import Trace
from australis.sim.movement.broken import BROKEN
from australis.sim.movement.host import FlowHost
from australis.sim.movement.trial import Trial
from australis.sim.seeds import Verdict

VARIANTS = {host.__name__: host for host in BROKEN}
QUIET = ("Advanced(", "ReadersChanged(")
"""Entries of a trace that tell nothing of a move."""


def _host_of(variant: str | None) -> type[FlowHost]:
    return FlowHost if variant is None else VARIANTS[variant]


def judge(variant: str | None, seed: int) -> Verdict:
    """Run one seed."""
    trial = Trial(seed, _host_of(variant))
    return Verdict(seed, tuple(trial.run()), Counter(trial.counts))


def story(variant: str | None, seed: int) -> tuple[Verdict, list[str]]:
    """Run one seed, and tell what was said and done about moves."""
    trace = Trace(keep=None)
    trial = Trial(seed, _host_of(variant), trace)
    violations = tuple(trial.run())
    lines = [str(entry) for entry in trace if not entry.text.startswith(QUIET)]
    return Verdict(seed, violations, Counter(trial.counts)), lines
