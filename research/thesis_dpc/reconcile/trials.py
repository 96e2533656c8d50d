"""Measuring reconciliation: real CPU time of both techniques on the same tuples."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from random import Random
from statistics import quantiles
from time import process_time

from research.claims import Progress
from research.thesis_dpc.reconcile.undo_redo import (
    ID,
    AggregateBox,
    Box,
    CheckpointRedo,
    Row,
    UndoRedo,
)

FAILURE_S = 5.0
INTERVAL_S = 0.2
"""The interval between checkpoints, and between stream markers."""
ALPHA = 1 / 3
"""The share of input streams that becomes tentative."""
TECHNIQUES = ("checkpoint", "undo", "undo, limited history")


@dataclass(frozen=True)
class Case:
    """A chain of boxes and a rate."""

    state: int
    """Tuples of state, over all boxes."""
    rate: int
    """Input tuples per second."""
    boxes: int = 1
    operator: type[Box] = AggregateBox

    @property
    def size(self) -> int:
        """The state of each box."""
        return self.state // self.boxes

    def line(self) -> list[Box]:
        """The chain of empty boxes."""
        return [self.operator(self.size) for _ in range(self.boxes)]

    @property
    def failed(self) -> int:
        """Input tuples that must be processed again."""
        return int(FAILURE_S * self.rate)

    @property
    def gap(self) -> int:
        """Tuples between the last marker and the failure, on average."""
        return int(0.5 * INTERVAL_S * self.rate)


@dataclass(frozen=True)
class Parts:
    """CPU time for one tuple: to compare it, to copy it, to process it (in seconds)."""

    comp: float
    copy: float
    proc: float


@dataclass(frozen=True)
class Inputs:
    """The tuples of one case: before the marker, before the failure, during it."""

    warm: list[Row]
    gap: list[Row]
    stable: list[Row]
    tentative: list[Row]


def inputs(case: Case, seed: int = 1) -> Inputs:
    """Tuples in groups of about four in each window."""
    rng = Random(seed)
    keys = max(1, case.size // 4)
    warm, gap = 2 * case.state + 50, case.gap
    rows = [[i, rng.randrange(keys), rng.randrange(1000)] for i in range(warm + gap + case.failed)]
    stable = rows[warm + gap :]
    return Inputs(rows[:warm], rows[warm : warm + gap], stable, [r for r in stable if r[0] % 3])


class Failed:
    """A case at the moment its failure heals, ready to be reconciled again and again."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._given = inputs(case)
        self._checkpoint = self._with_checkpoint()
        self._undo = {limited: self._with_markers(limited) for limited in (False, True)}

    def _with_checkpoint(self) -> CheckpointRedo:
        """The node takes the checkpoint as it enters UP_FAILURE, so it is always of that moment."""
        line, before = CheckpointRedo(self.case.line()), self._given.warm + self._given.gap
        line.receive(before)
        line.process(before)
        line.checkpoint()
        line.process(self._given.tentative)
        line.receive(self._given.stable)
        return line

    def _with_markers(self, limited: bool) -> UndoRedo:
        """Markers are computed while tuples are processed: the last are half an interval old."""
        given = self._given
        line = UndoRedo(self.case.line(), limited=limited)
        line.process(given.warm)
        line.mark(given.gap[0][ID])
        line.truncate()
        line.process(given.gap)
        line.process(given.tentative, tentative=True)
        return line

    def reconcile(self, technique: str, out: list[Row] | None = None) -> float:
        """Reconcile once; return the CPU seconds."""
        if technique == "checkpoint":
            return timed(lambda: self._checkpoint.reconcile(out))
        line = self._undo[technique == "undo, limited history"].copy()
        since = self._given.gap + self._given.stable
        return timed(lambda: line.reconcile(since, out))

    def held(self) -> dict[str, int]:
        """The number of tuples that each technique holds."""
        lines = (self._checkpoint, self._undo[False], self._undo[True])
        return dict(zip(TECHNIQUES, (line.held for line in lines), strict=True))

    def correct(self) -> bool:
        """Whether all techniques output what a run without failure does."""
        plain = CheckpointRedo(self.case.line())
        plain.process(self._given.warm + self._given.gap)
        expected: list[Row] = []
        plain.process(self._given.stable, expected)
        return all(self._put_out(t)[-len(expected) :] == expected for t in TECHNIQUES)

    def _put_out(self, technique: str) -> list[Row]:
        out: list[Row] = []
        self.reconcile(technique, out)
        return out

    def parts(self) -> Parts:
        """The CPU time to compare, copy and process one tuple on this machine."""
        box = self._checkpoint.saved[0]
        twin = box.copy()
        rows = self._given.stable

        def process() -> None:
            for row in rows:
                twin.process(row)

        comp, copy = timed(box.oldest) / box.size, timed(box.copy) / box.size
        return Parts(comp, copy, timed(process) / len(rows))


@dataclass
class Measured:
    """All repetitions of one case."""

    case: Case
    held: dict[str, int]
    correct: bool
    seconds: dict[str, list[float]] = field(default_factory=lambda: {t: [] for t in TECHNIQUES})
    pieces: list[Parts] = field(default_factory=list)

    def ms(self, technique: str) -> float:
        """How long a reconciliation takes."""
        return 1000 * typical(self.seconds[technique])

    def ratio(self, technique: str) -> float:
        """The duration of a technique relative to checkpoint/redo."""
        return self.ms(technique) / self.ms("checkpoint")

    @property
    def parts(self) -> Parts:
        """The typical CPU times of the parts."""
        return Parts(*(typical([getattr(p, f.name) for p in self.pieces]) for f in fields(Parts)))


def typical(values: Sequence[float]) -> float:
    """The lower quartile: other load on a machine can only add to a time.

    >>> typical([1.0, 1.0, 1.0, 9.0])
    1.0
    """
    return quantiles(values, n=4, method="inclusive")[0]


def measure_cases(cases: Iterable[Case], rounds: int, progress: Progress) -> list[Measured]:
    """Measure every case with every technique in each round, so that other load hits all alike."""
    failed = [Failed(case) for case in cases]
    found = [Measured(f.case, f.held(), f.correct()) for f in failed]
    for i in range(rounds):
        progress(f"reconciling: round {i + 1} of {rounds}")
        turn = TECHNIQUES[i % 3 :] + TECHNIQUES[: i % 3]
        for one, into in zip(failed, found, strict=True):
            for technique in turn:
                into.seconds[technique].append(one.reconcile(technique))
            into.pieces.append(one.parts())
    return found


def timed(call: Callable[[], object]) -> float:
    """The CPU time a call takes, without pauses of the garbage collector."""
    with _no_garbage_collection():
        began = process_time()
        call()
        return process_time() - began


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def with_boxes(found: Sequence[Measured], boxes: int) -> list[Measured]:
    """The cases with this number of boxes in the chain."""
    return [m for m in found if m.case.boxes == boxes]


def size_of(case: Case, what: str) -> int:
    """The parameter that grows from case to case: the state, or the tuples to process again."""
    return case.state if what == "state" else case.failed


@dataclass(frozen=True)
class Overhead:
    """CPU time of the periodic work, in seconds for each second of stream."""

    checkpoints: float
    markers: float
    processing: float


def overheads(states: Sequence[int], rate: int, rounds: int) -> dict[int, Overhead]:
    """The overhead for each size of state, all sizes in every round."""
    found: dict[int, list[Overhead]] = {state: [] for state in states}
    for _ in range(rounds):
        for state in states:
            found[state].append(_overhead(Case(state, rate)))
    return {
        state: Overhead(*(typical([getattr(o, f.name) for o in them]) for f in fields(Overhead)))
        for state, them in found.items()
    }


def _overhead(case: Case) -> Overhead:
    """A second without failures, with a checkpoint and a marker computation every interval."""
    per_slice = int(INTERVAL_S * case.rate)
    given = inputs(case)
    line, undo = CheckpointRedo(case.line()), UndoRedo(case.line())
    line.process(given.warm)
    checkpoints = markers = processing = 0.0
    for i in range(round(1 / INTERVAL_S)):
        processing += timed(partial(line.process, given.stable[i * per_slice :][:per_slice]))
        undo.boxes = line.boxes
        checkpoints += timed(line.checkpoint)
        markers += timed(partial(undo.mark, 0))
    return Overhead(checkpoints, markers, processing)
