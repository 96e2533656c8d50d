"""What tentative buckets rest on: the buckets of the original sources that were missing.

The precision of tentative results is future work in the thesis (5.8.3). Here each tentative bucket
says which buckets of which sources it should contain and does not: those that were missing when
its lane processed it, those that the state of the lane has missed since it was forked, as far as
that state reaches back, and those that its own tentative inputs were missing. So what was missing
at the first hop is still named at the last one.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from australis.kernel.machine import Message

MAX_RUNS = 256
"""The largest number of runs of missing buckets of one source; beyond it the oldest are joined."""
Run = tuple[int, int]
"""The buckets (after, upto]."""


class MissingSource(Message, frozen=True, array_like=True, tag=True, gc=False):
    """The buckets of one source that are missing, as runs in order."""

    source: str
    runs: tuple[Run, ...]


Missing = tuple[MissingSource, ...]
"""All that is missing, in the order of the sources' names."""


def absent(sources: Iterable[str], after: int, upto: int) -> Missing:
    """The buckets (after, upto] of these sources."""
    return tuple(MissingSource(s, ((after, upto),)) for s in sorted(sources) if upto > after)


def union(parts: Iterable[Missing]) -> Missing:
    """Everything that is missing in some part.

    >>> union([absent(["b", "a"], 3, 4), absent(["b"], 4, 6), absent(["b"], 8, 9)])[1]
    MissingSource(source='b', runs=((3, 6), (8, 9)))
    """
    runs: dict[str, set[Run]] = {}
    for one in chain.from_iterable(parts):
        runs.setdefault(one.source, set()).update(one.runs)
    return tuple(MissingSource(source, _joined(runs[source])) for source in sorted(runs))


def _joined(runs: Iterable[Run]) -> tuple[Run, ...]:
    joined: list[Run] = []
    for after, upto in sorted(runs):
        if joined and after <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(upto, joined[-1][1]))
        else:
            joined.append((after, upto))
    surplus = len(joined) - MAX_RUNS
    if surplus > 0:
        joined[: surplus + 1] = [(joined[0][0], joined[surplus][1])]
    return tuple(joined)


def share(missing: Missing, number: int, sources: int) -> float:
    """The part of the buckets of all sources that is there, from the first missing one up to
    bucket `number`.

    >>> share(absent(["a"], 3, 4), 4, sources=2), share((), 4, 2)
    (0.5, 1.0)
    """
    runs = [run for one in missing for run in one.runs]
    if not runs or not sources:
        return 1.0
    first = min(after for after, _ in runs)
    gone = sum(upto - after for after, upto in runs)
    return max(0.0, 1.0 - gone / (max(1, number - first) * sources))


class Lacking:
    """What a tentative lane was not given since it was forked, as far as its state reaches back."""

    def __init__(self, reach: int | None) -> None:
        """A lane whose state reaches back so many buckets; None if there is no limit."""
        self._reach = reach
        self._parts: list[tuple[Run, Missing, tuple[str, ...]]] = []
        """Of a run of buckets: what its inputs were missing, and the sources that were absent."""

    def add(self, after: int, upto: int, inherited: Missing, sources: Iterable[str]) -> Missing:
        """Add the buckets (after, upto]; returns what bucket `upto` is missing."""
        gone = tuple(sources)
        if self._reach is None:
            before = (part for _, part, _ in self._parts)
            inherited = union([*before, inherited, absent(gone, after, upto)])
            self._parts = [((after, upto), inherited, ())]
            return inherited
        first = upto - 1 - self._reach
        self._parts = [part for part in self._parts if part[0][1] > first]
        if inherited or gone:
            self._parts.append(((after, upto), inherited, gone))
        return union(
            chain.from_iterable(
                (had, absent(those, max(a, first), b)) for (a, b), had, those in self._parts
            )
        )
