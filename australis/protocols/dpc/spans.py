"""Stable buckets of one stream, run-length encoded: empty buckets are not listed.

A stream that is quiet for a year, or that has ended, is one span and not a million
buckets. A span lists the buckets that hold tuples and those that entered the system
at another time than the next listed one; its last bucket is always listed. A bucket
that is not listed is empty and entered with the next listed one.

>>> buckets = StableBuckets()
>>> buckets.add((Bucket(3, 40, "rows"), Bucket(9, 90)), 9)
>>> [(b.entered_us, b.batch) for b in (buckets.get(2), buckets.get(7))]
[(40, None), (90, None)]
>>> [(span.after, span.upto) for span in buckets.between(1, 5)]
[(1, 5)]
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec

from australis.protocols.dpc.messages import Bucket


class Span(msgspec.Struct, frozen=True, gc=False):
    """The stable buckets (after, upto] of one stream."""

    after: int
    upto: int
    buckets: tuple[Bucket, ...]
    log: str = ""
    """The machine on this node whose log holds the tuples; empty if they are in `buckets`."""

    @property
    def brief(self) -> str:
        """The span as one short word, for traces."""
        return f"({self.after},{self.upto}]{self.log and f' in {self.log}'}"


Spans = tuple[Span, ...]
"""Consecutive spans of one input."""


class StableBuckets:
    """The stable buckets (after, upto] of one input that its lanes may still ask for."""

    def __init__(self, after: int = -1) -> None:
        self.after = self.upto = after
        self._listed: dict[int, Bucket] = {}
        self._numbers: list[int] = []
        self._logs: deque[tuple[int, str]] = deque()
        """The log that holds the tuples, as runs of (last bucket, log)."""

    def __len__(self) -> int:
        return len(self._listed)

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def add(self, buckets: Sequence[Bucket], upto: int, log: str = "") -> None:
        """Append the buckets (self.upto, upto]; listed ones up to `self.upto` are ignored."""
        for bucket in buckets:
            if bucket.number > self.upto:
                self._listed[bucket.number] = bucket
                self._numbers.append(bucket.number)
        if self._logs and self._logs[-1][1] == log:
            self._logs[-1] = (upto, log)
        else:
            self._logs.append((upto, log))
        self.upto = upto

    def get(self, number: int) -> Bucket | None:
        """A bucket, or None if it is not held; its tuples may be in a log."""
        found = self._listed.get(number)
        if found is None and self.after < number <= self.upto:
            listed = self._numbers[bisect_left(self._numbers, number)]
            return Bucket(number, self._listed[listed].entered_us)
        return found

    def between(self, after: int, upto: int) -> Spans:
        """The spans that are held of the buckets (after, upto]."""
        after, upto = max(after, self.after), min(upto, self.upto)
        spans = []
        for end, log in self._logs:
            if end > after and after < upto:
                last = min(end, upto)
                spans.append(Span(after, last, self._listing(after, last), log))
                after = last
        return tuple(spans)

    def _listing(self, after: int, upto: int) -> tuple[Bucket, ...]:
        numbers = self._numbers
        low, high = bisect_right(numbers, after), bisect_right(numbers, upto)
        listed = [self._listed[n] for n in numbers[low:high]]
        if not listed or listed[-1].number < upto:
            listed.append(Bucket(upto, self._listed[numbers[high]].entered_us))
        return tuple(listed)

    def forget(self, upto: int) -> None:
        """Drop the buckets up to this one, which no lane will ask for again."""
        if upto <= self.after:
            return
        gone = bisect_right(self._numbers, upto)
        for number in self._numbers[:gone]:
            del self._listed[number]
        del self._numbers[:gone]
        while self._logs and self._logs[0][0] <= upto:
            self._logs.popleft()
        self.after, self.upto = upto, max(self.upto, upto)

    def clear(self, after: int) -> None:
        """Drop everything and continue after this bucket."""
        self.after = self.upto = after
        self._listed.clear()
        self._numbers.clear()
        self._logs.clear()


def entry_times(inputs: Sequence[Spans]) -> list[tuple[int, int]]:
    """The entry times of the output buckets of these inputs, as runs of (last bucket, time).

    An output bucket enters with the first of its input buckets.
    """
    listings = [[b for span in spans for b in span.buckets] for spans in inputs if spans]
    edges = sorted({b.number for listing in listings for b in listing})
    at = [0] * len(listings)
    runs: list[tuple[int, int]] = []
    for edge in edges:
        times = []
        for i, listing in enumerate(listings):
            while at[i] < len(listing) and listing[at[i]].number < edge:
                at[i] += 1
            if at[i] < len(listing):
                times.append(listing[at[i]].entered_us)
        entered = min(times)
        if runs and runs[-1][1] == entered:
            runs.pop()
        runs.append((edge, entered))
    return runs
