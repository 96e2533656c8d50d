"""The buckets that a query may read: in memory, and in logs of its own node."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from heapq import merge

import pyarrow as pa

from australis.protocols.dpc.spans import Spans
from australis.runtime.logs import SharedLog

Inputs = tuple[pa.RecordBatch | None, ...]
"""The tuples of one bucket, for each input."""
FindLog = Callable[[str, str], SharedLog]
"""The log of a stream that a machine of this node keeps."""


class HeldInputs:
    """The buckets that one query has still to read, of all its inputs."""

    def __init__(self, streams: Sequence[str], find_log: FindLog) -> None:
        self._streams = tuple(streams)
        self._find_log = find_log
        self._numbers: list[int] = []
        self._batches: dict[int, list[pa.RecordBatch | None]] = {}
        self._rows: dict[int, int] = {}
        self._logs: list[list[tuple[int, int, SharedLog]]] = [[] for _ in streams]

    def add(self, inputs: Sequence[Spans]) -> None:
        """Add buckets that a lane is to process; a later version of a bucket replaces another."""
        for i, spans in enumerate(inputs):
            for span in spans:
                if span.log:
                    self._add_log(i, span.after, span.upto, span.log)
                else:
                    for bucket in span.buckets:
                        self._put(bucket.number, i, bucket.batch)

    def _add_log(self, i: int, after: int, upto: int, machine: str) -> None:
        log, known = self._find_log(machine, self._streams[i]), self._logs[i]
        if known:
            known_after, known_upto, last = known[-1]
            if known_upto >= upto:
                return
            if last is log and known_upto >= after:
                known[-1] = (known_after, upto, log)
                return
            after = max(after, known_upto)
        known.append((after, upto, log))

    def _put(self, number: int, i: int, batch: pa.RecordBatch | None) -> None:
        held = self._batches.get(number)
        if held is None:
            if batch is None:
                return
            held = self._batches[number] = [None] * len(self._streams)
            insort(self._numbers, number)
            self._rows[number] = 0
        before = held[i]
        held[i] = batch
        self._rows[number] += _rows(batch) - _rows(before)

    def update(self, other: HeldInputs) -> None:
        """Add the buckets that another query of the same inputs holds."""
        for number, batches in other._batches.items():
            for i, batch in enumerate(batches):
                self._put(number, i, batch)
        for i, known in enumerate(other._logs):
            for after, upto, log in known:
                mine = self._logs[i]
                if not mine or mine[-1][1] < upto:
                    mine.append((max(after, mine[-1][1]) if mine else after, upto, log))

    def forget(self, upto: int) -> None:
        """Drop the buckets up to this one, which have been processed."""
        gone = bisect_right(self._numbers, upto)
        for number in self._numbers[:gone]:
            del self._batches[number], self._rows[number]
        del self._numbers[:gone]
        self._logs = [
            [(max(low, upto), high, log) for low, high, log in known if high > upto]
            for known in self._logs
        ]

    def rows_between(self, after: int, upto: int) -> int:
        """The number of tuples in the buckets (after, upto]."""
        numbers = self._numbers
        rows = sum(
            self._rows[n]
            for n in numbers[bisect_left(numbers, after + 1) : bisect_right(numbers, upto)]
        )
        for known in self._logs:
            for low, high, log in known:
                if low < upto and after < high:
                    rows += log.rows_between(max(low, after), min(high, upto))
        return rows

    def between(self, after: int, upto: int) -> HeldInputs:
        """The buckets (after, upto] as they are now, for a reader on another thread."""
        copy = HeldInputs(self._streams, self._find_log)
        numbers = self._numbers
        copy._numbers = numbers[bisect_left(numbers, after + 1) : bisect_right(numbers, upto)]
        copy._batches = {n: self._batches[n] for n in copy._numbers}
        copy._rows = {n: self._rows[n] for n in copy._numbers}
        copy._logs = [
            [(max(a, after), min(u, upto), log) for a, u, log in known if a < upto and after < u]
            for known in self._logs
        ]
        return copy

    def read(self, after: int, upto: int) -> list[list[pa.RecordBatch]]:
        """The tuples of each input in the buckets (after, upto]."""
        return [list(self._read(i, after, upto)) for i in range(len(self._streams))]

    def _read(self, i: int, after: int, upto: int) -> Iterator[pa.RecordBatch]:
        """In the order of the buckets; what is in memory counts before what is in a log."""
        numbers = self._numbers
        held = numbers[bisect_left(numbers, after + 1) : bisect_right(numbers, upto)]
        memory = ((n, b) for n in held if (b := self._batches[n][i]) is not None)
        logged = (
            (n, batch)
            for low, high, log in self._logs[i]
            if low < upto and after < high
            for n, batch in log.read(max(low, after), min(high, upto))
        )
        last = -1
        for number, batch in merge(memory, logged, key=_number):
            if number != last:
                yield batch
            last = number

    def __contains__(self, number: int) -> bool:
        in_log = any(low < number <= high for known in self._logs for low, high, _ in known)
        return in_log or number in self._batches

    def __iter__(self) -> Iterator[int]:
        """The buckets in memory, in order."""
        return iter(self._numbers)


def _number(one: tuple[int, pa.RecordBatch]) -> int:
    return one[0]


def _rows(batch: pa.RecordBatch | None) -> int:
    return 0 if batch is None else int(batch.num_rows)


def read_spans(inputs: Sequence[Spans], streams: Sequence[str], find_log: FindLog) -> HeldInputs:
    """The tuples of a piece of work that an engine processes in one step."""
    held = HeldInputs(streams, find_log)
    held.add(inputs)
    return held
