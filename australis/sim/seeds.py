"""Many seeds on all cores, and what is found in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass


@dataclass(frozen=True)
class Violation:
    """What a checker found."""

    seed: int
    checker: str
    story: str


@dataclass(frozen=True)
class Verdict:
    """What is left of a run when it is over."""

    seed: int
    violations: tuple[Violation, ...]
    counts: Counter[str]
    """What happened, by kind."""


def search(judge: Callable[[int], Verdict], seeds: Sequence[int], jobs: int) -> Iterator[Verdict]:
    """Run many; verdicts come in the order of the seeds."""
    if jobs == 1 or len(seeds) == 1:
        yield from map(judge, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(judge, seeds, chunksize=4)
