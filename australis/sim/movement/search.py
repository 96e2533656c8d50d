"""Many seeds of moves on all cores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from australis.kernel.errors import UserError
from australis.kernel.trace import Trace
from australis.sim.movement.broken import BROKEN
from australis.sim.movement.host import FlowHost
from australis.sim.movement.trial import Trial, Violation

VARIANTS = {host.__name__: host for host in BROKEN}
QUIET = ("Advanced(", "ReadersChanged(")
"""Entries of a trace that tell nothing of a move."""


@dataclass(frozen=True)
class Verdict:
    """What is left of a run when it is over."""

    seed: int
    violations: tuple[Violation, ...]
    counts: Counter[str]
    """Messages by kind, moves that were done and called off, crashes."""


def host_of(variant: str | None) -> type[FlowHost]:
    """How hosts behave: as they should, or broken in one way."""
    if variant is None:
        return FlowHost
    if variant not in VARIANTS:
        raise UserError(f"is not a variant (known: {', '.join(VARIANTS)})", name=variant)
    return VARIANTS[variant]


def judge(variant: str | None, seed: int) -> Verdict:
    """Run one seed."""
    trial = Trial(seed, host_of(variant))
    return Verdict(seed, tuple(trial.run()), Counter(trial.counts))


def search(variant: str | None, seeds: Sequence[int], jobs: int) -> Iterator[Verdict]:
    """Run many; verdicts come in the order of the seeds."""
    if jobs == 1 or len(seeds) == 1:
        yield from map(partial(judge, variant), seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(partial(judge, variant), seeds, chunksize=4)


def story(variant: str | None, seed: int) -> tuple[Verdict, list[str]]:
    """Run one seed, and tell what was said and done about moves."""
    trace = Trace(keep=None)
    trial = Trial(seed, host_of(variant), trace)
    violations = tuple(trial.run())
    lines = [str(entry) for entry in trace if not entry.text.startswith(QUIET)]
    return Verdict(seed, violations, Counter(trial.counts)), lines
